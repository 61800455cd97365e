"""Deployments that serve models on L4 nodes, their counters, and all answers about them."""

from __future__ import annotations

import random
import re
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
    """Pods of a Deployment on a $4 node with 4 L4s, busy for the first half of their time."""
    return on_nodes({"serve": pods}, hours)


def on_nodes(
    nodes: dict[str, list[tuple[str, list[int], float, float]]], hours: float, space: str = "chat"
) -> Fleet:
    """The same on several nodes; with an empty `space`, the pods' namespace is named after their node."""
    counted_series: list[dict[str, Any]] = []
    util: dict[str, Any] = {}
    for name, pods in nodes.items():
        for pod_name, gpus, start, end in pods:
            owner = ["Deployment", pod_name.rsplit("-", 1)[0]]
            counted_series.append(pod(pod_name, name, gpus, start, end, namespace=space or name, owner=owner))
            util |= busy(name, gpus, start, (start + end) / 2)
    return fleet(
        hours, [node(name, "g6.12xlarge", 0, hours) for name in nodes], counted_series, util, scrape=600
    )


# pods, their GPUs on L4 nodes, and their hours
PODS = """
engines: engines-0 01 0-24, engines-1 23 0-24
copies: copies-0 0123 0-10, copies-1 0123 11-24
pools: pool-prefill-0 0 0-24, pool-decode-0 123 0-24
mixed: mixed-0 01 0-48, big-0 23 0-48
days: days-0 0123 0-48
idle: idle-0 0123 0-48
odd: odd-0 0123 0-48
trace: trace-0 0123 0-2
lines: lines-0 0123 0-2
plurals: plurals-0 0123 0-2"""
ALONE = "triton cached weighed quiet workers alike again restart crash-5 crash-3 crash-odd"
PODS += "".join(f"\n{name}: {name}-0 0123 0-24" for name in ALONE.split())
# counters of pods: amounts at hours
COUNTED = """
request engines-0 model=qwen engine=0 finished_reason=stop | 0:10 12:1010 23:2010
request engines-0 model=qwen engine=0 finished_reason=length | 0:10 12:510 23:1010
request engines-0 model=qwen engine=0 finished_reason=abort | 0:10 12:17 23:24
request engines-0 model=qwen engine=1 finished_reason=stop | 0:10 12:1010 23:2010
request engines-0 model=qwen engine=1 finished_reason=length | 0:10 12:510 23:1010
request engines-0 model=qwen engine=1 finished_reason=abort | 0:10 12:17 23:24
request engines-1 model=qwen engine=0 finished_reason=stop | 0:10 12:1010 23:2010
request engines-1 model=qwen engine=0 finished_reason=length | 0:10 12:510 23:1010
request engines-1 model=qwen engine=0 finished_reason=abort | 0:10 12:17 23:24
request engines-1 model=qwen engine=1 finished_reason=stop | 0:10 12:1010 23:2010
request engines-1 model=qwen engine=1 finished_reason=length | 0:10 12:510 23:1010
request engines-1 model=qwen engine=1 finished_reason=abort | 0:10 12:17 23:24

the second replica is behind, misses the restart at 5 and comes back later
request copies-0 prometheus_replica=a | 0:100 2:300 4:500 5:0 6:50 9:200
request copies-0 prometheus_replica=b | 0.01:100 2.01:290 4.01:500 6.01:49 9.01:200
scraped by two jobs; it began within the collected time, so it counted from 0
request copies-1 job=one | 11.2:30 20:130
request copies-1 job=two | 11.2:30 20:130

batch_item triton-0 model=a | 0:0 8:100
batch_item triton-0 model=b | 0:0 8:200
request triton-0 model=a | 0:0 8:9

prompt_token cached-0 model=m | 0:0 5:8e6
cached_token cached-0 model=m | 0:0 5:4e6
generation_token cached-0 model=m | 0:0 5:1e6
prompt_token weighed-0 model=m mapping=weighed | 0:0 5:3
generation_token weighed-0 model=m | 0:0 5:1
prompt_token days-0 model=m | 0:0 5:3e6
generation_token days-0 model=m | 0:0 5:1e6
prompt_token idle-0 model=m | 0:0 5:100 40:100
prompt_token quiet-0 model=a | 0:0 5:100 12:100 20:107 23:107
prompt_token quiet-0 model=b | 0:0 5:100 12:100 20:100 23:100

of the prompt, which it counts again, all came over from the other pod
prompt_token pool-prefill-0 model=m | 0:0 5:8e6
cached_token pool-prefill-0 model=m | 0:0 5:2e6
generation_token pool-prefill-0 model=m | 0:0 5:100
prompt_token pool-decode-0 model=m | 0:0 5:8e6
cached_token pool-decode-0 model=m | 0:0 5:8e6
generation_token pool-decode-0 model=m | 0:0 5:1e6

prompt_token mixed-0 model=small | 0:0 5:5e6 29:15e6
generation_token mixed-0 model=small | 0:0 5:5e6 29:10e6
prompt_token mixed-0 model=tiny | 0:0 5:2e6 29:6e6
generation_token mixed-0 model=tiny | 0:0 5:2e6 29:4e6
prompt_token big-0 model=small | 0:0 5:9e6 29:27e6
generation_token big-0 model=small | 0:0 5:9e6 29:18e6

prompt_token odd-0 model=m0 mapping=odd | 0:0 9:1e12 33:1e12
cached_token odd-0 model=m0 | 0:0 9:0 33:0
generation_token odd-0 model=m0 | 0:0 9:1 33:78
prompt_token odd-0 model=m1 mapping=odd | 0:0 9:3 33:4
cached_token odd-0 model=m1 | 0:0 9:5 33:6
generation_token odd-0 model=m1 | 0:0 9:0 33:1
prompt_token odd-0 model=m2 mapping=odd | 0:0 9:0 33:0
cached_token odd-0 model=m2 | 0:0 9:0 33:0
generation_token odd-0 model=m2 | 0:0 9:0 33:0"""
WEIGHTS = {"weighed": 1.0, "odd": 7.3}  # weight of a prompt token, by mapping
Points = list[tuple[float, float]]
CRASHES: dict[str, tuple[Points, int | None]] = {
    # one restart at 2 h, with the expected count; then a crash every three or five scrapes, regular or not
    "restart": ([(minute / 60, minute % 120 * 10) for minute in range(240)], 1190 + 1190),
    "crash-5": ([(minute / 60, minute % 5 * 100) for minute in range(240)], 48 * 400),
    "crash-3": ([(minute / 60, minute % 3 * 100) for minute in range(240)], 80 * 200),
    "crash-odd": ([(minute / 60, minute % 5 * (100 + minute % 7) + 3) for minute in range(240)], None),
}


