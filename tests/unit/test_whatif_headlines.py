"""The savings of `whatif schedule`, `share` and `reserve` on the demo's Kubernetes cluster, by hand from store and catalog."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests.unit.whatif_costs import ask

pytestmark = pytest.mark.slow
HOUR, MINUTE = 3_600_000, 60_000
# October 2026 in milliseconds; September has a bill, October the price book
FROM, TO = 1_790_812_800_000, 1_793_491_200_000


class Tables(NamedTuple):
    """What the store holds of October: nodes, who held their GPUs, price steps, and samples of utilization in percent."""

    nodes: pd.DataFrame
    pods: pd.DataFrame
    prices: dict[int, list[tuple[int, int, float]]]
    samples: dict[tuple[str, str], pd.DataFrame]

    def cost(self, node_id: int, begin: int, end: int) -> float:
        """What the node costs in [begin, end); the first price holds before, the last one after."""
        steps = self.prices[node_id]
        edges = [min(begin, steps[0][0]), *(start for start, _, _ in steps[1:]), max(end, steps[-1][1])]
        spans = zip(edges, edges[1:], steps, strict=False)
        return sum(max(0, min(end, until) - max(begin, start)) * step[2] for start, until, step in spans) / HOUR


_NODES = """
SELECT node_id, gpu_count AS node_gpus, gpu_model, capacity_type, up_from_ms, up_to_ms FROM nodes WHERE cluster = 'demo'"""
_PODS = """
SELECT node_id, uid, namespace, pod, workload, gpus, held_from_ms, held_to_ms FROM allocations
WHERE gpus > 0 AND cluster = 'demo'"""
_PRICES = "SELECT node_id, from_ms, to_ms, price_per_hour FROM node_prices WHERE to_ms > $1 ORDER BY from_ms"
_SAMPLES = """
SELECT labels['namespace'], labels['pod'], hour * 3600000::BIGINT, first_offset_ms, coalesce(step_ms, 0), offsets_ms, vals
FROM series JOIN blocks USING (series_id)
WHERE metric = 'DCGM_FI_DEV_GPU_UTIL' AND labels['pod'] IS NOT NULL AND hour >= $1 // 3600000"""


def ask_of(demo: Config, what_if: str, words: str = "--month 2026-10") -> dict[str, Any]:
    return ask(what_if, f"{words} --config {demo.path}")


_NO_SAMPLES = pd.DataFrame({"at": [], "percent": []})


@pytest.fixture(scope="module")
def tables(demo: Config) -> Tables:
    (end,), nodes, pods, steps, blocks = pipeline.read_attributed(
        demo,
        Store(demo.store),
        lambda con: (
            con.execute("SELECT to_ms FROM collected WHERE cluster = 'demo'").fetchall()[0],
            *(con.execute(query).df() for query in (_NODES, _PODS)),
            *(con.execute(query, [FROM]).fetchall() for query in (_PRICES, _SAMPLES)),
        ),
    )
    prices: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for node_id, start, until, price in steps:
        prices[node_id].append((start, until, float(price)))
    for frame, start, until in ((nodes, "up_from_ms", "up_to_ms"), (pods, "held_from_ms", "held_to_ms")):
        frame["begin"], frame["end"] = frame[start].clip(lower=FROM), frame[until].clip(upper=min(TO, end))
    samples: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for namespace, pod, hour, first, step, offsets, values in blocks:
        at = offsets or [first + number * step for number in range(len(values))]
        samples[namespace, pod] += [(hour + offset, value) for offset, value in zip(at, values, strict=True)]
    return Tables(
        nodes[nodes.begin < nodes.end].set_index("node_id", drop=False),
        pods[pods.begin < pods.end],
        prices,
        {pod: pd.DataFrame(sorted(several), columns=["at", "percent"]) for pod, several in samples.items()},
    )


def samples_of(tables: Tables, pod: Any) -> pd.DataFrame:
    """Those of a pod of one GPU while it held it."""
    of = tables.samples.get((pod.namespace, pod.pod), _NO_SAMPLES)
    return of[(of["at"] >= pod.begin) & (of["at"] < pod.end)]


def idle_spans(samples: pd.DataFrame, end: int) -> list[tuple[int, int]]:
    """Under 5 %: a sample speaks until the next one, or for the 10 minutes between two where that is over 25 away."""
    spans: list[tuple[int, int]] = []
    times = samples["at"].to_list()
    for at, after, percent in zip(times, [*times[1:], None], samples.percent, strict=True):
        until = after if after is not None and after - at <= 25 * MINUTE else min(end, at + 10 * MINUTE)
        if percent < 5 and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], until)
        elif percent < 5:
            spans.append((at, until))
    return spans


class Held(NamedTuple):
    """GPUs held in [begin, end); of batch work, which ends as much later as it begins later."""

    begin: int
    end: int
    gpus: float
    is_batch: bool


