"""The bill of the scrapes: allocations, activity and cost by node and cell."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.exact.coverage import collected
from tests.oracle.exact.devices import DeviceSeries, Speech, device_series
from tests.oracle.exact.identities import identified
from tests.oracle.exact.nodes import Node, count_gpus, is_accelerator, lives
from tests.oracle.exact.pods import Pod, pods
from tests.oracle.exact.prices import NANO, Steps
from tests.oracle.exact.states import HOUR, ONE, ZERO, State, states, valid
from tests.oracle.exact.teams import Teams
from tests.replay.series import Series

Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Rules:
    """The other inputs of a bill: prices and settings."""

    prices: Callable[[Node], Steps]
    cluster: str
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    teams: list[dict[str, Any]] = field(default_factory=list)
    cuts: tuple[int, ...] = ()
    threshold: Fraction = Fraction(5)


@dataclass
class Figures:
    """GPU-milliseconds and money of one row; `doubt` counts amounts whose ninth decimal depends on binary rounding."""

    team: str | None = None
    allocated: Fraction = ZERO
    active: Fraction = ZERO
    idle: Fraction = ZERO
    unmeasured: Fraction = ZERO
    utilization: Fraction = ZERO
    unallocated: Fraction = ZERO
    unavailable: Fraction = ZERO
    cost: Decimal = Decimal(0)
    idle_cost: Decimal = Decimal(0)
    unallocated_cost: Decimal = Decimal(0)
    doubt: int = 0

    def __add__(self, other: Figures) -> Figures:
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "team"
        }
        return Figures(team=other.team, **sums)


@dataclass
class NodeFigures:
    """A node's GPU-milliseconds in a cell, the over-allocated ones, and its cost."""

    capacity: Fraction = ZERO
    over_allocated: Fraction = ZERO
    cost: Decimal = Decimal(0)
    doubt: int = 0


#: From and to (milliseconds), cluster, node name, start of the node's uptime.
CellKey = tuple[int, int, str, str, int]


@dataclass
class Bill:
    """Rows by cell and the pod's uid (None: unallocated), and by cell alone."""

    rows: dict[tuple[CellKey, str | None], Figures] = field(default_factory=lambda: defaultdict(Figures))
    nodes: dict[CellKey, NodeFigures] = field(default_factory=lambda: defaultdict(NodeFigures))


def exact_bill(series: list[Series], rules: Rules) -> Bill:
    """Return the bill of samples, without tolerance, aggregates or SQL."""
    everything = list(valid(series, rules.cluster))
    kube_states, exporters = list(identified(states(everything))), device_series(everything)
    nodes = lives(kube_states, exporters)
    _place(nodes, exporters, kube_states)
    for node in nodes:
        node.gpus = count_gpus(node)
    nodes = [node for node in nodes if node.gpus > 0]
    holders = defaultdict(list)
    for pod in pods(kube_states, nodes, exporters):
        holders[pod.node].append(pod)
    seen = collected(kube_states, exporters)
    teams = Teams(kube_states, rules.teams)
    bill = Bill()
    for node in nodes:
        count = _NodeBill(bill, node, holders[node], rules, teams)
        for since, until in seen.get(node.cluster, []):
            count.between(max(since, node.since), min(until, node.until))
    return bill


def _place(nodes: list[Node], exporters: list[DeviceSeries], kube_states: list[State]) -> None:
    """Assign each series to the node that its exporter names, otherwise to the node of the pod it names."""
    names = defaultdict(set)
    by_name = defaultdict(list)
    for node in nodes:
        names[node.cluster].add(node.name)
        by_name[node.cluster, node.name].append(node)
    bound = [s for s in kube_states if s.metric == "kube_pod_info" and s.get("node")]
    for device in exporters:
        name = next((n for n in (device.host, device.node_label) if n in names[device.cluster]), None)
        if name is None and device.host and not device.host.replace(".", "").isdigit():
            short = device.host.split(".")[0]
            name = min((n for n in names[device.cluster] if n.split(".")[0] == short), default=None)
        if name is None and device.pod:
            ran = [
                s
                for s in bound
                if (s.cluster, s.get("namespace"), s.get("pod"))
                == (device.cluster, device.namespace, device.pod)
                and s.first <= device.last
                and device.first <= s.end
            ]
            name = max(ran, key=lambda s: s.last).get("node") if ran else None
        for node in by_name[device.cluster, name] if name else ():
            if device.first < node.until and node.since <= device.last:
                node.devices.append(device)


