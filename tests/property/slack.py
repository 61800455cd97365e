"""How well a fleet's scrapes can know its edges: what no timestamp fixes is known to a scrape, or to a silence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.calculation import unit_share
from tests.replay.fleet import Fleet, is_on
from tests.replay.scrape import kube_clocks


class Slack:
    """Seconds by which the product may differ from the truth, per pod and node."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.ticks = np.unique(np.concatenate([clock.times for clock in kube_clocks(fleet)])) / 1000
        self.interval = fleet["scrape"] * 1.1 + 1

    def _seen(self, start: float, end: float) -> Iterator[float]:
        low, high = np.searchsorted(self.ticks, [start, end])
        yield from self.ticks[low:high].tolist()

    def node(self, node: dict[str, Any]) -> float:
        """Of a node's end, or of all its life where nobody saw it."""
        seen = list(self._seen(node["from"], node["to"]))
        if not seen:
            return float(node["to"] - node["from"])
        return (
            max(self.interval, node["to"] - seen[-1])
            if node["to"] < self.fleet["end"] or node["to"] - seen[-1] > self.interval
            else 0.0
        )

    def pod(self, pod: dict[str, Any]) -> float:
        """Of a pod's held time."""
        node = next(n for n in self.fleet["nodes"] if is_on(pod, n))
        seen = list(self._seen(pod["scheduled"], pod["keep_until"]))
        running = [at for at in seen if at < pod["to"]]
        if not seen or not list(self._seen(node["from"], node["to"])):
            return float(pod["to"] - pod["scheduled"])
        start = 0.0 if pod["timestamps"] else max(0.0, seen[0] - pod["scheduled"])
        end = 0.0 if len(seen) > len(running) else max(self.interval, pod["to"] - running[-1])
        return start + end + (self.node(node) if pod["to"] >= node["to"] else 0.0)

    def closed(self, node: dict[str, Any]) -> float:
        """Of the time in which nobody could have held the node's GPUs: its edges, and all that nobody saw of it."""
        spans = [*node["cordoned"], *node["not_ready"]]
        blind = sum(
            until - since
            for start, end in spans
            for since, until in self.fleet["ksm_silent"]
            if since <= end + self.interval and start <= until + self.interval
        )
        return float(2 * len(spans) * self.interval + blind)

    def beside(self, pod: dict[str, Any]) -> float:
        """GPU-seconds that its node's pods may be taken to hold or not: where too much is held, each cost depends on all."""
        node = next(n for n in self.fleet["nodes"] if is_on(pod, n))
        return sum(self.gpus(other) * self.pod(other) for other in self.fleet["pods"] if is_on(other, node))

    def mixed(self, pod: dict[str, Any]) -> float:
        """GPU-seconds whose rate is that of their hour, not of their moment: in hours in which too much is held for a time.

        Idle cost is an hour's cost by its idle part. Of what is idle for a part of the hour and costs up to all of the rate for
        another part, the product of the means is off by a quarter at most.
        """
        node = next(n for n in self.fleet["nodes"] if is_on(pod, n))
        held = [
            (one["scheduled"], one["to"], self.gpus(one)) for one in self.fleet["pods"] if is_on(one, node)
        ]
        edges = sorted({edge for start, end, _ in held for edge in (start, end)})
        crowded = [
            (at, until)
            for at, until in itertools.pairwise(edges)
            if sum(gpus for start, end, gpus in held if start <= at < end) > len(node["gpus"])
        ]
        hours = range(pod["scheduled"] // 3600, -(-pod["to"] // 3600))
        return sum(
            self.gpus(pod) * (min(pod["to"], hour * 3600 + 3600) - max(pod["scheduled"], hour * 3600)) / 4
            for hour in hours
            if any(at < hour * 3600 + 3600 and hour * 3600 < until for at, until in crowded)
        )

    def host(self, pod: dict[str, Any]) -> float:
        """Node-seconds whose cores and memory may be charged to its node's pods or not, this one's own included."""
        if "cost_basis" not in self.fleet:
            return 0.0
        node = next(n for n in self.fleet["nodes"] if is_on(pod, n))
        return sum(self.pod(other) for other in self.fleet["pods"] if is_on(other, node))

    def gpus(self, pod: dict[str, Any]) -> float:
        """How many GPUs the pod holds."""
        node = next(n for n in self.fleet["nodes"] if is_on(pod, n))
        return float(pod["count"] * unit_share(node, pod["resource"]))
