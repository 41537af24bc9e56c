"""`python -m benchmarks NAME [OPTIONS]`: run one measurement; without a name, list them."""

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def measurements() -> dict[str, str]:
    """Every module here that can be run, with the first line of its docstring."""
    found: dict[str, str] = {}
    for path in sorted((*HERE.glob("*.py"), *HERE.glob("*/__main__.py"))):
        text = path.read_text(encoding="utf-8")
        if path != Path(__file__) and 'if __name__ == "__main__":' in text:
            found[path.stem if path.parent == HERE else path.parent.name] = (
                ast.get_docstring(ast.parse(text)) or ""
            ).partition("\n")[0]
    return found


def main() -> int:
    known = measurements()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in known:
        print("usage: python -m benchmarks NAME [OPTIONS]\n")
        print("\n".join(f"  {name:<10} {about}" for name, about in known.items()))
        return 0 if name in {"", "-h", "--help"} else 2
    sys.argv[:2] = [f"benchmarks {name}"]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
