"""Failures of random fleets: the cost of all incidents is the unavailable part of the nodes' unallocated cost."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import Phase, given, settings

from gpucost import pipeline
from gpucost.questions.failures import incidents_of
from gpucost.questions.report.query import Query
from tests.property.fleets import ONE, fleets, lived_in, period, priced
from tests.replay.cases.words import BOOK
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape

FLEETS = fleets().flatmap(lived_in)
_UNAVAILABLE = """
SELECT coalesce(sum(least(unallocated_cost, (unallocated_cost * (unavailable_gpu_ms / unallocated_gpu_ms))::DECIMAL(38, 9))), 0)
FROM hourly_costs($1, $2) WHERE kind = 'unallocated' AND unavailable_gpu_ms > 0"""


@pytest.mark.ci
@settings(ONE, max_examples=6, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(fleet=FLEETS)
def test_unavailable_cost_belongs_to_incidents(fleet: Fleet) -> None:
    with priced(fleet, BOOK) as config:
        span = period(fleet["start"], fleet["end"])
        store = load(fleet, scrape(fleet), config)
        pipeline.attribute(config, store, span)
        query = Query(period=span, period_name="the period")
        with store.read() as con:
            incidents, totals = incidents_of(con, config, query)
            ((expected,),) = con.execute(_UNAVAILABLE, [span.start_ms, span.end_ms]).fetchall()
    assert sum((each.unavailable_cost for each in incidents), Decimal(0)) == expected
    for by in ("cause", "node", "gpu_model", "provider"):
        assert sum((part.cost for part in totals if part.by == by), Decimal(0)) == sum(
            each.cost for each in incidents
        )
