"""What hides, what is too much to follow, what only seems harmless, and what may follow text from outside."""

import pytest

from melete.security.commands import judge_code, judge_command
from melete.security.plan import plan
from tests.unit.security.nasty_examples import ASKED_NASTY, FORBIDDEN_NASTY
from tests.unit.security.ordinary_examples import DAILY
from tests.unit.security.reached_examples import ASKED_REACHED, FORBIDDEN_REACHED
from tests.unit.security.reading_examples import NOT_READING, READING

HELLO = "\n".join(f"echo {number}" for number in range(200))


@pytest.mark.parametrize("command", (*FORBIDDEN_NASTY, *FORBIDDEN_REACHED))
def test_what_destroys_is_forbidden_however_it_is_reached(command: str) -> None:
    assert judge_command(command).verdict == "forbid"
    assert judge_command(command, contained=True).verdict == "forbid"


@pytest.mark.parametrize("command", (*ASKED_NASTY, *ASKED_REACHED))
def test_what_cannot_be_told_or_takes_something_away_asks(command: str) -> None:
    assert judge_command(command).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "printf 'a\\n%.0s' {1..100} | xargs -I{} touch {}",
        "echo '" + "\n".join(map(str, range(100))) + "' | xargs -I{} touch {}",
        "parallel touch ::: " + " ".join(map(str, range(100))),
        "crontab - <<'EOF'\n" + "0 0 * * * true\n" * 100 + "EOF",
        "for i in {1..500}; do x=$i; done",
        "make -f - <<'EOF'\nall:\n" + "\ttrue\n" * 100 + "EOF",
        "perl -e 'print qx(true); " + " ".join(f'print "a {number}";' for number in range(150)) + "'",
        "echo {1..2000}",
        "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
        "printf '" + "a" * 110 + "%s' {1..590} | sh",
        "x=" + "a" * 12_000 + "; $x",
        "echo ) ; " + "true ; " * 300,
        "true " + "> a " * 100,
        "echo " + "x " * 1_000,
        "f() { f; }; f",
        "sh -c 'f() { eval f; }; f'",
        "true && " * 400 + "true",
        "$(" * 300 + "true" + ")" * 300,
        "python3 -c '" + "(" * 3_000 + "'",
        "python3 -c '" + "x = 1\n" * 6_000 + "'",
        "python3 -c '" + "a + " * 4_000 + "a'",
        "cat <<A\n" * 100,
        "true\n" * 7_000,
    ],
    ids=lambda command: command[:20],
)
def test_what_is_cut_short_asks(command: str) -> None:
    verdict = judge_command(command)
    assert (verdict.verdict, verdict.reads) == ("ask", False)


@pytest.mark.parametrize(
    "command",
    [
        f"cat > run.sh <<'EOF'\n{HELLO}\nEOF",
        "for i in {1..100}; do echo $i; done",
        "git log " + " ".join(f"src/{number}.py" for number in range(300)),
        "python3 - <<'EOF'\n" + "print('a line')\n" * 400 + "EOF",
    ],
    ids=lambda command: command[:20],
)
def test_long_ordinary_commands_are_not_cut(command: str) -> None:
    assert judge_command(command).verdict == "allow"


def test_what_the_grammar_cannot_read_asks_unless_its_pieces_are_all_there_is() -> None:
    assert judge_command("echo 'no end").verdict == "allow"
    assert judge_command("<Enter> x <Esc>").verdict == "allow"
    for hidden in ("echo ) $(x)", "echo ) ; bash -c 'x'", "a ) ; sudo x", "echo ) `x`", "a ) <(x)"):
        assert judge_command(hidden).verdict == "ask", hidden
    for plainly in ("echo ) ; rm -rf /", "x ) && { rm -rf / ; }", "if ) then rm -rf /", "echo ) > /dev/sda"):
        assert judge_command(plainly).verdict == "forbid", plainly


