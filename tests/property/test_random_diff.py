"""The parts of a change add up to it, to the last digit, whatever was used before and after."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest
from hypothesis import Phase, assume, given, reject, settings
from hypothesis import strategies as st

from gpucost import comparisons, pipeline
from gpucost.cli.diff import document
from gpucost.errors import GpucostError
from gpucost.render.rows import RowFormat, render_rows
from gpucost.render.schema import to_json
from gpucost.render.view import ReportView
from gpucost.report import Query
from gpucost.report.diff import CELL, PARTS, Cell, Diff, Parts, Use, parts_of
from tests.property.fleets import RARELY_SLOW, books, by_basis, fleets, period, priced
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape

pytestmark = pytest.mark.slow

KINDS = [("prod", "H100", "spot"), ("prod", "H100", "on_demand"), ("prod", None, "unknown"), ("edge", "L4", "reserved")]
CELLS = [Cell((team, kind[0], "ns", name), kind) for team in ("a", "b") for name in ("Job/x", "Job/y") for kind in KINDS]
CELLS += [Cell(kind, kind, "unallocated") for kind in KINDS]


@st.composite
def uses(draw: st.DrawFn) -> Use:
    hours = draw(st.one_of(st.just(Decimal(0)), st.decimals("0.000000001", "1e6", places=9)))
    idle = draw(st.decimals(0, 1, places=4)) * hours
    return Use(hours, idle, draw(st.decimals(0, "1e9", places=9)))


PERIOD = st.dictionaries(st.sampled_from(CELLS), uses(), max_size=len(CELLS))


@given(PERIOD, PERIOD)
def test_the_parts_of_every_cell_add_up_to_its_change(before: dict[Cell, Use], after: dict[Cell, Use]) -> None:
    result = parts_of(before, after)
    assert result.keys() == before.keys() | after.keys()
    for cell, parts in result.items():
        assert parts.change == after.get(cell, Use()).cost - before.get(cell, Use()).cost
    whole = sum((use.cost for use in after.values()), Decimal(0)) - sum((use.cost for use in before.values()), Decimal(0))
    assert sum(result.values(), Parts()).change == whole


@given(PERIOD)
def test_a_period_has_not_changed_since_itself(cells: dict[Cell, Use]) -> None:
    # a price of 9 decimals times hours is off by a rounding at most
    for parts in parts_of(cells, cells).values():
        assert all(abs(getattr(parts, name)) <= Decimal("0.000000001") for name in ("price", "mix", "volume", "idle", "new"))
        assert not parts.gone
        assert not parts.change


@given(PERIOD)
def test_back_is_the_opposite_of_forth(cells: dict[Cell, Use]) -> None:
    forth, back = parts_of({}, cells), parts_of(cells, {})
    for cell, parts in forth.items():
        assert parts.change == -back[cell].change
        assert cell.of == "unallocated" or parts.new == -back[cell].gone


@settings(RARELY_SLOW, max_examples=5, phases=[Phase.explicit, Phase.generate])
@given(data=st.data(), fleet=st.one_of(fleets(), fleets().flatmap(by_basis)))
def test_in_every_format_the_parts_of_a_random_store_are_the_difference_of_its_reports(data: st.DataObject, fleet: Fleet) -> None:
    hours = (fleet["end"] - fleet["start"]) // 3600
    assume(hours > 1)
    middle = fleet["start"] + 3600 * data.draw(st.integers(1, hours - 1))
    with priced(fleet, data.draw(books(fleet))) as config:
        store = load(fleet, scrape(fleet, lean=True), config, 24)
        spans = [(fleet["start"], middle), (middle, fleet["end"])]
        before, after = (Query(period=period(*span), period_name=f"{span}") for span in spans)
        try:
            costs = [_node_cost(pipeline.report(config, store, query)) for query in (before, after)]
        except GpucostError:  # no node was up in one of them
            reject()
        for by in (("team",), CELL):
            view, result = comparisons.compare(config, store, before, after, by)
            assert (result.before.cost, result.after.cost) == tuple(costs)
            _check_formats(view, result)


def _node_cost(view: ReportView) -> Decimal:
    assert view.node_totals is not None
    return view.node_totals.node_cost


def _check_formats(view: ReportView, result: Diff) -> None:
    answer = document(view, result, "all teams", 10)
    rows = list(csv.DictReader(io.StringIO(render_rows(*answer.flat, RowFormat.csv))))
    for row in rows:
        assert sum(Decimal(row[name]) for name in PARTS) == Decimal(row["cost_change"])
        assert Decimal(row["cost_after"]) - Decimal(row["cost_before"]) == Decimal(row["cost_change"])
    assert sum(Decimal(row["cost_change"]) for row in rows) == result.after.cost - result.before.cost
    output = json.loads(to_json(answer.answer, answer.name))
    for row in [output, *output["rows"]]:
        parts = row["parts"] if "parts" in row else {name: row[name] for name in PARTS}
        assert sum(parts.values()) == pytest.approx(row["cost_change"], abs=1e-6)
