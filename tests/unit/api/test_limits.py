"""Allowances fill up again, are counted for each apart, and take no more memory than is set aside for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.surfaces.api.limits import MOST_KEPT, Acquainted, Allowance, network_of


class Clock:
    """Seconds that go by only when they are told to."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_an_allowance_is_used_up_and_fills_again() -> None:
    clock = Clock()
    allowance = Allowance(burst=3, per_minute=60, now=clock)
    assert [allowance.take("a") for _ in range(4)] == [True, True, True, False]
    assert allowance.take("b")
    assert (allowance.wait("a"), allowance.full_after("a")) == (1, 3)
    clock.at += 0.5
    assert not allowance.take("a")
    clock.at += 0.5
    assert allowance.take("a")
    assert not allowance.take("a")
    clock.at += 1_000
    assert [allowance.take("a") for _ in range(4)] == [True, True, True, False]


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=100))
def test_never_more_than_the_burst_and_what_has_filled_up_since(steps: list[tuple[float, bool]]) -> None:
    clock = Clock()
    allowance = Allowance(burst=5, per_minute=30, now=clock)
    start, taken = clock.at, 0
    for seconds, takes in steps:
        clock.at += seconds
        taken += takes and allowance.take("a")
        assert taken <= 5 + (clock.at - start) * 0.5 + 1e-6
        assert 0 <= allowance.left("a") <= 5


def test_who_is_told_to_wait_may_come_back_then() -> None:
    clock = Clock()
    allowance = Allowance(burst=1, per_minute=7, now=clock)
    allowance.take("a")
    clock.at += allowance.wait("a")
    assert allowance.take("a")


def test_memory_has_an_end() -> None:
    clock = Clock()
    allowance, known = Allowance(burst=1, per_minute=1, now=clock), Acquainted()
    for number in range(MOST_KEPT + 10):
        allowance.take(str(number))
        known.add(str(number), b"x")
    assert (allowance.left("0"), allowance.left(str(MOST_KEPT + 9))) == (1, 0)
    assert ("0", b"x") not in known
    assert (str(MOST_KEPT + 9), b"x") in known
    assert (str(MOST_KEPT + 9), b"y") not in known


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("unix", "unix", True),
        ("unix", "", False),
    ],
)
def test_failures_are_counted_for_what_one_customer_has(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same
