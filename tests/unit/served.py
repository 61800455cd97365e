"""Deployments that serve models, each on a node of L4s, what they counted, and the answers on them all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucost.collect.progress.files import import_files
from gpucost.config.model import Config, UnitSettings
from gpucost.questions.units.query import UnitView
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressSeries
from tests.replay.cases.words import busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.work import asked, counter, put, stored


def serving(pods: list[tuple[str, list[int], float, float]], hours: float = 24) -> Fleet:
    """Pods of a Deployment on a $4 node of 4 L4s, busy for the first half of their time."""
    return on_nodes({"serve": pods}, hours)


def on_nodes(nodes: dict[str, list[tuple[str, list[int], float, float]]], hours: float) -> Fleet:
    """The same of several nodes."""
    told: list[dict[str, Any]] = []
    util: dict[str, Any] = {}
    for name, pods in nodes.items():
        for pod_name, gpus, start, end in pods:
            owner = ["Deployment", pod_name.rsplit("-", 1)[0]]
            told.append(pod(pod_name, name, gpus, start, end, namespace="chat", owner=owner))
            util |= busy(name, gpus, start, (start + end) / 2)
    return fleet(hours, [node(name, "g6.12xlarge", 0, hours) for name in nodes], told, util, scrape=600)


GPUS = [0, 1, 2, 3]
# pods of other scenes hold their node for a day
PODS: dict[str, list[tuple[str, list[int], float, float]]] = {
    "engines": [("engines-0", [0, 1], 0, 24), ("engines-1", [2, 3], 0, 24)],
    "copies": [("copies-0", GPUS, 0, 10), ("copies-1", GPUS, 11, 24)],
    "pools": [("pool-prefill-0", [0], 0, 24), ("pool-decode-0", [1, 2, 3], 0, 24)],
    "mixed": [("mixed-0", [0, 1], 0, 48), ("big-0", [2, 3], 0, 48)],
    **{name: [(f"{name}-0", GPUS, 0, 48)] for name in ("days", "idle", "odd")},
    **{name: [(f"{name}-0", GPUS, 0, 2)] for name in ("trace", "lines", "plurals")},
}
CRASHES = {
    # one restart at 2 h: what was counted since; then a crash every five scrapes, alike or not
    "restart": ([(minute / 60, minute % 120 * 10) for minute in range(240)], 1190 + 1190),
    "crash-5": ([(minute / 60, minute % 5 * 100) for minute in range(240)], 48 * 400),
    "crash-3": ([(minute / 60, minute % 3 * 100) for minute in range(240)], 80 * 200),
    "crash-odd": ([(minute / 60, minute % 5 * (100 + minute % 7) + 3) for minute in range(240)], None),
}
# amounts at five o'clock
COUNTS = {
    "cached": {"prompt_token": 8_000_000, "cached_token": 4_000_000, "generation_token": 1_000_000, "prefill_second": 30,
               "decode_second": 90},
    "phase": {"prompt_token": 8_000_000, "generation_token": 1_000_000, "decode_second": 90},
    "weighed": {"prompt_token": 3, "generation_token": 1},
    "pool-prefill": {"prompt_token": 8_000_000, "cached_token": 2_000_000, "generation_token": 100},
    # of the prompt, which it counts again, all came over from the other pod
    "pool-decode": {"prompt_token": 8_000_000, "cached_token": 8_000_000, "generation_token": 1_000_000},
    "days": {"prompt_token": 3_000_000, "generation_token": 1_000_000},
}  # fmt: skip
MAPPED = {"weighed": 1.0, "odd": 7.3}  # what a prompt token weighs, by mapping
Told = list[tuple[ProgressSeries, Sequence[tuple[float, float]]]]


def processes(starts: list[int], rates: list[int]) -> list[tuple[float, int]]:
    """What scrapes find, a minute apart: each the counter of one of the workers, which add their rate a minute."""
    picked = random.Random(4)
    chosen = [(minute, picked.randrange(len(starts))) for minute in range(240)]
    return [(minute / 60, starts[worker] + rates[worker] * minute) for minute, worker in chosen]


STARTS = [10_000, 20_000, 40_000, 90_000]
WORKERS = processes(STARTS, [1, 2, 3, 4])


def told_of_requests() -> Told:
    told: Told = []
    for name in ("engines-0", "engines-1"):
        for engine in ("0", "1"):
            for reason, rate in (("stop", 1000), ("length", 500), ("abort", 7)):
                labels = {"engine": engine, "finished_reason": reason}
                series = counter(
                    "request", name, "chat", model="qwen", labels=labels, is_failure=reason == "abort"
                )
                told.append((series, [(0, 10), (12, 10 + rate), (23, 10 + 2 * rate)]))
    for name, points in (
        # the second replica is behind, misses the restart at 5 and comes back later
        ("a", [(0.0, 100), (2, 300), (4, 500), (5, 0), (6, 50), (9, 200)]),
        ("b", [(0.01, 100), (2.01, 290), (4.01, 500), (6.01, 49), (9.01, 200)]),
    ):
        told.append((counter("request", "copies-0", "chat", labels={"prometheus_replica": name}), points))
    for job in (
        "one",
        "two",
    ):  # scraped by two jobs; it began within the collected time, so it counted from 0
        told.append((counter("request", "copies-1", "chat", labels={"job": job}), [(11.2, 30), (20, 130)]))
    for unit, model, amount in (("batch_item", "a", 100), ("batch_item", "b", 200), ("request", "a", 9)):
        told.append((counter(unit, "triton-0", "chat", model=model), [(0, 0), (8, amount)]))
    told.append((counter("request", "workers-0", "chat"), WORKERS))
    told.append((counter("request", "alike-0", "chat"), processes([0, 0, 0, 0], [60, 61, 59, 60])))
    return told + [(counter("request", f"{name}-0", "chat"), points) for name, (points, _) in CRASHES.items()]


def told_of_tokens() -> Told:
    told: Told = []
    for workload, counts in COUNTS.items():
        for unit, count in counts.items():
            series = counter(unit, f"{workload}-0", "chat", model="m")
            mapped = unit == "prompt_token" and workload in MAPPED
            told.append((series._replace(mapping=workload) if mapped else series, [(0, 0), (5, count)]))
    for (name, model), count in {
        ("mixed-0", "small"): 5,
        ("mixed-0", "tiny"): 2,
        ("big-0", "small"): 9,
    }.items():
        for unit, scale in (("prompt_token", 3), ("generation_token", 2)):
            told.append(
                (
                    counter(unit, name, "chat", model=model),
                    [(0, 0), (5, count * 1e6), (29, count * scale * 1e6)],
                )
            )
    told.append((counter("prompt_token", "idle-0", "chat", model="m"), [(0, 0), (5, 100), (40, 100)]))
    for model, more in (("a", 7), ("b", 0)):
        points = [(0, 0), (5, 100), (12, 100), (20, 100 + more), (23, 100 + more)]
        told.append((counter("prompt_token", "quiet-0", "chat", model=model), points))
    return told


@dataclass
class Served:
    config: Config
    store: Store
    folder: Path
    views: dict[str, UnitView] = field(default_factory=dict)

    def ask(self, build: Any, hours: tuple[float, float] = (0, 24), **filters: Any) -> UnitView:
        """An answer on the whole store, worked out once."""
        key = repr((getattr(build, "func", build), getattr(build, "keywords", {}), hours, filters))
        if key not in self.views:
            self.views[key] = asked(self.config, self.store, build, hours, **filters)
        return self.views[key]

    def rows(self, workload: str, build: Any, hours: tuple[float, float] = (0, 24)) -> list[dict[str, Any]]:
        return [row for row in self.ask(build, hours).rows if row["workload"] == f"Deployment/{workload}"]

    def load(self, name: str, text: str) -> Any:
        path = self.folder / name
        path.write_text(text)
        self.views.clear()
        return import_files(self.store, [path], self.config.tz)[0]


# days of models of prompt, cached and generated tokens and seconds of both phases
Days = list[list[tuple[int, ...]]]
ODD: Days = [[(10**12, 0, 1, 7, 0), (3, 5, 0, 0, 9), (0, 0, 0, 0, 0)], [(0, 0, 77, 1, 1), (1, 1, 1, 0, 0)]]


def odd_counts(days: Days, workload: str) -> Told:
    told: Told = []
    for model in range(max(map(len, days))):
        for number, name in enumerate(
            ("prompt_token", "cached_token", "generation_token", "prefill_second", "decode_second")
        ):
            level, points = 0, [(0.0, 0.0)]
            for day, models in enumerate(days):
                level += models[model][number] if model < len(models) else 0
                points.append((day * 24 + 9.0, float(level)))
            mapping = workload if name == "prompt_token" else name
            told.append(
                (counter(name, f"{workload}-0", "chat", model=f"m{model}")._replace(mapping=mapping), points)
            )
    return told


def served_at(folder: Path) -> Served:
    """All scenes in one store, each on a node of its own."""
    alone = ("triton", "cached", "phase", "weighed", "quiet", "workers", "alike", "again", *CRASHES)
    config, store = stored(
        on_nodes(PODS | {name: [(f"{name}-0", GPUS, 0, 24)] for name in alone}, 48), folder
    )
    mapped = [
        UnitSettings(name=name, unit="prompt_token", metric="m", prompt_weight=weight)
        for name, weight in MAPPED.items()
    ]
    config = config.model_copy(update={"units": mapped})
    put(store, [*told_of_requests(), *told_of_tokens(), *odd_counts(ODD, "odd")], 48)
    for last in (100, 100, 160):
        put(
            store,
            [(counter("request", "again-0", "chat"), [(1, 0), (2, 40), (3, 40), (4, 40), (9, last)])],
            source="again",
        )
    return Served(config, store, folder)
