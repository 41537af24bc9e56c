"""The extras cost nothing until they are used: opening any other wire loads none of their packages."""

import subprocess
import sys

LOOK = """
import sys
from melete.app.plugins import registry
known = registry()
for name in known.names("models"):
    if name not in ("local", "bridge"):
        known.get("models", name)
print(*sorted({name.split(".")[0] for name in sys.modules} & {"pydantic", "pydantic_ai", "xllamacpp", "openai", "anthropic"}))
"""


def test_other_wires_load_no_package_of_an_extra() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
