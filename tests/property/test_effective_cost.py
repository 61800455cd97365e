"""Effective cost of random fleets: each waterfall adds up to the held cost, and equal samples have their exact share."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import integers, sampled_from

from gpucost import pipeline
from gpucost.questions.efficiency import Waterfall, waterfalls
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from tests.property.fleets import ONE, fleets, lived_in, period, priced
from tests.replay.cases.words import BOOK
from tests.replay.edits import duplicate
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series

ENGINE, SM = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
PARTS = ("held", "idle", "unmeasured", "active", "sm_unmeasured", "sm_idle", "sm")
FLEETS = fleets().flatmap(lived_in)


def sampled(series: list[Series], level: float | None, seed: int) -> list[Series]:
    """Add SM activity: `level` next to each sample of activity, or random values, some missing and some above 1."""
    dice = np.random.default_rng(seed)
    found = []
    for one in duplicate(series, ENGINE, {"__name__": SM}):
        if one.labels["__name__"] == SM:
            values = np.full(len(one.times), level) if level else dice.uniform(0, 1.01, len(one.times))
            one = replace(one, values=values)
            if not level:
                one = one.where(dice.uniform(size=len(one.times)) < random.Random(seed).choice([0.5, 0.9, 1]))
        found.append(one)
    return found


def parts(row: Waterfall) -> list[Decimal]:
    return [getattr(row, f"{name}_cost") or Decimal(0) for name in PARTS]


@pytest.mark.ci
@settings(ONE, max_examples=6, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(fleet=FLEETS, level=sampled_from([None, None, 0.25]), seed=integers(0, 99))
def test_waterfalls_add_up_to_the_held_cost(fleet: Fleet, level: float | None, seed: int) -> None:
    """A quarter at each sample of activity is a quarter of the active cost, without an unmeasured part."""
    with priced({**fleet, "profile": {}}, BOOK) as config:
        span = period(fleet["start"], fleet["end"])
        store: Store = load(fleet, sampled(scrape(fleet), level, seed), config)
        pipeline.attribute(config, store, span)
        query = Query(period=span, period_name="the period")
        with store.read() as con:
            rows = waterfalls(con, config, query)
            ((cost, idle_cost),) = con.execute(
                "SELECT sum(cost), sum(idle_cost) FROM hourly_costs($1, $2)", [span.start_ms, span.end_ms]
            ).fetchall()
    for row in rows:
        held, idle, unmeasured, active, sm_unmeasured, sm_idle, sm = parts(row)
        assert held == idle + unmeasured + active and active == sm_unmeasured + sm_idle + sm
        assert min(parts(row)) >= 0
        if level:
            assert sm_unmeasured == 0
            assert abs(sm - active / 4) <= Decimal("1e-6")
    total = rows[0]
    assert (total.held_cost, total.idle_cost) == (cost, idle_cost)
    for by in ("team", "workload", "gpu_model"):
        same = [parts(row) for row in rows if row.by == by]
        assert [sum(column) for column in zip(*same, strict=True)] == parts(total)