class _NodeBill:
    """Add up one node's segments: spans within one cell at one price."""

    def __init__(self, bill: Bill, node: Node, holders: list[Pod], rules: Rules, teams: Teams) -> None:
        self.bill, self.node, self.rules, self.teams = bill, node, rules, teams
        self.holders = sorted(holders, key=lambda pod: pod.since)
        self.prices = rules.prices(node)
        on = defaultdict(list)
        for device in node.devices:
            on[device.uuid, device.instance].append(device)
        self.speech = {key: Speech(series, rules.threshold) for key, series in on.items()}
        self.absences = list(_absences(node))

    def between(self, since: int, until: int) -> None:
        """Add up [since, until)."""
        if since >= until:
            return
        begins = {at for at, _ in self.prices}
        for cell_from, cell_to in cells(since, until, self.rules):
            low, high = max(since, cell_from), min(until, cell_to)
            moments = sorted({low, high, *(at for at in begins if low < at < high)})
            for start, end in itertools.pairwise(moments):
                self._segment(
                    (cell_from, cell_to, self.node.cluster, self.node.name, self.node.since), start, end
                )

    def _segment(self, cell: CellKey, since: int, until: int) -> None:
        price = next((price for at, price in reversed(self.prices) if at <= since), Decimal(0))
        node_cost, doubtful = rounded(price, Fraction(until - since, HOUR))
        here = [pod for pod in self.holders if pod.since < until and since < pod.until]
        billed, unavailable = self._stretches(here, since, until)
        capacity = self.node.gpus * (until - since)
        held = {pod: pod.gpus * (min(pod.until, until) - max(pod.since, since)) for pod in here}
        free = capacity - sum(billed.values(), ZERO)
        shares = {**{pod: billed[pod] / capacity for pod in here}, None: free / capacity}
        costs, in_doubt = amounts(node_cost, shares)
        in_doubt += doubtful
        for pod in here:
            idle, measured, activity = self._measured(pod, max(pod.since, since), min(pod.until, until))
            idle, measured = min(idle, held[pod]), min(measured, held[pod])
            idle_cost, idle_doubt = rounded(costs[pod], idle / held[pod])
            row = self.bill.rows[cell, pod.uid]
            row.team = self.teams.of(pod.cluster, pod.namespace, cell[0])
            row.allocated += held[pod]
            row.active += measured - idle
            row.idle += idle
            row.unmeasured += held[pod] - measured
            row.utilization += activity / 100
            row.cost += costs[pod]
            row.idle_cost += idle_cost
            row.doubt += in_doubt + idle_doubt
        if free or costs[None]:
            row = self.bill.rows[cell, None]
            row.unallocated += free
            row.unavailable += unavailable
            row.unallocated_cost += costs[None]
            row.doubt += in_doubt
        whole = self.bill.nodes[cell]
        whole.capacity += capacity
        whole.over_allocated += sum(held.values(), ZERO) - sum(billed.values(), ZERO)
        whole.cost += node_cost
        whole.doubt += doubtful

    def _stretches(self, here: list[Pod], since: int, until: int) -> tuple[dict[Pod, Fraction], Fraction]:
        """Return the GPU-milliseconds that each pod pays for, and the unavailable ones."""
        edges = {
            since,
            until,
            *(edge for pod in here for edge in (pod.since, pod.until) if since < edge < until),
        }
        edges |= {edge for absence in self.absences for edge in absence[1:3] if since < edge < until}
        billed = dict.fromkeys(here, ZERO)
        unavailable = ZERO
        for start, end in itertools.pairwise(sorted(edges)):
            holding = [pod for pod in here if pod.since <= start < pod.until]
            held = sum((pod.gpus for pod in holding), ZERO)
            scale = min(ONE, self.node.gpus / held) if held else ONE
            for pod in holding:
                billed[pod] += pod.gpus * scale * (end - start)
            causes = {}
            for cause, absent_from, absent_to, gpus in self.absences:
                if absent_from <= start < absent_to:
                    causes[cause] = max(gpus, causes.get(cause, ZERO))
            absent = sum(causes.values(), ZERO)
            unavailable += min(absent, max(self.node.gpus - held, ZERO)) * (end - start)
        return billed, unavailable

    def _measured(self, pod: Pod, since: int, until: int) -> tuple[Fraction, Fraction, Fraction]:
        idle = measured = activity = ZERO
        for key, weight in pod.devices.items():
            measures = self.speech[key].between(since, until)
            idle += weight * measures[0]
            measured += weight * measures[1]
            activity += weight * measures[2]
        return idle, measured, activity


