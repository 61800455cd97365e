"""Commands that write, each with its folder before and after an undisturbed run."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb

from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.lake.files import YOUNG_SECONDS
from gpucost.store.connection import Store
from gpucost.store.upkeep import check
from tests.faults.checks import check_said
from tests.faults.disk import Ended, run
from tests.faults.proxy import Proxy
from tests.faults.worlds import Lag, World
from tests.lakes import FIGURES, RAW
from tests.replay.bill_files import aws_cur
from tests.replay.billing import charges
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.load import write_book
from tests.replay.server import prometheus_over, require_prometheus
from tests.text_tables import text_rows

HOURS = 36
STORE = "gpucost.duckdb"
FIRST, LAST = "2026-03-10T00:00Z", "2026-03-11T12:00Z"
#: The folder of temporary files, and the log that a run could not merge into the store and leaves for the next writer.
ASIDE = ("tmp", f"{STORE}.wal")
#: The empty file with which Python tests folders for temporary files; it remains if it cannot be removed.
_PROBE = re.compile(r"tmp/[a-z0-9_]{8}")

#: By name, in order of dependency.
COMMANDS = {
    name: tuple(words.split())
    for name, words in text_rows(f"""
        collect into nothing | collect prometheus --from {FIRST} --to 2026-03-11T00:00Z
        collect              | collect prometheus --from {FIRST} --to {LAST}
        bill                 | collect aws new.csv
        attribute            | report --month 2026-03 --by day,team,pod --format json -o report.json
        chargeback           | chargeback --month 2026-03 --out bundles
        lake export          | lake export lake
    """)
}
COLLECTS = ("collect into nothing", "collect")
#: Queries of data that does not depend on a store's internal ids and clocks.
_TABLES = {
    **{
        name: query.format("s")
        for name, query in RAW.items()
        if name not in ("loads", "asked_hours", "bills")
    },
    "bills": "SELECT provider, source, format, billing_account_id, billing_period, is_final, rows FROM s.bills",
}
_FIGURES = {
    name: f"SELECT * {'EXCLUDE (bill_id)' if name == 'billed_hours' else ''} FROM s.{name}"  # noqa: S608
    for name in FIGURES
}

State = dict[str, Any]


class Collected(World):
    """The fleet, and a store with all of its metrics."""

    @cached_property
    def calm(self) -> Config:
        config = load_config(self.folder / "calm" / "gpucost.toml", environ={}, cwd=self.folder / "calm")
        assert self.report(config).code == 0
        return config


@dataclass(frozen=True)
class Scene:
    """A command and its folder before and after; every try runs it at `place`."""

    name: str
    words: tuple[str, ...]
    before: Path
    after: Path
    place: Path
    ended: Ended
    seconds: float
    world: World

    def begin(self) -> Path:
        """Restore the folder's state before the command, at its place."""
        shutil.rmtree(self.place, ignore_errors=True)
        return shutil.copytree(self.before, self.place)

    @cached_property
    def state_before(self) -> State:
        return state(self.before)

    @cached_property
    def state_after(self) -> State:
        return state(self.after)

    def check_between(self, what: str) -> bool:
        """Return whether a disturbed run left the undisturbed result; check that each part is that result or unchanged."""
        left = state(self.place)
        for part, value in left.items():
            known = {"before": self.state_before[part], "after": self.state_after[part]}
            if self.name in COLLECTS and part in ("raw", "figures") and value not in known.values():
                self._check_hours(what)  # written window by window
            elif part == "lake":  # written day by day
                wrong = {
                    day: tables
                    for day, tables in value.items()
                    if tables not in [one.get(day) for one in known.values()]
                }
                assert not wrong, f"{wrong} of {known}\n{what}"
            else:
                assert value in known.values(), (
                    f"{part} is neither as it was nor as it becomes: {_unlike(value, known)}\n{what}"
                )
        return left == self.state_after

    def _check_hours(self, what: str) -> None:
        """Check that collected hours are true and the others are named."""
        aside = self.place.with_name("aside")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(self.place, aside)
        config = load_config(aside / "gpucost.toml", environ={}, cwd=aside)
        report = self.world.report(config)
        if report.code != 1:  # otherwise the store has no data yet
            check_said(self.world, config, report, what)

    def check_again(self, what: str) -> None:
        """Run the command again without faults; check that the result equals an undisturbed run, without leftovers."""
        again = run(self.place, self.words)
        assert again.code == self.ended.code, f"{again}\n{what}"
        now = state(self.place)
        assert now == self.state_after, f"{_unlike(now, {'after': self.state_after})}\n{what}"
        if self.name == "lake export" and names(self.place) != names(self.after):
            # files younger than a day may belong to another active run
            for path in (self.place / "lake").rglob("*"):
                os.utime(path, (time.time() - 2 * YOUNG_SECONDS,) * 2)
            assert run(self.place, self.words).code == 0, what
        assert names(self.place) == names(self.after), f"{names(self.place) ^ names(self.after)}\n{what}"


