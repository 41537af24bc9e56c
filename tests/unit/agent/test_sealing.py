"""Which words of a command name a script, and that a sealed command runs what was looked at, or nothing."""

import asyncio
import os
from pathlib import Path

import pytest

from melete.agent.sealing import look, named, seal, unseal
from melete.core.environment import Place
from melete.core.tool import Act
from melete.environments.local import LocalEnvironment
from melete.tools.shell import Shell

NAMED = {
    "./x.sh": ["x.sh"],
    "bash x.sh a.txt": ["x.sh", "a.txt"],
    "sudo -u bob python3 -u 'my tool.py' --flag": ["my tool.py"],
    "A=1 nice -n 5 timeout 3s ./run": ["run"],
    "cd sub && ./x.sh": ["sub/x.sh"],
    "ls | bash -o pipefail x.sh; . env.sh": ["pipefail", "x.sh", "env.sh"],
    "python3 -c 'print(1)' x.py": [],
    "rm -rf ./build": [],
    "bash $f": [],
    "./a*.sh": [],
    "cat <<EOF\n./x.sh\nEOF": [],
    "cat <<EOF | sh y.sh\n./x.sh\nEOF": ["y.sh"],
    "(cd a && ./x); ./y": ["a/x", "y"],
    "cd $d && ./x": [],
    "bash -e x.sh": ["x.sh"],
    "bash -euc './x' ./y": [],
    "perl -i -pe s/a/b/ notes.txt": [],
    "awk -f x.awk data": ["x.awk", "data"],
    "bash >log x.sh": ["x.sh"],
    "coproc ./x.sh": ["x.sh"],
    "nohup 2>&1 bash <<E x.sh\nhi\nE": ["x.sh"],
    "docker run image ./x.sh": [],
    "python3 `./b` x.py; ./x@y ./z'q'": ["x.py", "b", "x@y"],
    "./x$y ./z{1,2}": [],
    "f() { ./it\\ self ä; }; f": ["it self"],
    "if ./check; then ./go; fi": ["check", "go"],
}


@pytest.mark.parametrize(("command", "found"), NAMED.items())
def test_words_that_may_name_a_script(command: str, found: list[str]) -> None:
    assert [word for _, _, word, _ in named(command) if word != "\0"] == found


def acting(env: LocalEnvironment, shell: Shell, command: str, cwd: Path) -> Act:
    async def probe(text: str) -> bytes:
        return await shell.probe(env, text)

    return Act(command=command, argument="command", cwd=str(cwd), probe=probe)


def place(folder: Path, **variables: str) -> Place:
    return Place(cwd=str(folder), variables={"PATH": os.environ["PATH"], "HOME": str(folder), **variables})


def test_a_script_that_is_changed_afterwards_runs_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "x.sh"
    script.write_text("#!/bin/sh\necho approved $1\n")
    script.chmod(0o755)

    async def main() -> list[str]:
        env, shell, said = LocalEnvironment(place(tmp_path)), Shell(), list[str]()
        try:
            for command in ("./x.sh one", "bash x.sh two", "sh ./x.sh three | cat"):
                script.write_text("#!/bin/sh\necho approved $1\n")
                ready = await seal(env, await look(env, acting(env, shell, command, tmp_path)))
                script.write_text("#!/bin/sh\necho swapped $1\n")
                said.append((await shell.run(env, ready.text, timeout=30)).done.output.decode())
                assert not ready.beside
        finally:
            await env.aclose()
        return said

    assert asyncio.run(main()) == ["approved one\n", "approved two\n", "approved three\n"]


