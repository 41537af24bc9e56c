"""The measurements themselves: what they list, how they compare, and that each figure is taken where it says."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import measurements
from benchmarks.measure import run
from benchmarks.overhead import results
from benchmarks.prefix import share, shares
from benchmarks.report import Row, quantile
from benchmarks.subjects import Hermes, Melete

ROOT = Path(__file__).resolve().parents[3]


def test_every_measurement_is_listed_in_the_readme() -> None:
    names = measurements()
    assert {"overhead", "prefix", "startup"} <= set(names)
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for name in ("overhead", "prefix", "startup"):
        assert f"python -m benchmarks {name} " in readme
        assert names[name].endswith((".", ":", "`."))


@pytest.mark.parametrize(
    ("less_is_better", "ratio"), [(True, 5.0), (False, 0.2), (None, None)]
)  # fmt: skip
def test_a_ratio_above_one_means_that_ours_is_better(less_is_better: bool | None, ratio: float | None) -> None:
    row = Row(what="x", unit="s", values={"melete": 2.0, "hermes": 10.0}, less_is_better=less_is_better)
    assert row.ratio() == ratio


def test_there_is_no_ratio_without_a_peer() -> None:
    assert Row(what="x", unit="s", values={"melete": 2.0}).ratio() is None


def test_quantiles() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([float(n) for n in range(100)], 0.95) == 95.0
    assert quantile([1.0], 0.95) == 1.0


def test_shares_tell_turns_from_what_is_within_them() -> None:
    within, across = shares([[b"abcd", b"abcdef"], [b"abcxyz", b"abcxyz!"]])
    assert within == [1.0, 1.0]
    assert across == [0.5]
    assert share(b"abcd", b"abxd") == 0.5


def test_results_are_counted_in_a_request() -> None:
    assert results({"messages": [{"role": "user"}, {"role": "tool"}, {"role": "tool"}]}) == 2


def test_a_process_is_measured_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(90_000_000)']); print('done')"
    ran = run([sys.executable, "-c", code], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path)
    assert ran.output == "done\n"
    assert ran.rss > 90_000_000
    assert ran.cpu > 0


def test_a_process_that_fails_or_hangs_is_an_error_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended with 3.*why"):
        run([sys.executable, "-c", "print('why'); raise SystemExit(3)"], env={}, cwd=tmp_path)
    with pytest.raises(RuntimeError, match="ended with -9"):
        run(["sleep", "60"], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, deadline=0.2)


@pytest.mark.parametrize("kind", [Melete, Hermes])
def test_a_subject_has_a_home_of_its_own(kind: type[Melete] | type[Hermes], tmp_path: Path) -> None:
    subject = kind(tmp_path / "it", program=Path("program"), base_url="http://127.0.0.1:1/v1")
    assert subject.env["HOME"].startswith(str(tmp_path))
    assert not {name for name in subject.env if name.endswith("_API_KEY")}
    assert subject.once("hi")[0] == subject.talk("hi", go_on=True)[0] == "program"
    assert subject.talk("hi") != subject.talk("hi", go_on=True)


def test_a_missing_peer_is_told_how_to_be_had(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "startup", "--hermes", str(tmp_path / "none")],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install hermes-agent==0.19.0" in done.stderr
