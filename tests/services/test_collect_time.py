"""Servers that serve late: what is stored in the end is what a calm run stores. For clocks see unit/test_collect_windows.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus import collector
from gpucost.collect.prometheus.client import Retries
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
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
Hidden = Callable[
    [Series, int], bool
]  # whether a series' sample at an hour's number and fraction is not served yet


def fleet() -> Fleet:
    """Two clusters, in each a node of two GPUs: one held all along, one from the fifth hour to the ninth."""
    begin = round(START.timestamp())
    end = begin + HOURS * 3600
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
        "util": util,
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
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, fleet())
    yield server
    server.close()


class Collected:
    """A store that one server is collected into, run by run."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config: Config = write_config(fleet(), folder, PRICES, url, cluster_label="cluster")
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


def is_dcgm(series: Series) -> bool:
    return series.labels["__name__"].startswith("DCGM")


def is_south(series: Series) -> bool:
    return series.labels["cluster"] == "south"


def shown(*_: object) -> bool:
    return False


#: A dead exporter whose samples come after all, who is always three hours late, and an agent that sends its backlog last: what
#: is hidden, and at which hours a run collects the rest.
LATE: dict[str, list[tuple[Hidden, tuple[float, ...]]]] = {
    "exporter-for-two-hours": [
        (lambda series, hour: is_dcgm(series) and hour in (10, 11), (13.1,)),
        (shown, (16.2,)),
    ],
    "job": [
        (lambda series, hour: is_dcgm(series) and hour >= 5, (8, 9.2, 10.4)),
        (lambda series, hour: is_dcgm(series) and hour >= 8, (11,)),
        (shown, ()),
    ],
    "backlog": [
        (lambda series, hour: is_south(series) and hour >= 5, (8, 9.2, 10.4)),
        (lambda series, hour: is_south(series) and 5 <= hour < 12, (13,)),
        (shown, (14,)),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_samples_that_a_server_gets_late_are_collected(name: str, server: Server, tmp_path: Path) -> None:
    store = Collected(tmp_path / "late", server.url)
    for number, (hidden, hours) in enumerate(LATE[name]):
        server.serve(hidden)
        for hour in hours:
            result = store.at(hour)
            assert result.ok and (result.asked_again or not number)
    assert store.at(HOURS).ok
    calm = Collected(tmp_path / "calm", server.url)
    assert calm.at(HOURS).ok
    assert store.figures() == calm.figures()
