"""`gpucost lake attribute`: run tasks with changed inputs, then publish all new figures at once."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gpucost import attribute as stages, pipeline
from gpucost.config.model import Config
from gpucost.engine import spark
from gpucost.lake import manifest, steps
from gpucost.lake.files import PARTS, LakeFiles, open_files
from gpucost.lake.manifest import Lake, LakeFile, Tables
from gpucost.lake.steps import (
    MARKERS,
    NEIGHBOR_MS,
    REPLY,
    STEPS,
    STEPS_VERSION,
    TABLES,
    TASK,
    Day,
    Reply,
    Task,
)
from gpucost.periods import MS_PER_DAY, from_ms
from gpucost.store.schema import latest_version

_CURRENT = "_gpucost/current.json"
# A task attributes adjoining days, up to this many (GPU, hour) pairs, and at least one day.
_PAIRS_AT_ONCE = 1_200_000


@dataclass(slots=True)
class Attributed:
    """The result of a run: its tasks by step, the days that were attributed or unchanged, and rows."""

    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))
    days: int = 0
    unchanged: int = 0
    rows: int = 0


def attribute(
    config: Config, url: str, session: Any = None, show_progress: Callable[[str], None] = lambda _: None
) -> Attributed:
    """Attribute changed data of a lake, one task after the other or as tasks of a Spark `session`.

    Readers see the previous figures until all new ones are written. Raises NoDataError without a lake, and
    GpucostError with the task's name if a task fails.
    """
    run = _LakeAttribution(config, url, session, show_progress)
    run.find_finished()
    inventories = [run.inventory_task(clusters) for clusters in run.groups()]
    run.finish(inventories)
    price = run.price_task(inventories)
    run.finish([price])
    days = run.attribute_days([task for task in inventories if task.clusters], price)
    warnings = run.task("warnings", run.lake.clusters, (*inventories, price, *days))
    run.finish([warnings])
    by_day = defaultdict(list)
    for task in days:
        for day, marker in zip(task.days, task.markers, strict=True):
            by_day[day.name].append(marker)
    markers = [marker for task in (*inventories, price, warnings) for marker in task.markers]
    current = {
        "version": _version(),
        "inputs": run.inputs.all,
        "raw": raw_digest(run.lake),
        "markers": markers,
        "days": by_day,
    }
    run.files.write(_CURRENT, json.dumps(current).encode())
    return run.result


class _LakeAttribution:
    def __init__(self, config: Config, url: str, session: Any, show_progress: Callable[[str], None]) -> None:
        self.config, self.url, self.session, self.show_progress = config, url, session, show_progress
        self.files = open_files(url, config)
        self.lake = manifest.read(self.files)
        self.inputs = pipeline.inputs_of(config)
        heard = [manifest.heard for manifest in self.lake.manifests if manifest.heard] or [(0, 0)]
        self.heard = min(heard)[0], max(last for _, last in heard)
        # The files of finished tasks, by marker and table.
        self.written: dict[str, dict[str, LakeFile]] = {}
        self.result = Attributed()

    def find_finished(self) -> None:
        """Find finished tasks, and remove files that are older than a day and not in use."""
        current = read_current(self.files)
        self.files.remove_abandoned(MARKERS, set(markers_of(current)) if current else ())
        places = self.files.names(MARKERS)  # before the files: another run writes its files first
        sizes = {name: found.size for name, found in self.files.found("attributed").items()}
        for place, content in zip(places, self.files.each(self.files.read, places), strict=True):
            try:
                tables = TABLES.validate_json(content or b"")
            except ValueError:
                continue
            if all(sizes.get(file.name) == file.size for file in tables.values()):
                self.written[place] = tables
        # A task keeps an existing marker, so a broken one must be deleted.
        self.files.delete(place for place in places if place not in self.written)
        named = {file.name for tables in self.written.values() for file in tables.values()}
        self.files.remove_abandoned("attributed", named)
        self.files.remove_abandoned(PARTS, ())

    def task(self, step: str, clusters: list[str], earlier: Iterable[Task] = (), **parts: Any) -> Task:
        """A task that reads the output of earlier ones.

        Its key is a digest of its files and of the configuration.
        """
        task = Task(step, "", clusters, self.heard, **parts)
        for former in earlier:
            for marker in former.markers:
                for name, file in self.written[marker].items():
                    if f"{former.step}/{name}" in STEPS[step].reads:
                        task.made.setdefault(f"{former.step}/{name}", []).append(file)
        task.key = _digest(self.inputs.all, TASK.dump_python(task))
        return task

    def groups(self) -> list[list[str]]:
        """Clusters whose inventories are built together, and an empty group.

        The empty group is for configured clusters without data. Slurm's nodes may be pods or nodes of a
        Kubernetes cluster: with Slurm, all clusters are one group.
        """
        clusters = self.lake.clusters
        if any(table.startswith("slurm_") for name in clusters for table in self.lake.tables(name)):
            return [[], clusters]
        return [[], *([name] for name in clusters)]

    def inventory_task(self, clusters: list[str]) -> Task:
        """The task that finds nodes and allocations of these clusters."""
        raw = {cluster: self._raw(cluster, STEPS["inventory"].reads) for cluster in clusters}
        if any(team.cost_categories for team in self.config.teams):  # teams by cost categories in bills
            raw[""] = self._raw(None, ("raw/bills", "raw/bill_rows"))
        return self.task("inventory", clusters, raw=raw, silent=[] if clusters else self._silent())

    def _silent(self) -> list[str]:
        """Configured clusters and servers without data in the lake."""
        reported = {source for manifest in self.lake.manifests for source in manifest.sources}
        any_reported = any(server.source in reported for server in self.config.prometheus)
        clusters = [
            cluster.name for cluster in self.config.clusters if cluster.name not in self.lake.clusters
        ]
        servers = [server for server in self.config.prometheus if server.source not in reported]
        return [*clusters, *(server.source for server in servers if server.cluster or any_reported)]

    def price_task(self, inventories: Sequence[Task]) -> Task:
        """The task that prices all nodes."""
        paths = {"book": self.config.prices.book, "fx_rates": self.config.prices.fx_rates}
        prices = {key: (path, path.read_text("utf-8")) for key, path in paths.items() if path}
        raw = {"": self._raw(None, STEPS["price"].reads)}
        return self.task("price", self.lake.clusters, inventories, raw=raw, prices=prices)

    def attribute_days(self, inventories: Sequence[Task], price: Task) -> list[Task]:
        """Attribute the changed days; return a task for each group with all of its days."""
        tasks = [self.task("days", inventory.clusters, (inventory, price)) for inventory in inventories]
        finished: list[Task] = []
        waiting: list[Task] = []
        for inventory, reply in zip(inventories, self.finish(tasks), strict=True):
            task = self.task("attribute", inventory.clusters, (inventory, price))
            stamps = self._sample_stamps(task.clusters)
            for start, end, fingerprint in reply.days:
                name = f"{from_ms(start).astimezone(self.config.tz):%Y-%m-%d}"
                around = [stamps.get(day, "") for day in _days_around(start, end)]
                key = _digest(self.inputs.general, task.clusters, name, fingerprint, around)
                task.days.append(Day(name, start, end, key))
            finished.append(task)
            waiting += self._spans(task, reply.gpus)
        replies = self.finish(waiting)
        self.result.days = sum(len(task.days) for task in waiting)
        self.result.unchanged = sum(len(task.days) for task in finished) - self.result.days
        self.result.rows = sum(reply.rows for reply in replies)
        return finished

    def _spans(self, whole: Task, gpus: float) -> Iterator[Task]:
        """Tasks of adjoining unfinished days."""
        missing = [
            day for day, marker in zip(whole.days, whole.markers, strict=True) if marker not in self.written
        ]
        at_once = max(1, int(_PAIRS_AT_ONCE / (24 * max(gpus, 1))))
        for start, end in stages.spans_of([(day.start, day.end) for day in missing], at_once, 0):
            days = [day for day in missing if start <= day.start < end]
            raw = {
                name: self._raw(name, ("raw/blocks",), _days_around(start, end)) for name in whole.clusters
            }
            yield replace(whole, days=days, raw=raw)

    def _sample_stamps(self, clusters: Sequence[str]) -> dict[str, str]:
        """A digest of the samples and their series, by UTC day."""
        found: dict[str, list[str]] = defaultdict(list)
        for partition in (partition for cluster in clusters for partition in self.lake.manifests_of(cluster)):
            for day, tables in partition.days.items():
                names = [name for name in ("blocks", "series", "states", "loads") if name in tables]
                found[day] += [f"{name} {tables[name].digest}" for name in names]
        return {day: _digest(sorted(parts)) for day, parts in found.items()}

    def finish(self, tasks: Iterable[Task]) -> list[Reply]:
        """Run the tasks that are not finished, and return their replies in order."""
        tasks = [task for task in tasks if task.markers[0] not in self.written]
        if not tasks:
            return []
        threads = int(self.session.conf.get("spark.task.cpus", "1")) if self.session else None
        work = partial(steps.run, self.url, self.config, threads, tasks)
        if self.session:
            results = spark.run(self.session, work, [task.name for task in tasks])
        else:
            results = enumerate(map(work, range(len(tasks))))
        replies = [Reply() for _ in tasks]
        self.show_progress(f"{tasks[0].step}: 0 of {len(tasks)}")
        for count, (number, result) in enumerate(results, 1):
            replies[number] = REPLY.validate_json(result)
            self.written |= replies[number].written
            self.show_progress(f"{tasks[number].name} ({count} of {len(tasks)})")
        self.result.done[tasks[0].step] += len(tasks)
        return replies

    def _raw(self, cluster: str | None, reads: Iterable[str], days: Iterable[str] | None = None) -> Tables:
        """The raw files of a cluster that are read, of these days or of all."""
        return {
            name: files for name, files in self.lake.tables(cluster, days).items() if f"raw/{name}" in reads
        }


def raw_digest(lake: Lake) -> str:
    """A digest of all raw files of a lake."""
    return _digest(sorted(file.name for manifest in lake.manifests for file in manifest.files))


def read_current(files: LakeFiles) -> dict[str, Any] | None:
    """The description of the published figures; None without figures of this gpucost version."""
    current: dict[str, Any] = json.loads(files.read(_CURRENT) or b"{}")
    return current if current.get("version") == _version() else None


def markers_of(current: dict[str, Any], days: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """The markers of the published figures, for the days that `days` accepts."""
    yield from current["markers"]
    for day, markers in current["days"].items():
        if days(day):
            yield from markers


def utc_days(start: int, end: int) -> list[str]:
    """The UTC days that [start, end) touches."""
    first, last = start // MS_PER_DAY, (end - 1) // MS_PER_DAY
    return [f"{from_ms(day * MS_PER_DAY):%Y-%m-%d}" for day in range(first, last + 1)]


def _days_around(start: int, end: int) -> list[str]:
    """The UTC days that a span and the neighboring hours touch."""
    return utc_days(start - NEIGHBOR_MS, end + NEIGHBOR_MS)


def _version() -> list[int]:
    return [STEPS_VERSION, latest_version()]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([_version(), *parts], sort_keys=True, default=str).encode()).hexdigest()[
        :32
    ]
