"""Random price histories: the mean, the covered time and the steps are those of a plain calculation."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.periods import Period, from_ms
from gpucost.price.history import HistoryQuery, history
from gpucost.store.connection import Store
from gpucost.store.prices import SpotPrice, load

T0 = 1_800_000_000_000
SPAN = 100_000
NOW = T0 + 10 * SPAN
_PLACE = ("aws", "us-east-1", "us-east-1a")

moments = st.integers(min_value=-SPAN, max_value=2 * SPAN)
prices = st.integers(min_value=1, max_value=10**9).map(lambda n: Decimal(n) / 10**6)
changes = st.dictionaries(
    moments, st.one_of(prices, st.sampled_from([Decimal("1.5"), Decimal("2.5")])), min_size=1, max_size=20
)


def plain(facts: dict[int, Decimal]) -> tuple[list[tuple[int, int, Decimal]], Decimal, int]:
    """Steps inside [0, SPAN), joined where the price stays; cost in price x milliseconds; covered milliseconds."""
    steps: list[tuple[int, int, Decimal]] = []
    ordered = sorted(facts.items())
    for index, (at, price) in enumerate(ordered):
        until = ordered[index + 1][0] if index + 1 < len(ordered) else SPAN
        a, b = max(at, 0), min(until, SPAN)
        if a >= b:
            continue
        if steps and steps[-1][2] == price:
            steps[-1] = (steps[-1][0], b, price)
        else:
            steps.append((a, b, price))
    return steps, sum((price * (b - a) for a, b, price in steps), Decimal(0)), sum(b - a for a, b, _ in steps)


@settings(max_examples=8)
@given(changes, st.integers(min_value=1, max_value=3))
def test_histories_weigh_as_a_plain_calculation_does(facts: dict[int, Decimal], parts: int) -> None:
    rows = [
        SpotPrice(*_PLACE, "p3.2xlarge", "Linux/UNIX", "", T0 + at, None, f"{price:f}", "USD", "test")
        for at, price in facts.items()
    ]
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.duckdb")
        with store.write() as con:
            for part in range(parts):  # in overlapping batches, in any order
                load(con, rows[part:] + rows[: part + 1])
        with store.read() as con:
            question = HistoryQuery("p3.2xlarge", period=Period(from_ms(T0), from_ms(T0 + SPAN)))
            (zone,) = history(con, question, NOW)
    steps, cost, covered = plain(facts)
    assert [(step.start, step.end, step.price_per_hour) for step in zone.steps] == [
        (from_ms(T0 + a), from_ms(T0 + b), price) for a, b, price in steps
    ]
    assert zone.changes == max(0, len(steps) - 1)
    if covered:
        assert zone.mean_price_per_hour == (cost / covered).quantize(Decimal("0.000001"))
        assert (zone.min_price_per_hour, zone.max_price_per_hour) == (
            min(p for _, _, p in steps),
            max(p for _, _, p in steps),
        )
    else:
        assert zone.mean_price_per_hour is None
