"""Clocks that are wrong, servers that serve late, exporters that die: what is stored in the end is what a calm run stores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.collect.base import CollectResult, uncollected
from gpucost.collect.prometheus import collector
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.config.model import Config
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.store.connection import Store
from tests.replay.fleet import CASES, Fleet
from tests.replay.load import write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop, write_blocks
from tests.services.test_collect_prometheus import contents

pytestmark = pytest.mark.services

START = datetime(2026, 3, 1, tzinfo=UTC)
HOURS = 24
PRICES = CASES / "two-clusters" / "prices.csv"
QUICK = Retries(attempts=2, initial=0.05, longest=0.1, jitter=0.01)
_COLLECT = collector.collect_prometheus
Hidden = Callable[[Series, int], bool]  # whether a series' sample at an hour's number and fraction is not served yet


def fleet(start: datetime = START, hours: int = HOURS, **more: Any) -> Fleet:
    """Two clusters, in each a node of two GPUs: one held all along, one from the fifth hour to the ninth."""
    begin = round(start.timestamp())
    end = begin + hours * 3600
    nodes, pods, util = [], [], {}
    for cluster in ("north", "south"):
        gpus = [f"GPU-{cluster}-{number}" for number in range(2)]
        nodes.append(
            {"cluster": cluster, "name": f"{cluster}-1", "instance_type": "g6.12xlarge", "region": "us-west-2",
             "zone": "us-west-2b", "capacity_type": "on_demand", "provider": "karpenter", "gpu_model": "NVIDIA L4", "gpus": gpus,
             "from": begin, "to": end}
        )  # fmt: skip
        for number, (held_from, held_to) in enumerate(((begin, end), (begin + 5 * 3600, begin + 9 * 3600))):
            pods.append(
                {"cluster": cluster, "namespace": f"team-{number}", "name": f"work-{number}", "uid": f"{cluster}-{number}",
                 "container": "main", "node": f"{cluster}-1", "resource": "nvidia_com_gpu", "count": 1,
                 "devices": [{"uuid": gpus[number]}], "scheduled": held_from, "from": held_from, "to": held_to,
                 "keep_until": held_to, "owner": ["Job", f"work-{number}"]}
            )  # fmt: skip
            util[gpus[number]] = [[held_from, held_to, 40 + 20 * number]]
    return {
        "description": "", "start": begin, "end": end, "scrape": 60, "cluster_label": True, "nodes": nodes, "pods": pods,
        "util": util, **more,
    }  # fmt: skip


class Server:
    """A Prometheus that is given more of a fleet's samples as time goes on."""

    def __init__(self, folder: Path, scraped: Fleet) -> None:
        require_prometheus()
        self._data, self._port = folder / "tsdb", free_port()
        self._start = scraped["start"] * 1000
        self._left = scrape(scraped)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def serve(self, hidden: Hidden = lambda *_: False) -> None:
        """Serves, from now on, all samples but those that are hidden."""
        self.close()
        now, later = [], []
        for one in self._left:
            keep = [not hidden(one, int(t - self._start) // MS_PER_HOUR) for t in one.times.tolist()]
            drop = [not kept for kept in keep]
            now += [Series(one.labels, one.times[keep], one.values[keep])] if any(keep) else []
            later += [Series(one.labels, one.times[drop], one.values[drop])] if any(drop) else []
        self._left = later
        write_blocks(lambda out: write_openmetrics(now, out), self._data)
        self._process = start_prometheus(self._data, self._port)

    def close(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Of a fleet that is scraped every minute, or every so many seconds as the parameter says."""
    server = Server(tmp_path, fleet(scrape=getattr(request, "param", 60)))
    yield server
    server.close()


class Collected:
    """A store that one server is collected into, run by run."""

    def __init__(self, folder: Path, url: str, **prometheus: object) -> None:
        folder.mkdir(exist_ok=True)
        self.config: Config = write_config(fleet(), folder, PRICES, url, cluster_label="cluster", **prometheus)
        self.store = Store(self.config.store)

    def at(self, hour: float) -> CollectResult:
        """A run without a period at so many hours after the fleet's beginning."""
        now = START + timedelta(hours=hour)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(collector, "collect_prometheus", partial(_COLLECT, now=now, retries=QUICK))
            results, errors = pipeline.collect(self.config, self.store, None)
        if errors:
            raise errors[0]
        return results[0]

    def figures(self) -> tuple[object, ...]:
        """What the store holds, and every dollar and hour that comes of it."""
        pipeline.attribute(self.config, self.store)
        money = self.store.query("SELECT * EXCLUDE (allocation_id) FROM cost_hourly ORDER BY ALL")[1]
        assert len(money) > HOURS
        return contents(self.store), money


def same_as_calm(disturbed: Collected, url: str, folder: Path, hour: float = HOURS) -> None:
    calm = Collected(folder / "calm", url)
    assert calm.at(hour).ok
    assert disturbed.figures() == calm.figures()


def is_dcgm(series: Series) -> bool:
    return series.labels["__name__"].startswith("DCGM")


def is_south(series: Series) -> bool:
    return series.labels["cluster"] == "south"


@pytest.mark.slow
def test_a_clock_ahead_costs_nothing(server: Server, tmp_path: Path) -> None:
    server.serve(lambda _, hour: hour >= 12)
    store = Collected(tmp_path / "ahead", server.url)
    ahead = store.at(15)
    assert ahead.ok and ahead.samples
    (old,) = [one for one in ahead.findings if one.code == "newest_sample"]
    assert "its newest sample is 3.0 h old (2026-03-01T11:59" in old.message
    newest = store.store.query("SELECT max(last_ms) FROM states")[1][0][0]
    assert store.store.query("SELECT max(to_ms) - 1 FROM loads")[1] == [(newest,)]
    server.serve()
    for hour in (12.5, 13.5, 18, HOURS):
        assert store.at(hour).ok
    same_as_calm(store, server.url, tmp_path)


@pytest.mark.slow
def test_a_clock_a_year_ahead_loads_nothing_and_says_how_old_the_server_s_data_is(server: Server, tmp_path: Path) -> None:
    server.serve()
    store = Collected(tmp_path / "ahead", server.url)
    result = store.at(HOURS + 365 * 24)
    assert result.ok and not result.samples and store.store.query("SELECT count(*) FROM loads")[1] == [(0,)]
    assert [one.message.split(" (2026-03-0")[0] for one in result.findings if one.code == "newest_sample"] == [
        f"{server.url}: its newest sample is 365 days old"
    ]
    assert store.at(HOURS).ok
    same_as_calm(store, server.url, tmp_path)


@pytest.mark.slow
def test_a_clock_behind_is_a_sentence(server: Server, tmp_path: Path) -> None:
    server.serve()
    store = Collected(tmp_path / "behind", server.url)
    assert store.at(20).ok
    with pytest.raises(
        SourceError, match=r"the clock says 2026-03-01T17:00:00Z, but the store holds data up to 2026-03-01T19:59"
    ):
        store.at(17)
    _, errors = pipeline.collect(store.config, store.store, None)
    assert not errors


@pytest.mark.slow
@pytest.mark.parametrize("late", [is_dcgm, is_south], ids=["one job", "one cluster"])
def test_who_is_always_three_hours_late_is_not_lost(late: Callable[[Series], bool], server: Server, tmp_path: Path) -> None:
    server.serve(lambda series, hour: late(series) and hour >= 5)
    store = Collected(tmp_path / "late", server.url)
    for hour in (8, 9.2, 10.4):  # the counts of the hours from the fifth on agree meanwhile
        assert store.at(hour).ok
    server.serve(lambda series, hour: late(series) and hour >= 8)
    assert store.at(11).asked_again
    heard = store.store.query("SELECT max(hour) FROM blocks JOIN series USING (series_id) WHERE cluster = 'south'")[1][0][0]
    assert heard == round(START.timestamp()) // 3600 + 7
    server.serve()
    assert store.at(HOURS).ok
    same_as_calm(store, server.url, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("server", [120], indirect=True)
def test_an_exporter_that_was_dead_is_asked_for_again_until_two_counts_agree(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tuple[float, float]] = []
    matrix = PrometheusClient.matrix

    def counted(self: PrometheusClient, metric: str, query: str, at_ms: int) -> Any:
        if metric.startswith("DCGM"):
            length = int(query.split("[")[-1].removesuffix("ms]"))
            end = (at_ms + 1) / MS_PER_HOUR - START.timestamp() / 3600
            spans.append((end - length / MS_PER_HOUR, end))
        return matrix(self, metric, query, at_ms)

    monkeypatch.setattr(PrometheusClient, "matrix", counted)

    def hours_asked(store: Collected, at: float) -> set[int]:
        spans.clear()
        assert store.at(at).ok
        return {hour for a, b in spans for hour in range(HOURS) if a <= hour + 0.5 < b}

    server.serve(lambda series, hour: is_dcgm(series) and hour in (10, 11))
    gone = Collected(tmp_path / "gone", server.url)
    assert hours_asked(gone, 13.1) == set(range(13))
    # again, with the hours that hold the edges of the silence; not those that are whole
    assert hours_asked(gone, 13.5) == {9, 10, 11, 12}
    before_now = Period(START, START + timedelta(hours=16))
    assert uncollected(gone.config, gone.store, before_now, START + timedelta(hours=16.1)) == {
        server.url: [Period(START + timedelta(hours=a), START + timedelta(hours=b)) for a, b in ((9, 16),)]
    }
    assert hours_asked(gone, 16.2) == set(range(9, 16))
    assert uncollected(gone.config, gone.store, before_now, START + timedelta(hours=16.3)) == {server.url: []}
    for at in (16.3, 17.3, 22):
        assert not set(range(13)) & hours_asked(gone, at)


@pytest.mark.slow
def test_an_exporter_that_was_dead_and_is_served_after_all(server: Server, tmp_path: Path) -> None:
    server.serve(lambda series, hour: is_dcgm(series) and hour in (10, 11))
    store = Collected(tmp_path / "mended", server.url)
    assert store.at(13.1).ok
    server.serve()
    assert store.at(16.2).asked_again and store.at(HOURS).ok
    same_as_calm(store, server.url, tmp_path)


@pytest.mark.slow
def test_an_agent_that_sends_its_backlog_after_the_newest(server: Server, tmp_path: Path) -> None:
    """Live samples come first, those of the outage later, when counts of its hours had long agreed."""
    server.serve(lambda series, hour: is_south(series) and hour >= 5)
    store = Collected(tmp_path / "late", server.url)
    for hour in (8, 9.2, 10.4):
        assert store.at(hour).ok
    server.serve(lambda series, hour: is_south(series) and 5 <= hour < 12)
    (gap,) = [one for one in store.at(13).gaps if one.families]
    assert str(gap).startswith("cluster south from 2026-03-01T05:00") and "kube-state-metrics was silent" in str(gap)
    server.serve()
    assert store.at(14).asked_again
    assert store.at(HOURS).ok
    same_as_calm(store, server.url, tmp_path)


# What the command says and ends with, at the machine's own time.


def collect(config: Path, *words: str, code: int) -> list[str]:
    result = CliRunner().invoke(app, ["collect", "prometheus", "--config", str(config / "gpucost.toml"), *words])
    assert result.exit_code == code, result.output
    return result.stderr.splitlines()


@pytest.mark.slow
def test_a_hole_of_a_closed_day_ends_with_4_unless_it_is_signed(tmp_path: Path) -> None:
    begin = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
    # kube-state-metrics restarts for three minutes, then is gone for five hours
    silent = [[begin.timestamp() + a, begin.timestamp() + b] for a, b in ((7200, 7380), (4 * 3600, 9 * 3600))]
    server = Server(tmp_path, fleet(begin, ksm_silent=silent, scrape=120))
    server.serve()
    try:
        period = ("--from", begin.isoformat(), "--to", (begin + timedelta(hours=HOURS)).isoformat())
        day = begin.date().isoformat()
        for name, late_hours, code in (("waiting", 72, 0), ("over", 0, 4)):
            (tmp_path / name).mkdir()
            write_config(fleet(begin), tmp_path / name, PRICES, server.url, cluster_label="cluster", late_hours=late_hours)
            lines = collect(tmp_path / name, "-q", *period, code=code)
            silence = "(5.0 h): kube-state-metrics was silent (nodes, phases, pods, requests)"
            for line, cluster in zip(lines[:2], ("north", "south"), strict=True):
                assert line.startswith(f"warning: {server.url}: cluster {cluster} from {day}T04:00")
                assert f" to {day}T09:0" in line and silence in line
            missing = [line for line in lines[2:] if line.startswith("error: ")]
            assert len(missing) == (2 if code else 0) and all("lost for good" in line for line in missing)
        text = (tmp_path / "over" / "gpucost.toml").read_text()
        signed = f'[[coverage.accept]]\nfrom = "{day}T03:50:00"\nto = "{day}T10:00:00"\nwho = "ops"\nwhy = "upgrade"\n'
        (tmp_path / "over" / "gpucost.toml").write_text(text + signed.replace('"2', "2").replace(':00"', ":00"))
        assert collect(tmp_path / "over", "-q", *period, code=0) == []
        off = "".join(f'[[clusters]]\nname = "{name}"\nhours = ["10:00-03:30"]\n' for name in ("north", "south"))
        (tmp_path / "over" / "gpucost.toml").write_text(text + off)
        assert collect(tmp_path / "over", "-q", *period, code=0) == []
        before = ("--from", (begin - timedelta(days=3)).isoformat(), "--to", (begin - timedelta(days=2)).isoformat())
        (nothing,) = collect(tmp_path / "over", "-q", *before, code=0)
        assert nothing.startswith(f"warning: {server.url}: no sample of ")
    finally:
        server.close()
