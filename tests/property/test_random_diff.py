"""The parts of a change add up to it, to the last digit, whatever was used before and after."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucost.questions.diff.parts import Cell, Parts, Use, parts_of

pytestmark = pytest.mark.slow

KINDS = [
    ("prod", "H100", "spot"),
    ("prod", "H100", "on_demand"),
    ("prod", None, "unknown"),
    ("edge", "L4", "reserved"),
]
CELLS = [
    Cell((team, kind[0], "ns", name), kind)
    for team in ("a", "b")
    for name in ("Job/x", "Job/y")
    for kind in KINDS
]
CELLS += [Cell(kind, kind, "unallocated") for kind in KINDS]


@st.composite
def uses(draw: st.DrawFn) -> Use:
    hours = draw(st.one_of(st.just(Decimal(0)), st.decimals("0.000000001", "1e6", places=9)))
    idle = draw(st.decimals(0, 1, places=4)) * hours
    return Use(hours, idle, draw(st.decimals(0, "1e9", places=9)))


PERIOD = st.dictionaries(st.sampled_from(CELLS), uses(), max_size=len(CELLS))


@given(PERIOD, PERIOD)
def test_the_parts_of_every_cell_add_up_to_its_change(
    before: dict[Cell, Use], after: dict[Cell, Use]
) -> None:
    result = parts_of(before, after)
    assert result.keys() == before.keys() | after.keys()
    for cell, parts in result.items():
        assert parts.change == after.get(cell, Use()).cost - before.get(cell, Use()).cost
    whole = sum((use.cost for use in after.values()), Decimal(0)) - sum(
        (use.cost for use in before.values()), Decimal(0)
    )
    assert sum(result.values(), Parts()).change == whole


@given(PERIOD)
def test_a_period_has_not_changed_since_itself(cells: dict[Cell, Use]) -> None:
    # a price of 9 decimals times hours is off by a rounding at most
    for parts in parts_of(cells, cells).values():
        assert all(
            abs(getattr(parts, name)) <= Decimal("0.000000001")
            for name in ("price", "mix", "volume", "idle", "new")
        )
        assert not parts.gone
        assert not parts.change