def _unlike(value: Any, known: dict[str, Any]) -> dict[str, Any]:
    """Return the differences of mappings by state."""
    if not isinstance(value, dict):
        return {"is": value, **known}
    return {
        name: {
            key: (value.get(key), other.get(key))
            for key in {*value, *other}
            if value.get(key) != other.get(key)
        }
        if isinstance(other, dict)
        else other
        for name, other in known.items()
    }


def names(folder: Path) -> set[str]:
    """Return a folder's entries, except the permitted leftovers."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {name for name in found if name not in ASIDE and not _PROBE.fullmatch(name)}


def state(folder: Path) -> State:
    """Read and check a folder's content: the store's data and figures, the bundle, the report and the lake."""
    store = folder / STORE
    return {
        **(stored(store) if store.exists() else {"raw": None, "figures": None}),
        "bundle": contents(folder / "bundles"),
        "report": digest(folder / "report.json"),
        "lake": lake(folder / "lake"),
    }


def stored(path: Path) -> State:
    """Return digests of a store's tables; check that `gpucost store check` has no findings."""
    with Store(path).read() as con:
        assert not [one for one in check(con) if one.wrong]
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS s (READ_ONLY)")
        return {
            part: {
                name: con.execute(f"SELECT count(*), sum(hash(t)) FROM ({query}) AS t").fetchall()[0]  # noqa: S608
                for name, query in queries.items()
            }
            for part, queries in (("raw", _TABLES), ("figures", _FIGURES))
        }


def contents(folder: Path) -> dict[str, str]:
    """Return the files of months' bundles in a folder with their digests; check that indexed files are complete."""
    found = {
        path.relative_to(folder).as_posix(): digest(path)
        for path in folder.glob("20*/**/*")
        if path.is_file()
    }
    for index in folder.glob("20*/index.json"):
        for file in json.loads(index.read_text())["files"]:
            assert digest(index.parent / file["file"]) == file["sha256"], file
    return {name: str(known) for name, known in found.items()}


def digest(path: Path) -> str | None:
    return sha256(path.read_bytes()).hexdigest() if path.exists() else None


def lake(folder: Path) -> dict[str, Any]:
    """Return the digests of a lake's table rows by cluster and day; check that each file in a manifest is complete."""
    found = {}
    for path in sorted((folder / "_gpucost" / "manifests").rglob("*.json")):
        manifest = json.loads(path.read_text())
        for day, tables in manifest["days"].items():
            for table, file in tables.items():
                assert digest(folder / file["name"]) == file["sha256"], file
                found.setdefault(f"{manifest['cluster']} {day}", {})[table] = file["digest"]
    return found


@contextmanager
def scenes(folder: Path) -> Iterator[dict[str, Scene]]:
    """Yield all commands with a running Prometheus."""
    require_prometheus()
    nodes = [node("w", "g6.12xlarge", 0, HOURS), node("x", "p4de.24xlarge", 5.5, HOURS - 3, "spot")]
    pods = [pod(f"a{n}", "w", [n % 4], n, n + 3.7, namespace=f"team-{n % 3}") for n in range(0, HOURS - 4, 4)]
    pods += [pod(f"b{n}", "x", [n % 8, (n + 1) % 8], n + 0.2, n + 2.1) for n in range(6, HOURS - 6, 5)]
    util = {gpu: [[at(h), at(h) + 1800, 80] for h in range(HOURS)] for n in nodes for gpu in n["gpus"]}
    described = fleet(HOURS, nodes, pods, util)
    with prometheus_over(described, folder / "prometheus") as url:
        yield _made(folder, described, url)


def _made(folder: Path, described: dict[str, Any], url: str) -> dict[str, Scene]:
    place = folder / "place"
    place.mkdir()
    write_book(place)
    (place / "gpucost.toml").write_text(
        f'store = "{STORE}"\n[[prometheus]]\nurl = "{url}"\ncluster = "main"\nmax_samples = 50000\n'
        '[prices]\nbook = "prices.csv"\n[lake]\nwriter = "one"\n'
    )
    for name, price in (("old", 20), ("new", 21)):
        billed = charges(
            described,
            lambda node, _: ("spot" if node["capacity_type"] == "spot" else "on_demand", Decimal(price)),  # noqa: B023
        )
        (place / f"{name}.csv").write_text(aws_cur(billed))
    world = Collected(folder, described, Lag(HOURS, HOURS), Proxy(), folder, ExitStack())
    found = {}
    for name, words in COMMANDS.items():
        if name == "bill":
            older = ("collect", "aws", "old.csv")
            for more in (older, *(COMMANDS[one] for one in ("attribute", "chargeback", "lake export"))):
                assert run(place, more).code in (0, 4), more
        before, after = (folder / f"{name} {when}" for when in ("before", "after"))
        shutil.copytree(place, before)
        begun = time.monotonic()
        ended = run(place, words)
        seconds = time.monotonic() - begun
        assert ended.code in (0, 4), ended
        shutil.copytree(place, after)
        found[name] = Scene(name, words, before, after, place, ended, seconds, world)
        if words == COMMANDS["collect"]:
            shutil.copytree(after, folder / "calm")
    return found