def processes(starts: list[int], rates: list[int]) -> Points:
    """Samples a minute apart, each from a random worker's counter, which grows by the worker's rate."""
    picked = random.Random(4)
    chosen = [(minute, picked.randrange(len(starts))) for minute in range(240)]
    return [(minute / 60, starts[worker] + rates[worker] * minute) for minute, worker in chosen]


STARTS = [10_000, 20_000, 40_000, 90_000]
WORKERS = processes(STARTS, [1, 2, 3, 4])


def counted_series() -> list[tuple[ProgressSeries, Points]]:
    found = []
    for unit, name, words, amounts in re.findall(r"^(\w+) (\S+-\d)(.*) \| (.+)$", COUNTED, re.M):
        labels = dict(re.findall(r"(\w+)=(\S+)", words))
        known = {key: labels.pop(key) for key in ("model", "mapping") if key in labels}
        is_failure = labels.get("finished_reason") == "abort"
        series = counter(unit, name, "chat", labels=labels, is_failure=is_failure)._replace(**known)
        points = [amount.split(":") for amount in amounts.split()]
        found.append((series, [(float(hour), float(count)) for hour, count in points]))
    computed = {"workers": WORKERS, "alike": processes([0, 0, 0, 0], [60, 61, 59, 60])}
    computed |= {name: points for name, (points, _) in CRASHES.items()}
    return [*found, *((counter("request", f"{name}-0", "chat"), points) for name, points in computed.items())]


@dataclass
class Served:
    config: Config
    store: Store
    folder: Path
    views: dict[str, UnitView] = field(default_factory=dict)

    def ask(self, build: Any, hours: tuple[float, float] = (0, 24), **filters: Any) -> UnitView:
        """An answer about the whole store, computed once."""
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


def served_at(folder: Path) -> Served:
    """All scenes in one store, each on its own node."""
    nodes: dict[str, list[tuple[str, list[int], float, float]]] = {}
    for where, pods in re.findall(r"(\S+): (.+)", PODS):
        nodes[where] = [
            (name, [*map(int, gpus)], float(start), float(end))
            for name, gpus, start, end in re.findall(r"(\S+) (\d+) (\d+)-(\d+)", pods)
        ]
    config, store = stored(on_nodes(nodes, 48), folder)
    mapped = [
        UnitSettings(name=name, unit="prompt_token", metric="m", prompt_weight=weight)
        for name, weight in WEIGHTS.items()
    ]
    config = config.model_copy(update={"units": mapped})
    put(store, counted_series(), 48)
    for last in (100, 100, 160):
        again = counter("request", "again-0", "chat")
        put(store, [(again, [(1, 0), (2, 40), (3, 40), (4, 40), (9, last)])], source="again")
    return Served(config, store, folder)