def test_a_variable_that_may_have_two_values_is_not_taken_for_one() -> None:
    assert judge_command("x=/; false && x=build; rm -rf $x").verdict != "allow"
    assert judge_command("x='rm -rf src'; if test -f y; then x=ls; fi; $x").verdict == "ask"
    assert judge_command("x=ls; $x").verdict == "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("rm --help", "allow"),
        ("rm -rf --help /", "allow"),
        ("shutdown -c", "allow"),
        ("kill -l 1", "allow"),
        ("kill -0 1", "allow"),
        ("git push -fn origin main", "allow"),
        ("git push --force --dry-run origin main", "allow"),
        ("rsync -avn --delete a/ b/", "allow"),
        ("kubectl delete pod x --dry-run=client", "allow"),
        ("aws s3 rm s3://b/a --recursive --dryrun", "allow"),
        ("gcloud compute instances list --filter delete", "allow"),
        ("iptables -S", "allow"),
        ("terraform plan -destroy", "allow"),
        ("terraform state list", "allow"),
        ("zfs list", "allow"),
        ("parted /dev/sda print", "allow"),
        ("git restore --staged a.py", "allow"),
        ("git restore -- --staged", "ask"),
        ("git push --force origin --dry-run=false", "ask"),
        ("git push -f -on origin main", "ask"),
        ("zfs set x=y list", "ask"),
        ("ufw allow list", "ask"),
        ("helm uninstall x -- --dry-run", "ask"),
    ],
)
def test_a_word_lifts_a_rule_only_where_the_program_takes_it_so(command: str, verdict: str) -> None:
    assert judge_command(command).verdict == verdict


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("print('os.system, unlink, exec and rm -rf / are only words')", "allow"),
        ("import json, os\nprint(json.dumps({'command': 'rm -rf /'}), os.getcwd())", "allow"),
        ("import os\nfor name in os.listdir('.'):\n    print(name, os.path.getsize(name))", "allow"),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pytest', '-q'], check=True)", "allow"),
        ("import subprocess\nprint(subprocess.run('git status', shell=True, capture_output=True).stdout)", "allow"),
        ("open('out.txt', 'w').write('x')", "allow"),
        ("from pathlib import Path\nPath('a.txt').write_text(Path('b.txt').read_text().replace('a', 'b'))", "allow"),
        ("import os\nos.remove('a.txt')", "allow"),
        ("import shutil\nshutil.rmtree('build')", "allow"),
        ("getattr(object(), 'x' + 'y', None)", "allow"),
        ("import shutil\nshutil.rmtree('src')", "ask"),
        ("import shutil\nfor path in paths:\n    shutil.rmtree(path)", "ask"),
        ("import subprocess\nsubprocess.run(command)", "ask"),
        ("import os\nrun = os.system\nif x:\n    run = print\nrun('rm -rf src')", "ask"),
        ("import os\nclass A:\n    f = os.system\nA.f('rm -rf /')", "ask"),
        ("import os\ndef g(f=os.system):\n    f('rm -rf /')\ng()", "ask"),
        ("import os as o, operator\noperator.methodcaller('system', 'rm -rf /')(o)", "ask"),
        ("eval(compile('1', 'x', 'eval'))", "ask"),
        ("().__class__.__base__.__subclasses__()", "ask"),
        ("import importlib\nimportlib.import_module(name)", "ask"),
        ("open('/home/ada/.ssh/id_rsa').read()", "ask"),
        ("open('/etc/cron.d/x', 'w')", "ask"),
        ("import os\nos.kill(4711, 9)", "ask"),
        ("if True\n    pass", "ask"),
        ("import shutil\nshutil.rmtree('/')", "forbid"),
        ("import os\nos.system('sudo rm -rf /')", "forbid"),
        ("import os.path as p, os\nos.system('rm -rf ' + p.expanduser('~'))", "forbid"),
        ("from os import *\nsystem('rm -rf /')", "forbid"),
        ("import sys\nsys.modules['os'].system('rm -rf /')", "forbid"),
        ("c = ['rm', '-rf']\nc.append('/')\nimport subprocess\nsubprocess.call(c)", "forbid"),
        ("from pathlib import Path\nimport shutil\nshutil.rmtree(Path.home())", "forbid"),
        ("exec('import os; os.system(\"rm -rf /\")')", "forbid"),
        ("import os\nos.execl('/bin/sh', 'sh', '-c', 'rm -rf /')", "forbid"),
        ("import asyncio\nasync def main():\n    await asyncio.create_subprocess_shell('rm -rf /')", "forbid"),
        ("import os\nos.kill(-1, 9)", "forbid"),
        ("import subprocess\nsubprocess.run('sh', input='rm -rf /')", "forbid"),
    ],
)
def test_python_is_judged_by_what_it_does(code: str, verdict: str) -> None:
    assert judge_code(code).verdict == verdict
    assert judge_command(f"python3 - <<'EOF'\n{code}\nEOF").verdict == verdict
    assert not judge_code(code).reads


@pytest.mark.parametrize("command", DAILY)
def test_daily_work_is_not_asked_about(command: str) -> None:
    assert judge_command(command).verdict == "allow"
    assert judge_command(command, cwd="/home/me/project", home="/home/me").verdict == "allow"


@pytest.mark.parametrize("command", ["ssh web sudo systemctl stop nginx", "kubectl exec web -- kill 7"])
def test_the_sandbox_does_not_make_harmless_what_runs_elsewhere(command: str) -> None:
    assert judge_command(command, contained=True).verdict == "ask"


@pytest.mark.parametrize("command", READING)
def test_what_only_reads_is_told(command: str) -> None:
    verdict = judge_command(command)
    assert (verdict.verdict, verdict.reads) == ("allow", True)


@pytest.mark.parametrize("command", NOT_READING)
def test_what_may_change_or_send_something_never_counts_as_reading(command: str) -> None:
    assert not judge_command(command).reads


def test_reading_its_own_records_is_free() -> None:
    for command in (
        "melete sessions list",
        "melete policy explain 'rm x'",
        "melete config get model",
        "cat ~/.melete/config.yaml",
    ):
        assert judge_command(command).verdict == "allow", command


def test_a_program_knows_how_it_is_reached() -> None:
    found = [
        (program.via, [word.text for word in program.argv]) for program in plan("sudo env A=1 sh -c 'ls -l'").programs
    ]
    assert found[-1] == (("sudo", "env", "sh"), ["ls", "-l"])
