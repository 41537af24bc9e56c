"""Writes the list of models that is shipped, src/melete/models/models.txt, from lists that others keep; the first one wins.

    python scripts/models.py --day 2026-11-22 litellm-1.109.1-….whl genai_prices-0.2.3-….whl

A list is a JSON file (models.dev's api.json, litellm's table, genai-prices' data.json), or the wheel of litellm or genai-prices,
whose version then stands in the head of what is written. Both projects are under the MIT licence. The wheel of genai-prices is
imported, so that prices are those of the day; it needs pydantic beside it.
"""

import argparse
import importlib
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from melete.app.vendors import vendors
from melete.models.pricelist import Rows, filled, read_list, text
from melete.models.prices import SHIPPED

LITELLM = "litellm/model_prices_and_context_window_backup.json"
LARGEST = 300_000


def read(path: Path, day: str) -> tuple[bytes, str]:
    """A list's text, and what to call it."""
    if path.suffix != ".whl":
        return path.read_bytes(), ""
    name, version = path.name.split("-")[:2]
    if name == "litellm":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(LITELLM), f"litellm {version} (MIT)"
    sys.path.insert(0, str(path.resolve()))
    return genai_prices(day), f"genai-prices {version} (MIT)"


def genai_prices(day: str) -> bytes:
    """The package's data in the shape of its data.json, with the prices of one day."""
    providers: list[Any] = importlib.import_module("genai_prices.data").providers
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    hours = [start.replace(hour=hour, minute=59) for hour in range(24)]
    return msgspec.json.encode(
        [
            {
                "id": provider.id,
                "models": [
                    {
                        "id": model.id,
                        "context_window": model.context_window,
                        "prices": {n: plain(v) for n, v in vars(dearest(model, hours)).items() if v is not None},
                    }
                    for model in provider.models
                ],
            }
            for provider in providers
        ]
    )


def dearest(model: Any, hours: list[datetime]) -> Any:
    """The prices of the dearest of these hours: some vendors are cheaper at night, and a bill shall not be a surprise."""
    return max((model.get_prices(when) for when in hours), key=lambda prices: plain(prices.output_mtok or 0))


def plain(price: Any) -> float:
    """A price as a number; of one that rises with the prompt the lowest step."""
    return float(getattr(price, "base", price))


def main() -> int:
    """Write the list and say what is in it."""
    options = argparse.ArgumentParser(description="Write the list of models that is shipped.")
    options.add_argument("lists", nargs="+", type=Path, metavar="FILE")
    options.add_argument("--day", required=True, help="the day of the lists, as YYYY-MM-DD")
    options.add_argument("--out", type=Path, default=SHIPPED)
    given = options.parse_args()
    rows: Rows = {}
    names: list[str] = []
    for path in given.lists:
        data, name = read(path, given.day)
        found = read_list(data, list(vendors()), today=given.day)
        names.append(name or found.kept_by)
        rows = filled(rows, found.rows)
        print(f"{names[-1]}: {len(found.rows)} models of {len(found.vendors)} vendors")
    written = text(rows, day=given.day, source=" and ".join(names))
    if len(written) > LARGEST:
        print(f"{len(written):,} bytes are more than the {LARGEST:,} that may be shipped", file=sys.stderr)
        return 1
    given.out.write_bytes(written)
    print(f"{given.out}: {len(rows)} models, {len(written):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