def cells(since: int, until: int, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield the hours that overlap [since, until), split at local midnights and at the ends of reported periods."""
    edges = {hour * HOUR for hour in range(since // HOUR, -(-until // HOUR) + 1)} | set(rules.cuts)
    day = datetime.fromtimestamp(since / 1000, UTC).astimezone(rules.zone).date() - timedelta(days=1)
    while (midnight := _midnight(day, rules.zone)) <= until + 24 * HOUR:
        edges.add(midnight)
        day += timedelta(days=1)
    for start, end in itertools.pairwise(sorted(edges)):
        if start < until and since < end:
            yield start, end


def _midnight(day: Any, zone: ZoneInfo) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def _absences(node: Node) -> Iterator[tuple[str, int, int, Fraction]]:
    """Yield (cause, from, to, GPUs) of unavailable GPUs: not ready, cordoned or not allocatable."""
    offered = [s for s in node.states if s.metric == "kube_node_status_capacity"]
    for state in node.states:
        if state.first >= node.until or state.end <= node.since:
            continue
        unready = (
            state.labels.get("condition") == "Ready"
            and state.labels.get("status") == "true"
            and state.value == 0
        )
        if (state.metric == "kube_node_spec_unschedulable" and state.value == 1) or (
            state.metric == "kube_node_status_condition" and unready
        ):
            yield "", state.first, state.end, node.gpus
        elif state.metric == "kube_node_status_allocatable":
            for whole in offered:
                since, until = max(state.first, whole.first), min(state.end, whole.end)
                if (
                    whole.resource == state.resource
                    and state.value < whole.value
                    and since < until
                    and is_accelerator(state.resource)
                ):
                    lost = Fraction(whole.value) - Fraction(state.value)
                    yield state.resource, since, until, lost * node.unit(state.resource, state.first).share


def rounded(cost: Decimal, share: Fraction) -> tuple[Decimal, int]:
    """Return a part of a cost to nine decimals, halves rounded up, and 1 if the rounding is in doubt, otherwise 0.

    Costs and shares are multiplied in binary, and a share such as 1/7 is inexact: close to a half, it may round either way.
    """
    exact = Fraction(cost) * share * 10**9
    nanos = exact.numerator // exact.denominator
    rest = exact - nanos
    return (nanos + (rest >= Fraction(1, 2))) * NANO, int(abs(rest - Fraction(1, 2)) < Fraction(1, 10_000))


def amounts(cost: Decimal, shares: dict[Pod | None, Fraction]) -> tuple[dict[Pod | None, Decimal], int]:
    """Return each share's amount, the rounding remainder in the largest share, then smallest uid; and billionths in doubt."""
    each = {pod: rounded(cost, share) for pod, share in shares.items()}
    costs = {pod: amount for pod, (amount, _) in each.items()}
    doubt = sum(doubtful for _, doubtful in each.values())
    rest = cost - sum(costs.values(), Decimal(0))
    largest = max(shares.values())
    first = min(
        (pod for pod, share in shares.items() if share == largest),
        key=lambda pod: (pod is None, pod.uid if pod else ""),
    )
    costs[first] += rest
    return costs, doubt
