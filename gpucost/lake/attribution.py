"""Attributing a lake: which tasks there are to do, by what they would be made from, and what of it is there already."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from gpucost import attribute as stages
from gpucost import pipeline
from gpucost.errors import NoDataError, StoreError
from gpucost.lake import manifest, steps
from gpucost.lake.files import PARTS, LakeFiles, open_files
from gpucost.lake.manifest import Lake, LakeFile
from gpucost.lake.steps import NEIGHBOR_MS, STEPS, Task, marker
from gpucost.periods import MS_PER_DAY, from_ms
from gpucost.store.schema import latest_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpucost.config.model import Config

_CURRENT = "_gpucost/current.json"
# Days are attributed together up to so many (GPU, hour) pairs; a day with more is split by its nodes.
_PAIRS_AT_ONCE = 1_200_000
Inputs = dict[str, list[tuple[str | None, LakeFile]]]


class Engine(Protocol):
    """Where tasks run."""

    def __enter__(self) -> Engine: ...

    def __exit__(self, *_: object) -> None: ...

    def threads(self, tasks: int) -> int:
        """How many threads each of so many tasks may use."""

    def run(self, work: Callable[[str], str], tasks: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The number of each task and what `work` makes of it; an error calls it by its name."""


@dataclass(slots=True)
class Attributed:
    """What a run came to: tasks by step, those that were there already, and rows of days that were attributed."""

    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))
    unchanged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))
    days: int = 0
    rows: int = 0


def work(url: str, config_json: str, task_json: str) -> str:
    """Run one task where an engine brought it; what it says, as text."""
    return json.dumps(steps.run(url, config_json, task_json))


def shelf(url: str, config: Config) -> Callable[[Sequence[str]], Callable[[int], str]]:
    """Lays tasks into the lake, for workers that are elsewhere, and says how one is read by its number."""

    def lay(tasks: Sequence[str]) -> Callable[[int], str]:
        files, folder = open_files(url, config), f"_gpucost/tasks/{uuid4().hex}"
        files.each(lambda one: files.write(f"{folder}/{one[0]}.json", one[1].encode()), enumerate(tasks))
        return partial(_from_shelf, url, config.model_dump_json(by_alias=True), folder)

    return lay


def _from_shelf(url: str, config_json: str, folder: str, number: int) -> str:
    from gpucost.config.model import Config

    files = open_files(url, Config.model_validate_json(config_json))
    if (content := files.read(f"{folder}/{number}.json")) is None:
        raise StoreError(f"{files.shown(folder)} lacks task {number}", "workers need the same view of the lake as this machine")
    return content.decode()


def attribute(
    config: Config, url: str, engine: Callable[[Any], Engine], tell: Callable[[str], None] = lambda _: None
) -> Attributed:
    """Bring what is attributed of a lake up to date; only tasks whose inputs changed are run.

    `engine` makes the engine, of what lays tasks into the lake. What was attributed before is read until all of it is there.
    Raises NoDataError where there is no lake, and GpucostError for a task that fails, with its name.
    """
    files = open_files(url, config)
    with engine(shelf(url, config)) as running:
        return _Run(config, url, files, manifest.read(files), running, tell).run()


