"""Random fleets: every cell equals the exact bill, also with a bill; waste adds up; the order of loads has no effect."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings, strategies as st
from hypothesis.strategies import (
    DataObject,
    DrawFn,
    booleans,
    composite,
    integers,
    just,
    one_of,
    permutations,
    sampled_from,
)

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config, WasteSettings
from gpucost.store import upkeep
from gpucost.store.connection import Store
from gpucost.store.metrics import SampleWindow, load_window
from tests.oracle import read_book
from tests.oracle.billed import billed_book
from tests.oracle.exact.compare import check_equal
from tests.property.fleets import (
    ONE,
    RARELY_SLOW,
    books,
    by_basis,
    fleets,
    involved,
    lived_in,
    many,
    period,
    priced,
)
from tests.replay.bill_files import aws_cur, focus
from tests.replay.billing import Charge, Rate, charges
from tests.replay.cases.words import MORNING
from tests.replay.edits import relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.load import load, windows
from tests.replay.result import unpaid
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.replay.waste import check_waste

# A failure names cells, hours and pods: the search for a smaller fleet takes minutes and adds no information.
FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
SETTINGS = settings(ONE, phases=FOUND)
FLEETS = fleets().flatmap(lived_in)


@pytest.mark.ci
@settings(SETTINGS, max_examples=15)
@given(data=st.data(), fleet=FLEETS, hours_per_window=sampled_from([1, 3, 24]))
def test_every_cell_equals_the_exact_bill(data: DataObject, fleet: Fleet, hours_per_window: int) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        fleet["report"] = [
            MORNING + data.draw(integers(0, 3599)),
            fleet["end"] - data.draw(integers(0, 3599)),
        ]
        series = _unsettled(data, fleet)
        store = load(fleet, series, config, hours_per_window)
        pipeline.attribute(config, store, period(*fleet["report"]))
        check_equal(fleet, series, config, store)


def _unsettled(data: DataObject, fleet: Fleet) -> list[Series]:
    """Draw the fleet's scrapes, with labels and capacities that change at random moments.

    Namespaces change teams in the hour of local midnight or another hour; one node has no label of its replicas, and its
    offer shows them only later.
    """
    series = scrape(fleet, lean=True)
    # the exporter keeps reporting the label of a namespace, so that other namespaces have lost theirs
    for one in {
        one.labels["instance"]: one for one in series if one.labels["__name__"] == "kube_namespace_labels"
    }.values():
        times = np.unique(
            np.concatenate([
                other.times for other in series
                if other.labels["__name__"].startswith("kube_") and other.labels["instance"] == one.labels["instance"]
            ])
        )  # fmt: skip
        labels = {**one.labels, "namespace": "kept", "label_team": "kept"}
        series.append(replace(one, labels=labels, times=times, values=np.ones(len(times))))
    for namespace in ("a", "b", "c"):
        moved = data.draw(sampled_from([1.0, 2.0])) + data.draw(integers(0, 1799)) / 3600
        where = {"namespace": namespace}
        series = relabel(series, "kube_namespace_labels", {"label_team": "first"}, where, (0, moved))
        if data.draw(booleans()):
            series = relabel(series, "kube_namespace_labels", {"label_team": "second"}, where, (moved, 24))
    slots = {"node": "slots"}
    if data.draw(booleans()):
        series = relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_replicas": None}, slots)
    late = data.draw(integers(0, 1200)) / 3600
    return revalue(series, "kube_node_status_.*", 1, {**slots, "resource": "nvidia_com_gpu"}, (0, late))


def rates(seed: int, billed_to: float) -> Rate:
    """Return prices that vary by hour and node, with random commitments; some hours, and all after `billed_to`, are unbilled."""

    def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal] | None:
        dice = random.Random(f"{seed} {node['name']} {node['from']} {hour}")
        if hour >= billed_to or dice.random() < 0.1:
            return None
        price = Decimal(dice.randint(1, 9_999_999)) / 100_000
        options = (
            ["spot"] if node["capacity_type"] == "spot" else ["on_demand", "savings_plan", "reservation"]
        )
        return dice.choice(options), price

    return rate


@composite
def bills(draw: DrawFn, fleet: Fleet) -> list[Charge]:
    """Draw a bill for the fleet's machines, which may have run for some time before they were nodes."""
    until = draw(integers(fleet["start"], fleet["end"] + 3600))
    return list(charges(fleet, rates(draw(integers(0, 10**6)), until), draw(sampled_from([0, 77, 1800]))))


WAYS = {"pooled": booleans(), "write": sampled_from([aws_cur, focus])}


@ONE
@given(data=st.data(), fleet=involved(fleets()), **WAYS)
def test_costs_match_an_exact_calculation_from_the_bill(
    data: DataObject, fleet: Fleet, pooled: bool, write: Any
) -> None:
    charged = data.draw(bills(fleet))
    with priced(fleet, data.draw(books(fleet))) as config:
        series = scrape(fleet, lean=True)
        shared = config.prices.model_copy(update={"commitment_sharing": "pooled" if pooled else "as_billed"})
        config = config.model_copy(update={"prices": shared})
        store = load(fleet, series, config)
        if charged:
            export = config.store.with_name("bill.csv")
            export.write_text(write(charged))
            assert not collect_bills(store, [LocalTree(export)], None if write is focus else "aws").errors
        pipeline.attribute(config, store, period(fleet["start"], fleet["end"]))
        assert not unpaid(store)
        assert config.prices.book is not None
        listed = read_book(config.prices.book)
        highest = max(
            [float(row["price_per_hour"]) for row in listed]
            + [float(Fraction(one.cost) / one.hours) for one in charged]
        )
        # times are exact; money may differ by a few scrapes, since bill and metrics may disagree on a machine's uptime
        slack = Decimal(4 * fleet["scrape"] / 3600 * highest)
        book = billed_book(charged, listed, pooled=pooled)
        check_equal(fleet, series, config, store, book, slack)
        _check_hours(store, charged, pooled)


