"""Fleets that runs collect: each in a Prometheus, in a lagging one, and in an undisturbed store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from typer.main import get_command

from gpucost.cli.app import app
from gpucost.collect.prometheus import collector
from gpucost.collect.prometheus.client import Retries
from gpucost.config.model import Config
from gpucost.periods import iso
from gpucost.store.connection import Store
from tests.faults.proxy import Proxy
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.load import write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import prometheus_over_text

QUICK = Retries(attempts=3, initial=0.001, longest=0.002, jitter=0.001)

#: Start of the fleets: a collect without a period covers the month so far.
MONTH = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())

_GPUCOST = get_command(app)  # made once for many commands

_COLLECT = collector.collect_prometheus


@dataclass(frozen=True)
class Lag:
    """The hours at which the lagging server's samples of kube-state-metrics and of dcgm-exporter end."""

    kube: float
    dcgm: float


#: By case: a fleet that runs collect, and the lag of its second server.
FLEETS = {
    "whole-gpus": Lag(kube=7.5, dcgm=5.25),
    "two-clusters": Lag(kube=2.25, dcgm=3.0),
    "node-name-reused": Lag(kube=3.0, dcgm=3.0),
}


@dataclass
class World:
    """One fleet, its two servers, and the report of an undisturbed store; each starts at its first use."""

    case: Path
    fleet: Fleet
    lag: Lag
    proxy: Proxy
    folder: Path
    servers: ExitStack

    @cached_property
    def full(self) -> str:
        """The server with all samples."""
        return self._serve("full", scrape(self.fleet))

    @cached_property
    def behind(self) -> str:
        """The lagging server."""
        return self._serve("behind", _until(scrape(self.fleet), self.fleet["start"], self.lag))

    def _serve(self, kind: str, series: list[Series]) -> str:
        return self.servers.enter_context(
            prometheus_over_text(partial(write_openmetrics, series), self.folder / kind)
        )

    @cached_property
    def calm(self) -> Config:
        """The configuration of a store collected and attributed without faults."""
        (self.folder / "calm").mkdir()
        config = self.config(self.folder / "calm")
        # not while a plan is in progress
        plan, upstream = self.proxy.plan, self.proxy.upstream
        self.proxy.begin(self.full)
        with pytest.MonkeyPatch.context() as patch:
            assert collect(patch, config, self.repair).code == 0
        assert self.report(config).code == 0
        self.proxy.begin(upstream, plan)
        return config

    @cached_property
    def truth(self) -> dict[str, Any]:
        """The report of the undisturbed store."""
        return self.report(self.calm).json()

    @property
    def end(self) -> datetime:
        """The end of the fleet's time."""
        return datetime.fromtimestamp(self.fleet["end"], UTC)

    @property
    def hours(self) -> int:
        """The number of hours of the fleet's time."""
        return int(self.fleet["end"] - self.fleet["start"]) // 3600

    @property
    def span(self) -> tuple[str, ...]:
        """The fleet's time as options of a command."""
        return "--from", iso(self.at(0)), "--to", iso(self.end)

    @property
    def repair(self) -> datetime:
        """The moment of the second, complete collection."""
        return self.end + timedelta(hours=3)

    def at(self, hours: float) -> datetime:
        """Return the moment so many hours after the start."""
        return datetime.fromtimestamp(self.fleet["start"], UTC) + timedelta(hours=hours)

    def config(self, folder: Path, **prometheus: object) -> Config:
        """Return a configuration of a store in `folder`, with these settings of the server."""
        settings = {"name": "metrics", "cluster": self.fleet["nodes"][0]["cluster"], **prometheus}
        return write_config(self.fleet, folder, self.case / "prices.csv", self.proxy.url, **settings)

    def report(self, config: Config) -> Answer:
        """Return the report of the fleet's whole time as rows, and its exit code: 4 if it is incomplete."""
        ways = ("--by", "hour,cluster,namespace,pod,node", "--format", "json", "--strict")
        return run(config, "report", *self.span, *ways)


@dataclass(frozen=True)
class Answer:
    """The answer of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The parsed stdout."""
        return json.loads(self.out)


def run(config: Config, *words: str) -> Answer:
    """Run a command on the configuration's store; check that any failure has a message."""
    folder = Path(config.store).parent
    result = CliRunner().invoke(_GPUCOST, [*words, "--config", str(folder / "gpucost.toml")])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "unexpected " not in result.stderr and "Traceback" not in result.output, result.stderr
    return Answer(result.exit_code, result.stdout, result.stderr)


def collect(patch: pytest.MonkeyPatch, config: Config, now: datetime, *words: str) -> Answer:
    """Run `gpucost collect prometheus` with the clock at `now` and with pauses short enough for tests."""
    patch.setattr(collector, "collect_prometheus", partial(_COLLECT, now=now, retries=QUICK))
    return run(config, "collect", "prometheus", *words)


def held(config: Config, world: World) -> dict[int, dict[tuple[Any, ...], dict[str, float]]]:
    """Return allocated and unallocated time and cost by hour of the fleet."""
    by_hour = {}
    with Store(config.store).read() as con:
        rows = con.execute(_HOURS, {"start": world.fleet["start"]})
        names = [column[0] for column in rows.description or []]
        for row in rows.fetchall():
            fields = dict(zip(names, row, strict=True))
            key = tuple(fields.pop(name) for name in ("kind", "cluster", "namespace", "pod", "uid", "node"))
            by_hour.setdefault(fields.pop("hour"), {})[key] = {
                name: float(value) for name, value in fields.items()
            }
    return by_hour


_HOURS = """
    SELECT (epoch_ms(from_time) // 1000 - $start) // 3600 AS hour, kind, cluster, namespace, pod, uid, node,
        sum(allocated_gpu_hours) AS allocated, sum(active_gpu_hours) AS active, sum(idle_gpu_hours) AS idle,
        sum(unmeasured_gpu_hours) AS unmeasured,
        sum(unallocated_gpu_hours) AS unallocated, sum(cost) AS cost, sum(unallocated_cost) AS unallocated_cost
    FROM costs WHERE kind IN ('allocated', 'unallocated')
    GROUP BY ALL HAVING sum(allocated_gpu_hours) + sum(unallocated_gpu_hours) + sum(cost) + sum(unallocated_cost) > 0
"""


@contextmanager
def world(name: str, proxy: Proxy, folder: Path) -> Iterator[World]:
    """Yield the fleet of a case."""
    with ExitStack() as servers:
        yield World(
            CASES / name, _since(MONTH, read_fleet(CASES / name)), FLEETS[name], proxy, folder, servers
        )


def _since(moment: int, fleet: Fleet) -> Fleet:
    """Return the same fleet from another start: every number within a few days of the old start is a time."""

    def shifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shifted(one) for key, one in value.items()}
        if isinstance(value, list):
            return [shifted(one) for one in value]
        is_time = isinstance(value, int | float) and abs(value - fleet["start"]) < 10 * 86_400
        return value + moment - fleet["start"] if is_time else value

    return shifted(fleet)


def _until(series: list[Series], start: int, lag: Lag) -> list[Series]:
    early = []
    for one in series:
        hours = lag.dcgm if one.labels["__name__"].startswith("DCGM_") else lag.kube
        kept = one.times < 1000 * (start + 3600 * hours)
        if kept.any():
            early.append(Series(one.labels, one.times[kept], one.values[kept]))
    return early