@dataclass(slots=True)
class _Run:
    config: Config
    url: str
    files: LakeFiles
    lake: Lake
    engine: Engine
    tell: Callable[[str], None]
    result: Attributed = field(default_factory=Attributed)
    # by marker the files of each table that it names, of those that are whole
    known: dict[str, dict[str, LakeFile]] = field(default_factory=dict)

    def run(self) -> Attributed:
        places = self.files.names("_gpucost/attributed")
        self._learn(places)
        there = self.files.found("attributed")
        sizes = {name: one.size for name, one in there.items()}
        self.known = {
            place: tables
            for place, tables in self.known.items()
            if all(sizes.get(file.name) == file.size for file in tables.values())
        }
        # a task leaves a marker that is there as it is
        self.files.delete(place for place in places if place not in self.known)
        inputs = pipeline.inputs_of(self.config)
        heard = [one.heard for one in self.lake.manifests if one.heard]
        shared: dict[str, Any] = {"heard": [min(h[0] for h in heard), max(h[1] for h in heard)] if heard else [0, 0]}
        groups = self._groups()
        # what of the lake each group's inventory is made from
        silent = self._silent()
        tasks = []
        for names in groups:
            raw = {f"raw/{table}": files for table, files in self._raw(names, STEPS["inventory"].reads).items()}
            if any(team.cost_categories for team in self.config.teams):  # which rows of bills carry
                raw |= {f"raw/{table}": files for table, files in self._raw([None], ["raw/bills", "raw/bill_rows"]).items()}
            extra = {**shared, "silent": [] if names else silent}
            tasks.append(Task("inventory", _digest(inputs.all, extra, names, _named(raw)), names, raw, extra=extra))
        made = self._do(tasks)
        inventories = {task.key: files for task, files in made}
        of_none = {f"raw/{table}": files for table, files in self._raw([None], STEPS["price"].reads).items()}
        price_inputs = {**of_none, **self._collected(inventories.values(), STEPS["price"].reads)}
        extra = {**shared, "files": self._price_files()}
        price = Task(
            "price",
            _digest(inputs.all, sorted(inventories), extra, _named(of_none)),
            self.lake.clusters,
            price_inputs,
            extra=extra,
        )
        ((_, priced),) = self._do([price])
        day_tasks = self._days(tasks, inventories, priced, shared)
        current, attributed = self._attribute(day_tasks, inventories, priced, shared, inputs.own)
        reads = STEPS["warnings"].reads
        finish_inputs = {**_of(priced, reads), **self._collected(inventories.values(), reads), **_of(attributed, reads)}
        keys = sorted(key for days in current.values() for key, _ in days.values())
        finish = Task("warnings", _digest(price.key, keys), self.lake.clusters, finish_inputs, extra=shared)
        self._do([finish])
        self._switch(
            {
                "inputs": inputs.all,
                "schema": latest_version(),
                "raw": raw_digest(self.lake),
                "inventory": {"+".join(task.clusters): task.key for task in tasks},
                "price": price.key,
                "days": current,
                "warnings": finish.key,
            }
        )
        return self.result

    def _groups(self) -> list[list[str]]:
        """The clusters whose inventories are made together, and a group of none, for what is expected and never was heard of.

        Slurm's nodes may be pods or nodes of a Kubernetes cluster: where there is Slurm, it and all of Kubernetes are one group.
        """
        slurm = {name for name in self.lake.clusters if any(table.startswith("slurm_") for table in self.lake.tables(name))}
        if not slurm:
            return [[], *([name] for name in self.lake.clusters)]
        return [[], self.lake.clusters]

    def _silent(self) -> list[str]:
        """Clusters that are declared, and servers that are configured, of which the lake holds nothing."""
        told = {source for one in self.lake.manifests for source in one.sources}
        declared = [one.name for one in self.config.clusters if one.name not in self.lake.clusters]
        any_told = any(server.source in told for server in self.config.prometheus)
        silent = [
            server.source for server in self.config.prometheus if server.source not in told and (server.cluster or any_told)
        ]
        return [*declared, *silent]

    def _raw(self, clusters: Sequence[str | None], reads: Sequence[str]) -> dict[str, list[tuple[str | None, LakeFile]]]:
        found: dict[str, list[tuple[str | None, LakeFile]]] = defaultdict(list)
        wanted = {name.removeprefix("raw/") for name in reads}
        for cluster in clusters:
            for table, files in self.lake.tables(cluster).items():
                if table in wanted:
                    found[table] += [(cluster, file) for file in files]
        return found

    def _price_files(self) -> dict[str, tuple[str, str]]:
        """The files that prices come from, their paths and texts: workers may not see this machine's disk."""
        named = {"book": self.config.prices.book, "fx_rates": self.config.prices.fx_rates}
        return {key: (str(path), Path(path).read_text("utf-8")) for key, path in named.items() if path}

    def _do(self, tasks: Sequence[Task]) -> list[tuple[Task, Inputs]]:
        """Run the tasks whose work is not there; of each, the files that it wrote by table."""
        places = {id(task): marker(task.step, task.key, "+".join(task.clusters)) for task in tasks}
        waiting = [task for task in tasks if places[id(task)] not in self.known]
        for task in tasks:
            if places[id(task)] in self.known:
                self.result.unchanged[task.step] += 1
        self._run(waiting)
        self._learn(places.values())
        return [(task, self._marked(places[id(task)], task)) for task in tasks]

    def _learn(self, places: Iterable[str]) -> None:
        """Read the markers that are not known yet."""
        new = [place for place in places if place not in self.known]
        self.known |= {
            place: tables for place, tables in zip(new, self.files.each(self._named, new), strict=True) if tables is not None
        }

    def _named(self, place: str) -> dict[str, LakeFile] | None:
        """The files that a marker names, by table; None where it is gone or broken: then its task runs again."""
        try:
            return {name: LakeFile(**file) for name, file in json.loads(self.files.read(place) or b"")["tables"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _marked(self, place: str, task: Task) -> Inputs:
        """The files that a marker names, by table."""
        if place not in self.known:
            raise StoreError(f"{self.files.shown(place)} is gone", "another run may have replaced it: run it again")
        cluster = "+".join(task.clusters)
        folder = "days" if task.step == "attribute" else task.step
        return {f"{folder}/{name}": [(cluster, file)] for name, file in self.known[place].items()}

    def _run(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """What the tasks say, in their order."""
        if not tasks:
            return []
        threads = self.engine.threads(len(tasks))
        texts = [_with(task, threads).to_json() for task in tasks]
        said: list[dict[str, Any]] = [{} for _ in tasks]
        done = partial(work, self.url, self.config.model_dump_json(by_alias=True))
        self.tell(f"{tasks[0].step}: 0 of {len(tasks)}")
        for count, (number, result) in enumerate(self.engine.run(done, texts, [task.name for task in tasks]), 1):
            said[number] = json.loads(result)
            self.result.done[tasks[number].step] += 1
            self.tell(f"{tasks[number].name} ({count} of {len(tasks)})")
        return said

    def _collected(self, made: Any, reads: Sequence[str]) -> Inputs:
        """The files of several tasks, by table, as far as they are read."""
        found: Inputs = defaultdict(list)
        for files in made:
            for name, some in _of(files, reads).items():
                found[name] += some
        return found

    def _days(
        self, tasks: Sequence[Task], inventories: dict[str, Inputs], priced: Inputs, shared: dict[str, Any]
    ) -> list[tuple[Task, dict[str, Any]]]:
        """What the days of each group are made from: their fingerprints, by tasks of the step `days`."""
        asked = [
            Task(
                "days",
                task.key,
                task.clusters,
                {**_of(priced, STEPS["days"].reads), **_of(inventories[task.key], STEPS["days"].reads)},
                extra=shared,
            )
            for task in tasks
            if task.clusters
        ]
        return list(zip(asked, self._run(asked), strict=True))

    def _attribute(
        self,
        day_tasks: Sequence[tuple[Task, dict[str, Any]]],
        inventories: dict[str, Inputs],
        priced: Inputs,
        shared: dict[str, Any],
        own: str,
    ) -> tuple[dict[str, dict[str, tuple[str, int]]], Inputs]:
        """Attribute the days that differ: by group and day the key of what is there, in how many parts; and the files."""
        reads = STEPS["attribute"].reads
        current: dict[str, dict[str, tuple[str, int]]] = {}
        waiting: list[Task] = []
        for task, said in day_tasks:
            group = "+".join(task.clusters)
            stamps = self._block_stamps(task.clusters)
            buckets = max(1, math.ceil(24 * said["gpus"] / _PAIRS_AT_ONCE))
            days = [(start, end) for start, end, _ in said["days"]]
            keys = {
                (start, end): _digest(own, fingerprint, stamps_of(stamps, start, end), buckets)
                for start, end, fingerprint in said["days"]
            }
            names = {(start, end): f"{from_ms(start).astimezone(self.config.tz):%Y-%m-%d}" for start, end in days}
            current[group] = {names[day]: (keys[day], buckets) for day in days}
            for bucket in range(buckets):
                missing = [
                    day for day in days if marker("attribute", keys[day], group, names[day], (bucket, buckets)) not in self.known
                ]
                self.result.unchanged["attribute"] += len(days) - len(missing)
                at_once = max(1, int(_PAIRS_AT_ONCE / (24 * max(said["gpus"] / buckets, 1))))
                for start, end in stages.spans_of(missing, at_once, 0):
                    span = [day for day in missing if start <= day[0] < end]
                    inputs = {
                        **_of(priced, reads),
                        **_of(inventories[task.key], reads),
                        **self._blocks(task.clusters, start, end),
                    }
                    extra = {**shared, "names": [names[day] for day in span], "keys": [keys[day] for day in span]}
                    waiting.append(Task("attribute", "", task.clusters, inputs, span, (bucket, buckets), extra))
        # the longest first: none of them is left alone at the end
        waiting.sort(key=lambda one: -len(one.days))
        said_of = self._run(waiting)
        self.result.days = sum(len(task.days) for task in waiting if task.bucket[0] == 0)
        self.result.rows = sum(said["rows"] for said in said_of)
        files: Inputs = defaultdict(list)
        places = [
            (marker("attribute", key, group, name, (bucket, buckets)), Task("attribute", key, [group], {}))
            for group, days_of in current.items()
            for name, (key, buckets) in days_of.items()
            for bucket in range(buckets)
        ]
        self._learn(place for place, _ in places)
        for place, task in places:
            for table, found in self._marked(place, task).items():
                files[table] += found
        return current, files

    def _block_stamps(self, clusters: Sequence[str]) -> dict[str, str]:
        """By UTC day, a digest of the samples and their series."""
        found: dict[str, list[str]] = defaultdict(list)
        for cluster in clusters:
            for one in self.lake.of(cluster):
                for day, tables in one.days.items():
                    found[day] += [
                        f"{name} {tables[name].digest}" for name in ("blocks", "series", "states", "loads") if name in tables
                    ]
        return {day: _digest(sorted(parts)) for day, parts in found.items()}

    def _blocks(self, clusters: Sequence[str], start: int, end: int) -> Inputs:
        """The files of samples of a span and of the hours beside it."""
        days = utc_days(start - NEIGHBOR_MS, end + NEIGHBOR_MS)
        files: list[tuple[str | None, LakeFile]] = [
            (name, file) for name in clusters for file in self.lake.tables(name, days).get("blocks", [])
        ]
        return {"raw/blocks": files} if files else {}

    def _switch(self, current: dict[str, Any]) -> None:
        """Let readers see the new figures, all at once, and remove what nobody reads any more."""
        before = self.files.read(_CURRENT)
        content = json.dumps(current, sort_keys=True).encode()
        if content != before:
            self.files.write(_CURRENT, content)
        # what was read until now is left to those who are reading it
        kept = {*current_markers(current), *(current_markers(json.loads(before)) if before else ())}
        if content != before or not kept.issuperset(self.files.names("_gpucost/attributed")):
            self._learn(kept)
            self.files.remove_abandoned("_gpucost/attributed", kept)
            named = {file.name for place in kept for file in self.known.get(place, {}).values()}
            self.files.remove_abandoned("attributed", named)
            self.files.remove_abandoned("_gpucost/tasks", ())
            self.files.remove_abandoned(PARTS, ())


def raw_digest(lake: Lake) -> str:
    """A digest of all raw files of a lake."""
    return _digest(sorted(file.name for one in lake.manifests for tables in one.days.values() for file in tables.values()))


def stamps_of(stamps: dict[str, str], start: int, end: int) -> list[str]:
    """The stamps of the UTC days that a span and the hours beside it touch."""
    return [stamps.get(day, "") for day in utc_days(start - NEIGHBOR_MS, end + NEIGHBOR_MS)]


def utc_days(start: int, end: int) -> list[str]:
    """The UTC days that [start, end) touches."""
    first, last = start // MS_PER_DAY, (end - 1) // MS_PER_DAY
    return [f"{from_ms(day * MS_PER_DAY):%Y-%m-%d}" for day in range(first, last + 1)]


def current_markers(current: dict[str, Any], days: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """The markers of what is attributed now, of the days that are wanted."""
    for group, key in current["inventory"].items():
        yield marker("inventory", key, group)
    yield marker("price", current["price"])
    yield marker("warnings", current["warnings"])
    for group, of_days in current["days"].items():
        for day, (key, buckets) in of_days.items():
            if days(day):
                yield from (marker("attribute", key, group, day, (bucket, buckets)) for bucket in range(buckets))


def read_current(files: LakeFiles) -> dict[str, Any]:
    """What is attributed now. Raises NoDataError where nothing is."""
    content = files.read(_CURRENT)
    if content is None:
        raise NoDataError(f"nothing is attributed in the lake {files.shown()}", f"gpucost lake attribute {files.shown()}")
    return dict(json.loads(content))


def _of(files: Inputs, reads: Sequence[str]) -> Inputs:
    return {name: some for name, some in files.items() if name in reads}


def _named(inputs: Inputs) -> list[str]:
    return sorted(f"{table} {cluster} {file.digest}" for table, files in inputs.items() for cluster, file in files)


def _with(task: Task, threads: int) -> Task:
    task.extra = {**task.extra, "threads": threads}
    return task


def _digest(*parts: Any) -> str:
    told = json.dumps([steps.STEPS_VERSION, latest_version(), *parts], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:32]