DRAWN = given(data=st.data(), fleet=fleets(), **WAYS)
test_many_more_bills = many(test_costs_match_an_exact_calculation_from_the_bill, DRAWN, ONE)

_POOLS = """
    SELECT sum(instance_hours * price_per_hour), sum(effective_cost) FROM billed_hours
    GROUP BY region, instance_type, capacity_type, from_ms
"""
_MACHINES = "SELECT instance_hours * price_per_hour, effective_cost FROM billed_hours"


def _check_hours(store: Store, charged: list[Charge], pooled: bool) -> None:
    """Price x billed hours equals the bill's effective cost: per machine as billed, or over each pool of shared costs."""
    rows = store.query(_POOLS if pooled else _MACHINES)[1]
    assert all(abs(float(cost) - float(calculated)) < 1e-6 for calculated, cost in rows)
    assert sum(cost for _, cost in rows) == sum(charge.cost for charge in charged)


OWNERS = sampled_from(["PyTorchJob", "CronJob", "ReplicaSet", "Notebook", "StatefulSet"])


@composite
def _typed(draw: DrawFn, fleet: Fleet) -> Fleet:
    """Draw the same fleet with owners of every type, slow starts, and waiting pods."""
    pods = []
    for one in fleet["pods"]:
        owner = [draw(OWNERS), draw(sampled_from(["x", "y"]))]
        begins = draw(one_of(just(one["from"]), integers(one["scheduled"], one["to"])))
        pods.append({**one, "owner": owner, "from": begins})
    if pods and draw(booleans()):
        since = draw(integers(fleet["start"], fleet["end"] - 60))
        waits = {"name": "waits", "uid": "waits", "node": None, "devices": [], "count": draw(integers(1, 8))}
        times = dict.fromkeys(("scheduled", "from", "to", "keep_until"), fleet["end"]) | {"created": since}
        alike = {key: value for key, value in pods[0].items() if key != "containers"}
        pods.append(
            {**alike, **waits, **times, "resource": "nvidia_com_gpu", "restarts": [], "completes": False}
        )
    return {**fleet, "pods": pods}


@pytest.mark.slow
@settings(RARELY_SLOW, max_examples=12)
@given(data=st.data(), fleet=fleets().flatmap(_typed), share=sampled_from([0.3, 0.7, 1.0]))
def test_buckets_add_up(data: DataObject, fleet: Fleet, share: float) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        config = config.model_copy(
            update={"waste": WasteSettings(forgotten_after="1h", target_utilization=share)}
        )
        store, span = load(fleet, scrape(fleet, lean=True), config), period(fleet["start"], fleet["end"])
        pipeline.attribute(config, store, span)
        check_waste(config, store, span)


OTHER_BASES = given(data=st.data(), fleet=fleets().flatmap(by_basis).flatmap(_typed), share=just(0.7))
test_buckets_add_up_by_every_other_cost_basis = many(test_buckets_add_up, OTHER_BASES, RARELY_SLOW, 8)


TABLES = """
    nodes allocations allocation_traits mig_fragmentation pending_pods collected coverage_gaps node_prices warnings cost_hourly
    node_hourly cost_daily node_daily"""


@pytest.mark.slow
@settings(ONE, max_examples=5)
@given(data=st.data(), fleet=fleets())
def test_store_filled_in_any_order_equals_one_made_at_once(data: DataObject, fleet: Fleet) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        hourly = list(windows(fleet, scrape(fleet, lean=True), config, 1))
        assume(len(hourly) > 1)
        grown = Store(config.store.with_name("grown.duckdb"))
        # by number, so that a failure prints the order, not the samples
        *first, last = data.draw(permutations(range(len(hourly))))
        for number in first:
            _load(grown, hourly[number])
            # none: the next window is loaded before attribution
            if threshold := data.draw(sampled_from([None, 5, 60])):
                idle = config.idle.model_copy(update={"threshold_percent": threshold})
                teams = data.draw(sampled_from([config.teams, []]))
                zone = data.draw(sampled_from(["UTC", "Asia/Kolkata"]))
                share = data.draw(sampled_from(["compute", "max_compute_memory"]))
                mig = config.mig.model_copy(update={"share": share})
                changed = {"idle": idle, "teams": teams, "timezone": zone, "mig": mig}
                pipeline.attribute(config.model_copy(update=changed), grown)
            if data.draw(integers(0, 9)) == 0:
                upkeep.rewrite(grown)
        # A changed threshold recomputes every day; without a change, only the last window is recomputed.
        pipeline.attribute(config, grown)
        _load(grown, hourly[last])
        anew = Store(config.store.with_name("anew.duckdb"))
        for window in hourly:
            _load(anew, window)
        assert _stored(config, grown) == _stored(config, anew)


def _load(store: Store, window: SampleWindow) -> None:
    with store.write() as con:
        load_window(con, window)


def _stored(config: Config, store: Store) -> dict[str, list[tuple[Any, ...]]]:
    pipeline.attribute(config, store)
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES.split()}