SCRIPTS = {
    "python3 sub/go.py": (
        "sub/go.py", "import near\nprint(near.word, __file__.rpartition('/')[0])\n", "sub/near.py", "word = 'hi'\n"
    ),
    "bash sub/go.sh": (
        "sub/go.sh", '. "$(dirname "$0")/near"; echo "$word" "$(cd "$(dirname "$0")" && pwd -P)"\n', "sub/near", "word=hi\n"
    ),
    "cd sub && ./go": (
        "sub/go", '#!/usr/bin/env bash\n. "${BASH_SOURCE[0]%/*}/near"; echo "$word" "$PWD"\n', "sub/near", "word=hi\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", SCRIPTS)
def test_a_script_finds_what_lies_beside_it_and_nothing_is_left(tmp_path: Path, command: str) -> None:
    name, text, near, beside = SCRIPTS[command]
    (tmp_path / "sub").mkdir()
    script = tmp_path / name
    (tmp_path / near).write_text(beside)

    async def main(*, detached: bool) -> str:
        script.write_text(text)
        script.chmod(0o755)
        env, shell = LocalEnvironment(place(tmp_path)), Shell()
        try:
            ready = await seal(env, await look(env, acting(env, shell, command, tmp_path)), detached=detached)
            script.write_text("exit 3")
            if detached:
                said = (await env.exec(["bash", "-c", ready.text], timeout=30)).output.decode()
            else:
                said = (await shell.run(env, ready.text, timeout=30)).done.output.decode()
            await unseal(env, ready)
        finally:
            await env.aclose()
        return said

    for detached in (False, True):
        assert asyncio.run(main(detached=detached)) == f"hi {tmp_path / 'sub'}\n"
        assert not [*(tmp_path / "sub").glob(".sealed-*")]


def test_a_copy_that_a_crash_has_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print(1)")
    left = tmp_path / f".sealed-{'a' * 16}-x.py"
    others = [tmp_path / f".sealed-{'b' * 16}-y.py", tmp_path / ".sealed-secrets.yaml"]
    for path in (left, *others):
        path.write_text("")
        path.chmod(0o500)
    for path in (left, others[1]):
        os.utime(path, (1, 1))

    async def main() -> None:
        env = LocalEnvironment(place(tmp_path))
        try:
            ready = await seal(env, await look(env, acting(env, Shell(), "python3 x.py", tmp_path)))
            assert len(ready.beside) == 1
            await unseal(env, ready)
        finally:
            await env.aclose()

    asyncio.run(main())
    assert (left.exists(), [path.exists() for path in others]) == (False, [True, True])


def test_scripts_are_replaced_where_they_stand(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.sh").write_text(f"echo {name} $1\n")

    async def main() -> str:
        env, shell = LocalEnvironment(place(tmp_path)), Shell()
        try:
            ready = await seal(env, await look(env, acting(env, shell, 'bash >ü $(bash b.sh >&2) a.sh "é"', tmp_path)))
            for name in "ab":
                (tmp_path / f"{name}.sh").write_text("echo swapped")
            said = (await shell.run(env, ready.text, timeout=30)).done.output.decode()
        finally:
            await env.aclose()
        return said + (tmp_path / "ü").read_text()

    assert asyncio.run(main()) == "b\na é\n"


def test_where_everybody_may_write_the_copy_lies_apart(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print(1)")
    tmp_path.chmod(0o777)

    async def main() -> tuple[str, ...]:
        env, shell = LocalEnvironment(place(tmp_path)), Shell()
        try:
            return (await seal(env, await look(env, acting(env, shell, "python3 x.py", tmp_path)))).beside
        finally:
            await env.aclose()

    assert asyncio.run(main()) == ()


def test_a_folder_that_is_another_one_runs_nothing(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    link = tmp_path / "here"
    link.symlink_to("good")

    async def main() -> tuple[str, str]:
        env, shell = LocalEnvironment(place(tmp_path)), Shell()
        try:
            text = (await seal(env, await look(env, acting(env, shell, "touch ran", link)))).text
            good = (await shell.run(env, text, workdir=str(link), timeout=30)).done.output.decode()
            link.unlink()
            link.symlink_to("bad")
            bad = (await shell.run(env, text, workdir=str(link), timeout=30)).done.output.decode()
        finally:
            await env.aclose()
        return good, bad

    good, bad = asyncio.run(main())
    assert good == ""
    assert "nothing was run" in bad
    assert [(tmp_path / name / "ran").exists() for name in ("good", "bad")] == [True, False]


def test_what_a_grant_is_bound_to_follows_the_session_shell(tmp_path: Path) -> None:
    changes = [
        "export PATH=/nowhere:$PATH",
        "export LD_PRELOAD=",
        "export GIT_DIR=$'a\\nb'",
        "rm() { echo no; }",
        "export() { echo no; }",
        "alias ls=rm",
    ]

    async def main() -> list[str]:
        env, shell, seen = LocalEnvironment(place(tmp_path)), Shell(), list[str]()
        try:
            for change in ["true", "x=1", *changes]:
                await shell.run(env, change, timeout=30)
                bound = (await look(env, acting(env, shell, "rm x", tmp_path))).bound
                assert bound is not None
                seen.append(repr(bound))
        finally:
            await env.aclose()
        return seen

    first, second, *others = asyncio.run(main())
    assert first == second
    assert len({first, *others}) == 1 + len(changes)