def lives(node: Any, held: Iterable[Held]) -> list[tuple[int, int]]:
    """When the node is up: it goes 10 minutes after the last pod, and comes again with the next, which waits 5 minutes for it.

    What waited for the node may end later, and others wait for its GPUs.
    """
    ups, ready, empty = [[node.begin, node.begin]], node.begin, node.begin
    busy: list[tuple[int, float]] = []
    for begin, end, gpus, is_batch in sorted(held):
        start = begin
        ups[-1][1] = max(empty, min(empty + 10 * MINUTE, node.end))
        if start >= ups[-1][1]:
            ups.append([start, start])
            ready = start + 5 * MINUTE
        start = max(start, ready)
        while sum(taken for until, taken in busy if until > start) + gpus > node.node_gpus + 1e-6:
            start = min(until for until, _ in busy if until > start)
        stop = end + start - begin if is_batch else max(end, start)
        busy.append((stop, gpus))
        empty = max(empty, stop)
    ups[-1][1] = max(empty, min(empty + 10 * MINUTE, node.end))
    return [(start, end) for start, end in ups if start < end]


def test_a_schedule_saves_the_hours_of_empty_nodes_and_of_idle_notebooks(demo: Config, tables: Tables) -> None:
    answer = ask_of(demo, "schedule", "--month 2026-10 --cluster demo")
    held: dict[int, list[Held]] = defaultdict(list)
    released = 0.0
    for pod in tables.pods.itertuples():
        is_batch = pod.workload.partition("/")[0].endswith("Job")
        begin = pod.begin
        if re.search("notebook|jupyter|workspace", f"{pod.workload} {pod.namespace}".lower()):
            assert (pod.gpus, is_batch) == (1, False)
            for start, end in idle_spans(samples_of(tables, pod), pod.end):
                if end - start > HOUR:
                    held[pod.node_id].append(Held(begin, start + HOUR, 1, False))
                    released += (end - start - HOUR) / HOUR
                    begin = end
        if begin < pod.end:
            held[pod.node_id].append(Held(begin, pod.end, pod.gpus, is_batch))
    today = removed = saving = 0.0
    for node in tables.nodes.itertuples():
        cost = tables.cost(node.node_id, node.begin, node.end)
        today += cost
        if node.capacity_type != "reserved":  # which is paid anyway
            ups = lives(node, held[node.node_id])
            removed += (node.end - node.begin - sum(end - start for start, end in ups)) / HOUR
            saving += cost - sum(tables.cost(node.node_id, start, end) for start, end in ups)
    assert saving > 5_000 and released > 2_000
    assert answer["today"]["cost"] == pytest.approx(today, abs=1e-5)
    assert answer["released_gpu_hours"] == pytest.approx(released, abs=1e-5)
    assert answer["removed_node_hours"] == pytest.approx(removed, abs=1e-5)
    assert answer["saving"] == pytest.approx(saving, abs=1e-5)


class Shared(NamedTuple):
    """A GPU that pods share: when, the node that its first one was on, and until when each needs how much of it."""

    node_id: int
    begin: int
    held: list[tuple[int, float]]

    @property
    def end(self) -> int:
        return max(end for end, _ in self.held)

    def has_room(self, at: int, need: float) -> bool:
        """For at most four, up to four fifths of it."""
        needs = [other for end, other in self.held if end > at]
        return len(needs) < 4 and sum(needs) + need <= 0.8 + 1e-9


@pytest.fixture(scope="module")
def saved_by_sharing(demo: Config, tables: Tables) -> dict[str, float]:
    """By capacity type, what pods of one GPU save that share it with others of their team on GPUs of one model."""
    team_of = {space: team.name for team in demo.teams for space in team.namespaces}
    pods = tables.pods[np.isclose(tables.pods.gpus, 1)].copy()
    high: dict[tuple[str, str], float] = defaultdict(float)
    measured = []
    for pod in pods.itertuples():
        percents = samples_of(tables, pod).percent
        measured.append(len(percents) > 0)
        if len(percents):
            owner = pod.namespace, pod.workload
            high[owner] = max(high[owner], float(np.quantile(percents, 0.95)) / 100)
    pods = pods[measured]
    pods["need"] = [high[namespace, workload] * 1.1 for namespace, workload in zip(pods.namespace, pods.workload, strict=True)]
    pods = pods[pods.need * 2 <= 0.8 + 1e-9].join(tables.nodes[["gpu_model", "capacity_type", "node_gpus"]], "node_id")
    saved: dict[str, float] = defaultdict(float)
    team = pods.namespace.map(lambda name: team_of.get(name, "unassigned"))
    for (_, _, bought), alike in pods.groupby(["gpu_model", team, "capacity_type"]):
        gpus: list[Shared] = []
        per_gpu = dict(zip(alike.node_id, alike.node_gpus, strict=True))
        for pod in alike.sort_values(["begin", "need"], ascending=[True, False], kind="stable").itertuples():
            saved[bought] += tables.cost(pod.node_id, pod.begin, pod.end) / pod.node_gpus
            gpu = next((one for one in gpus if one.end > pod.begin and one.has_room(pod.begin, pod.need)), None)
            if gpu is None:
                gpu = Shared(pod.node_id, pod.begin, [])
                gpus.append(gpu)
            gpu.held.append((pod.end, pod.need))
        saved[bought] -= sum(tables.cost(gpu.node_id, gpu.begin, gpu.end) / per_gpu[gpu.node_id] for gpu in gpus)
    return saved


