"""Paths, archives, front matter and names from untrusted sources: what leaves its folder, fails oddly, or takes too much?

Roots and archives are built in a temporary folder; each case runs in a process of its own that is measured. Nothing from the
corpus is executed.
"""

import argparse
import base64
import gzip
import io
import json
import os
import resource
import stat
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row, say, show
from melete.core.errors import MeleteError
from melete.security.paths import resolve, within, wrong_id
from melete.skills.archive import skill_folder, unpack
from melete.skills.frontmatter import read_front

SECONDS = {"archives": 2.0}
MEGABYTES = {"archives": 200.0}
TYPES = {
    "symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "device": tarfile.CHRTYPE, "fifo": tarfile.FIFOTYPE,
    "dir": tarfile.DIRTYPE,
}  # fmt: skip
MODES = {"symlink": stat.S_IFLNK, "device": stat.S_IFCHR, "fifo": stat.S_IFIFO}
Verdict = tuple[str, str]


def rows(corpus: Path, name: str) -> list[dict[str, Any]]:
    """The cases of one file of the corpus."""
    with gzip.open(corpus / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def judge_path(row: Mapping[str, Any], folder: Path) -> Verdict:
    """Resolve a path below a root with links that lead out; the links are told apart by what the kernel says."""
    root = folder / "root"
    root.mkdir()
    for name, target in (("symlink_out", "/tmp"), ("symlink_file", "/etc/passwd"), ("dirlink", "/tmp")):
        (root / name).symlink_to(target)
    found = resolve(str(root), row["path"].replace("{FILE}", "etc/passwd"))
    return ("inside" if within(os.path.realpath(found), str(root)) else "ESCAPED"), found


def judge_name(row: Mapping[str, Any], _: Path) -> Verdict:
    """A skill's name."""
    why = wrong_id(row["name"])
    return ("refused" if why else "inside"), why


def judge_front(row: Mapping[str, Any], _: Path) -> Verdict:
    """The front matter of a skill."""
    if "bytes_b64" in row:
        data = base64.b64decode(row["bytes_b64"])
    elif "generate" in row:
        data = _generated(row["generate"]).encode()
    else:
        data = row["text"].encode("utf-8", "surrogatepass")
    return "inside", read_front(data).name


def _generated(recipe: Mapping[str, Any]) -> str:
    if recipe["kind"] == "frontmatter-keys":
        more = "".join(f"k{n}: v\n" for n in range(recipe["count"]))
        return f"---\nname: ok\ndescription: x\n{more}---\nbody\n"
    return f"---\nname: ok\ndescription: {'d' * recipe.get('size', recipe.get('count', 0))}\n---\nbody\n"


def judge_archive(row: Mapping[str, Any], folder: Path) -> Verdict:
    """Build the archive, unpack it, and look at what there is: inside, outside, and of which kind."""
    source, outer = folder / "archive", folder / "outer"
    source.write_bytes((_zip if row["kind"] == "zip" else _tar)(row["entries"]))
    target = outer / "in" / "target"
    target.mkdir(parents=True)
    (outer / "outside").write_text("kept")
    try:
        unpack(source, target, check=skill_folder)
    except MeleteError:
        if list(target.iterdir()):
            return "LEFT", "something is left in the root"
        raise
    finally:
        if sorted(path.name for path in outer.rglob("*") if not within(str(path), str(target))) != ["in", "outside"]:
            raise RuntimeError("something outside of the root was changed")
    for path in target.rglob("*"):
        found = path.lstat()
        plain = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
        if not plain or found.st_mode & 0o7000:
            return "ESCAPED", f"{path} is a link, a device or setuid"
    return "inside", ""


def _names(entry: Mapping[str, Any]) -> tuple[str, bytes]:
    name = "/".join(["d"] * entry["depth"] + ["f"]) if entry["type"] == "deep" else entry["name"]
    data = entry.get("data", entry.get("target", "")).encode()
    if entry["type"] == "bomb":
        data = b"\0" * entry.get("size", 300_000_000)
    if entry.get("enc", "").startswith("latin1"):
        data = b"\xff\xfe\xe9" + data
    return name, data


def _zip(entries: Sequence[Mapping[str, Any]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            name, data = _names(entry)
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            mode = int(entry.get("mode", "0644"), 8)
            info.external_attr = (MODES.get(entry["type"], stat.S_IFREG) | mode) << 16
            archive.writestr(info, data)
    data = bytearray(out.getvalue())
    if any(entry["type"] == "encrypted" for entry in entries):
        data[6] |= 1
        data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def _tar(entries: Sequence[Mapping[str, Any]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            name, data = _names(entry)
            info = tarfile.TarInfo(name)
            info.type = TYPES.get(entry["type"], tarfile.REGTYPE)
            info.mode = int(entry.get("mode", "0644"), 8)
            info.linkname = entry.get("target", "")
            info.size = len(data) if info.type == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


KINDS: dict[str, tuple[Callable[[Mapping[str, Any], Path], Verdict], str]] = {
    "relative_paths": (judge_path, "label"),
    "archives": (judge_archive, "expect"),
    "frontmatter": (judge_front, "expect"),
    "skill_names": (judge_name, "label"),
}
GOOD = {
    "reject": ("refused",), "invalid": ("refused",), "reserved": ("refused",), "contain": ("refused", "inside"),
    "allow": ("inside",), "accept": ("inside",), "valid": ("inside",), "accept-lenient": ("inside",),
    "escape": ("inside", "refused"),
}  # fmt: skip


def one(kind: str, row: Mapping[str, Any]) -> tuple[str, str, float, float]:
    """The verdict of a case, with its seconds and megabytes, in a child that is thrown away."""
    judge = KINDS[kind][0]
    with tempfile.TemporaryDirectory() as folder:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            before, began = _peak(), time.perf_counter()
            try:
                verdict, why = judge(row, Path(folder).resolve())
            except MeleteError as error:
                verdict, why = "refused", str(error)
            except BaseException as error:  # noqa: BLE001 - what is no typed error is the finding
                verdict, why = "UNTYPED", f"{type(error).__name__}: {error}"
            told = [verdict, why[:300], time.perf_counter() - began, _peak() - before]
            os.write(writer, json.dumps(told).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
    return tuple(json.loads(told)) if told else ("UNTYPED", "the process ended", 0.0, 0.0)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    options = argparse.ArgumentParser(prog="benchmarks paths", description=__doc__)
    options.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options.add_argument("--corpus", type=Path, required=True, help="the folder of untrusted_paths")
    options.add_argument("--wrong", action="store_true", help="list the cases that came out otherwise than they should")
    asked = options.parse_args()
    read_front(b"---\nname: a\ndescription: b\n---\n")  # what loads late is loaded before anything is measured
    shown: list[Row] = []
    bad = 0
    for kind, (_, label) in KINDS.items():
        tally = {"cases": 0, "as wanted": 0, "escapes": 0, "untyped": 0, "too slow or big": 0}
        slowest = largest = 0.0
        for row in rows(asked.corpus, kind):
            verdict, why, seconds, megabytes = one(kind, row)
            right = verdict in GOOD.get(row[label], ("inside", "refused"))
            slow = seconds > SECONDS.get(kind, 1.0) or megabytes > MEGABYTES.get(kind, 100.0)
            tally["cases"] += 1
            tally["as wanted"] += right
            tally["escapes"] += verdict in ("ESCAPED", "LEFT")
            tally["untyped"] += verdict == "UNTYPED"
            tally["too slow or big"] += slow
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            if asked.wrong and (not right or slow):
                say(f"{kind} {row['id']} {row[label]} -> {verdict}: {why}")
        bad += tally["cases"] - tally["as wanted"] + tally["too slow or big"]
        figures = [(name, "", float(value)) for name, value in tally.items()]
        figures += [("slowest", "ms", slowest * 1e3), ("most memory", "MB", largest)]
        shown += [
            Row(what=f"{kind}: {what}", unit=unit, values={"melete": value}, digits=0) for what, unit, value in figures
        ]
    show(shown, {"melete": Path(sys.executable).with_name("melete")}, as_json=asked.json)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
