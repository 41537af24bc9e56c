"""The generated pages of the documentation say what the code says."""

import subprocess
import sys

from tests.arch.sources import ROOT


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
