"""A read-only home: what is there can be listed, searched and shown; writing says what is wrong, and changes nothing."""

import asyncio
import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.workers import REF
from tests.story.log_processes import ROOT
from tests.unit.store.given import opened_store, with_turns

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1

READER = """
import asyncio, sys
from pathlib import Path
from melete.core.errors import StorageError
from melete.core.event import Opened
from melete.core.session import Query, SessionRef
from tests.unit.store.given import note, opened_store

async def main():
    store = opened_store(Path(sys.argv[1]))
    ref = SessionRef(id="s-1")
    print(len(await store.facts(ref)), len(await store.list()), len(await store.search(Query(text="files"))))
    print((await store.latest()).id, (await store.find("files")).id, len(await store.verify()))
    for act in (store.create(Opened()), store.send(ref, note("m-1")), store.rename(ref, "x"), store.spill(ref, "a", "b")):
        try:
            await act
        except StorageError as error:
            print(bool(error.what and error.kept and error.next))

asyncio.run(main())
"""


def as_somebody_without_privileges() -> None:
    """Make permissions count for root too."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="drops a capability of Linux")
@pytest.mark.parametrize("listed_before", [False, True])
def test_old_state_stays_readable_and_writing_says_why_not(tmp_path: Path, listed_before: bool) -> None:
    async def make() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 1, id=REF.id)
        if listed_before:
            await store.list()
        await store.aclose()

    asyncio.run(make())
    paths = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = sorted(paths)
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", READER, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=as_somebody_without_privileges,
        )
    finally:
        for path in paths:
            path.chmod(0o700)
    assert done.stderr == ""
    assert done.stdout.split() == [
        "10",
        "1",
        "1",
        "s-1",
        "s-1",
        str(int(listed_before)),
        "True",
        "True",
        "True",
        "True",
    ]
    assert sorted([tmp_path / "state", *(tmp_path / "state").rglob("*")]) == before
