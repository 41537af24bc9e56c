"""What the judge allows must not run a command that it would forbid: bash itself is the witness, with a harmless marker."""

import random
import subprocess
from pathlib import Path

import pytest

from melete.security.commands import judge_command
from melete.security.plan import plan

FORBIDDEN = "rm -rf /"
MARKER = "touch mark"
FORMS: tuple[str, ...] = (
    "{P}", "$({P})", "`{P}`", "{ {P}; }", "({P})", "if :; then {P}; fi", "for i in a; do {P}; done",
    "while {P}; do break; done", "case a in a) {P};; esac", "case $({P}) in *) ;; esac", "f() { {P}; }; f",
    'f() { "$@"; }; f {P}', "g() for i in 1; do A=1 {P}; done; g", "x=$({P})", "[[ -n $({P}) ]]", "(( $({P}) ))",
    "cat <<E\n$({P})\nE\n", "cat <<-E\n\t`{P}`\n\tE\n", "! {P}", "time {P}", "echo | {P}", "eval '{P}'",
    "echo ${x:-$({P})}", "${zz:-{P}}", "cat <({P})", "2>/dev/null {P}", "{P} 2>&1", "&>o {P}", ">o A=1 {P}",
    "A=1 >o B=2 {P}", "{fd}>o {P}", "3<&- {P}", "<>o {P}", "3<<<x {P}", "nohup 2>/dev/null {P}", "env >o {P}",
    "command <<E {P}\nx\nE\n", "timeout 9 <<< x {P}", 'f() { 2>o "$@"; }; f 2>p {P}', 'set -- x 2>o {P}; shift; "$@"',
    "$zz {P}", "nohup $(:) {P}", "timeout $zz 5 {P}", "env `` {P}", "bash $OPTS -c '{P}'", "sh \"$@\" -c '{P}'",
    "sh -${zz}c '{P}'", "sh 2>o -c '{P}'", "sh <<< '{P}'", "bash -s 2>o <<E\n{P}\nE\n", "echo '{P}' 2>/dev/null | sh",
    "echo '{P}' > w; . ./w", "x='{P}'; $x", 'x=({P}); "${x[@]}"', "A=1 2>o x='{P}'; eval \"$x\"",
    "time x='{P}'; eval $x", "alias q='{P}'\nq", "coproc A=1 {P}", "coproc N { {P}; }", "coproc >o {P}",
    "echo ${a[$({P})]}", "trap '{P}' EXIT", "find . -maxdepth 0 -exec {P} \\;",
)  # fmt: skip
"""Ways to reach a command; they are put into one another."""


@pytest.mark.parametrize("seed", range(8))
def test_bash_runs_no_forbidden_command_that_is_allowed(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    made = set(FORMS)
    for _ in range(150):
        made.add(chosen.choice(FORMS).replace("{P}", chosen.choice(FORMS)).replace("{P}", chosen.choice(FORMS)))
    allowed = [text for text in sorted(made) if judge_command(text.replace("{P}", FORBIDDEN)).verdict == "allow"]
    assert len(allowed) < len(made) / 10
    ran = [text for text in allowed if _runs(text.replace("{P}", MARKER), tmp_path)]
    assert ran == []


def _runs(text: str, folder: Path) -> bool:
    mark = folder / "mark"
    mark.unlink(missing_ok=True)
    command = ["bash", "-O", "expand_aliases", "-c", f"{text}\nwait"]
    try:
        subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return True
    return mark.exists()


@pytest.mark.parametrize("seed", range(4))
def test_no_tokens_make_the_judge_fail(seed: int) -> None:
    chosen = random.Random(seed)
    tokens: tuple[str, ...] = (
        "curl", "wget", "sh", "-c", "tar", "find", "git", "xargs", "env", "sed", "make", "python3", "dd", "$(", "`",
        "${x", "}", ")", "(", "<<E", "<<<", ">", "<(", "'", '"', "\n", ";", "|", "&", "{", "[[", "]]", "((", "case",
        "in", "esac", "do", "\\", "\x00", "\ue006", "\ud800", "=", "a=", "*", "~", "-", "--", "\xe9",
    )  # fmt: skip
    for _ in range(300):
        text = " ".join(chosen.choice(tokens) for _ in range(chosen.randrange(1, 12)))
        assert "the judge failed at it" not in plan(text).opaque, text
    for token in tokens:
        assert "the judge failed at it" not in plan(token).opaque, token
