"""A program that takes the command line of Apptainer, writes it down, and runs commands on this machine as they are.

It knows instances as the real one does: commands in one that was stopped are refused, and stopping ends what runs in it. Files in
its folder make it fail: `fail-limits`, `fail-overlay`, `fail-image` hold what it says then.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

PROGRAM = r"""#!/bin/sh
here=@HERE@
{ for word; do printf '%s\n' "$word"; done; echo; } >> "$here/record"
fatal() { echo "INFO:    starting"; echo "FATAL:   $1"; exit 255; } >&2
case "$1 $2" in
"instance start")
    for word; do
        case $word in
        --memory) [ ! -e "$here/fail-limits" ] || fatal "$(cat "$here/fail-limits")";;
        --overlay) [ ! -e "$here/fail-overlay" ] || fatal "$(cat "$here/fail-overlay")";;
        esac
        image=$name; name=$word
    done
    [ ! -e "$here/fail-image" ] || fatal "$(cat "$here/fail-image")"
    mkdir -p "$here/instances/$name"
    echo "INFO:    instance started successfully" >&2;;
"instance stop")
    [ -d "$here/instances/$3" ] || fatal "no instance found"
    for one in "$here/instances/$3"/*; do
        group=${one##*/}
        [ ! -e "$one" ] || kill -9 "-$group" "$group" 2>/dev/null
    done
    rm -rf "$here/instances/$3";;
"instance list")
    printf '{"instances": ['
    comma=
    for one in "$here"/instances/*; do
        [ ! -d "$one" ] || { printf '%s{"instance": "%s", "pid": 1}' "$comma" "${one##*/}"; comma=,; }
    done
    echo ']}';;
exec*)
    shift
    while :; do
        case $1 in
        --pwd) folder=$2; shift 2;;
        instance://*) name=${1#instance://}; shift; break;;
        *) shift;;
        esac
    done
    [ -d "$here/instances/$name" ] || fatal "no instance found with name $name"
    : > "$here/instances/$name/$$"
    mkdir -p "$here/temp"
    cd "$folder" || exit 255
    exec @PYTHON@ -c 'import os, sys
given = {key[13:]: value for key, value in os.environ.items() if key.startswith("APPTAINERENV_")}
os.environ.clear(); os.environ.update(given, PATH=sys.argv[1], TMPDIR=sys.argv[2])
os.execvp(sys.argv[3], sys.argv[3:])' "$PATH" "$here/temp" "$@";;
*) fatal "unknown command";;
esac
"""


class Stub:
    """The program in a folder of its own; `calls` is what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.program = folder / "apptainer"
        text = PROGRAM.replace("@HERE@", shlex.quote(str(folder))).replace("@PYTHON@", shlex.quote(sys.executable))
        self.program.write_text(text)
        self.program.chmod(0o755)

    @property
    def path(self) -> str:
        """A PATH on which it is found."""
        return f"{self.folder}:{os.environ['PATH']}"

    def calls(self, *beginning: str) -> list[list[str]]:
        """The calls so far that begin with these words."""
        record = self.folder / "record"
        made = [call.split("\n") for call in record.read_text().split("\n\n") if call] if record.exists() else []
        return [call for call in made if call[: len(beginning)] == list(beginning)]

    def instances(self) -> list[str]:
        """The instances that there are."""
        return [path.name for path in (self.folder / "instances").glob("*")]

    def stop(self, name: str) -> None:
        """Stop an instance as somebody else would."""
        subprocess.run([str(self.program), "instance", "stop", name], check=True)

    def fail(self, when: str, said: str) -> None:
        """Fail from now on with these words: when is limits, overlay or image."""
        (self.folder / f"fail-{when}").write_text(said)
