"""Prices and models as people read them."""

import pytest

from melete.core.model import Capabilities
from melete.surfaces.cli.models_shown import price_text, usd


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "?"),
        (0.0, "0"),
        (10.0, "10.00"),
        (1.25, "1.25"),
        (0.075, "0.075"),
        (0.000_012, "0.000012"),
        (3e-8, "3e-08"),
    ],
)
def test_a_price_is_shown_in_full(value: float | None, shown: str) -> None:
    assert usd(value) == shown


def test_prices_are_told_with_their_source() -> None:
    assert price_text(Capabilities()) == "not known"
    assert price_text(Capabilities(usd_input=0.0, usd_output=0.0, source="this machine")) == "nothing (this machine)"
    paid = Capabilities(usd_input=3.0, usd_output=15.0, usd_cache_read=0.3, usd_cache_write=3.75, source="a list")
    assert price_text(paid) == "$3.00 in, $15.00 out, $0.30 cached, $3.75 to cache for a million tokens (a list)"