def test_the_headline_of_sharing_is_of_nodes_that_can_go(
    demo: Config, saved_by_sharing: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that could be shared in October lies on reserved nodes, which are paid anyway; were they not, it would be this."""
    assert ask_of(demo, "share")["saving"] == pytest.approx(saved_by_sharing["on_demand"] + saved_by_sharing["spot"], abs=1e-5)
    monkeypatch.setattr("gpucost.whatif.share.PAID_ANYWAY", ())
    assert ask_of(demo, "share")["saving"] == pytest.approx(sum(saved_by_sharing.values()), abs=1e-5)
    assert saved_by_sharing["reserved"] > 1_000


class Committed(NamedTuple):
    """What on-demand machines cost in a month, and what the best commitment for each type saves of that."""

    today: float
    saving: float


def best_commitments(hours: dict[str, list[float]], prices: dict[str, list[float]]) -> Committed:
    """Of machines in use in each hour, and prices: on demand, then committed.

    So many are committed, and paid in all hours, as cost least; the rest is paid by the hour.
    """
    today = saving = 0.0
    for name, used in hours.items():
        on_demand, *committed = prices[name]
        choices = [
            len(used) * count * price + sum(max(0.0, one - count) for one in used) * on_demand
            for price in committed
            for count in range(int(max(used)) + 2)
        ]
        today, saving = today + sum(used) * on_demand, saving + sum(used) * on_demand - min(choices)
    return Committed(today, saving)


TYPES = ("g4dn.12xlarge", "p4d.24xlarge")


@pytest.fixture(scope="module")
def listed() -> dict[str, list[float]]:
    """List prices in us-east-1 of these types: on demand, then reserved."""
    with (pricing_dir() / "prices.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["region"] == "us-east-1" and row["instance_type"] in TYPES]
    prices: dict[str, list[float]] = {}
    for bought in ("on_demand", "reserved"):
        for row in rows:
            if row["purchase_option"] == bought:
                prices.setdefault(row["instance_type"], []).append(float(row["price_per_hour"]))
    return prices


@pytest.fixture(scope="module")
def billed(demo: Config) -> pd.DataFrame:
    """On-demand machines that no commitment covers in September's bill, an hour and a type a row."""
    assert demo.path
    rows = pd.read_parquet(demo.path.parent / "cur-2026-09.parquet")
    is_usage = (rows.line_item_line_item_type == "Usage") & rows.product_instance_type.isin(TYPES)
    rows = rows[is_usage & rows.line_item_usage_type.str.startswith("BoxUsage")].rename(
        columns={"product_instance_type": "type", "line_item_usage_amount": "hours", "line_item_unblended_cost": "cost"}
    )
    return rows.astype({"hours": float, "cost": float}).groupby(["type", "line_item_usage_start_date"])[["hours", "cost"]].sum()


@pytest.fixture(scope="module")
def september(demo: Config) -> dict[str, Any]:
    """What the command answers of the month that is billed."""
    return ask_of(demo, "reserve", "--month 2026-09")


def machines(billed: pd.DataFrame) -> dict[str, list[float]]:
    """In each of the 720 hours, by type."""
    hours = {name: billed.loc[name].hours.to_list() for name in TYPES}
    assert {len(several) for several in hours.values()} == {720}
    return hours


# of the enterprise agreement, which the bill takes off machines and commitments alike
NET = 0.9


def test_the_headline_of_commitments_is_of_what_on_demand_machines_are_billed(
    september: dict[str, Any], billed: pd.DataFrame, listed: dict[str, list[float]]
) -> None:
    assert september["today"]["cost"] == pytest.approx(billed.cost.sum() * NET, rel=1e-3)
    best = best_commitments(machines(billed), {name: [price * NET for price in several] for name, several in listed.items()})
    assert september["saving"] == pytest.approx(best.saving, rel=1e-3)


def test_a_price_under_a_savings_plan_is_none_on_demand(demo: Config, listed: dict[str, list[float]]) -> None:
    """The plan pays for $24.00 an hour at $15.84 a machine, and of two machines the rest is on demand."""
    answer = ask_of(demo, "reserve", "--month 2026-10 --instance-type p4d.24xlarge")
    assert answer["today"]["cost"] == pytest.approx((2 - 24.00 / 15.84) * 744 * listed["p4d.24xlarge"][0] * NET, rel=1e-3)
