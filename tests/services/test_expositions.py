"""What exporters print, scraped for ten minutes, collected and reported: nothing crashes, nonsense is counted, idle is nobody's.

Our own, and those in ../shared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from gpucost import pipeline
from gpucost.config.model import Config, PrometheusSource
from gpucost.periods import Period
from gpucost.render.view import ReportView, Row
from gpucost.report import Query
from gpucost.store.connection import Store
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.shared import SHARED

START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp())
PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
OWN = Path(__file__).parents[1] / "replay" / "expositions"
OWN_FILES = {path.stem: path for path in sorted(OWN.rglob("*.prom"))}
THEIR_FILES = {path.stem: path for path in sorted((SHARED / "data/gpu").glob("exposition-*/**/*.prom"))}
SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)\{(.*)\} (\S+)$")


@dataclass(frozen=True)
class Collected:
    """What came of files that one Prometheus scraped, each as a cluster of the file's name."""

    dropped: dict[tuple[str, str], int]
    store: Store
    view: ReportView

    def rows(self, cluster: str) -> list[Row]:
        """What the report says of a file's nodes."""
        return [row for row in self.view.rows if row.keys["cluster"] == cluster]


def scraped(files: dict[str, Path], out: TextIO) -> None:
    """The files' samples as ten scrapes, a minute apart."""
    for name, path in files.items():
        for metric, labels, value in dict.fromkeys(
            m.groups() for line in path.read_text().splitlines() if (m := SAMPLE.match(line))
        ):
            # the text format lets spaces follow a comma, OpenMetrics does not
            labels = f'cluster="{name}",' + labels.replace('", ', '",')
            for minute in range(10):
                out.write(f"{metric}{{{labels}}} {value} {START + 60 * minute}\n")
    out.write("# EOF\n")


def collect(files: dict[str, Path], folder: Path) -> Collected:
    require_prometheus()
    store = Store(folder / "store.duckdb")
    with prometheus_over_text(partial(scraped, files), folder / "prometheus") as url:
        config = Config(prometheus=[PrometheusSource(url=url)])
        (result,), errors = pipeline.collect(config, store, PERIOD)
    assert not errors and result.ok
    pipeline.attribute(config, store, PERIOD)
    view = pipeline.report(config, store, Query(period=PERIOD, period_name="an hour", by=("cluster", "node")))
    return Collected({(item.metric, item.reason): item.samples for item in result.dropped}, store, view)


def check_nobody_pays(collected: Collected) -> None:
    assert collected.view.totals.allocated_gpu_hours == 0
    nodes = collected.view.node_totals
    assert nodes is not None and nodes.unallocated_gpu_hours == pytest.approx(nodes.capacity_gpu_hours)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collect(OWN_FILES, tmp_path_factory.mktemp("own"))


def test_nobody_pays_for_an_idle_gpu(own: Collected) -> None:
    check_nobody_pays(own)
    (row,) = own.rows("idle-node")
    assert (row.kind, row.keys["node"]) == ("unallocated", "gpu-a") and row.unallocated is not None
    assert row.unallocated.unallocated_gpu_hours == pytest.approx(2 * 10 / 60)


def test_nonsense_is_dropped_and_counted(own: Collected) -> None:
    metric = "DCGM_FI_DEV_GPU_UTIL"
    assert own.dropped == {(metric, "out_of_range"): 10, (metric, "sentinel"): 40, (metric, "nan"): 10}
    samples = "SELECT sum(samples), max(last_value) FROM blocks JOIN series USING (series_id) WHERE cluster = 'nonsense'"
    assert own.store.query(samples)[1] == [(10, 37.0)]


def test_every_spelling_is_a_device(own: Collected) -> None:
    assert {row.keys["node"] for row in own.rows("spellings")} == {"worker-3", "worker-4", "worker-5"}


@pytest.mark.shared
@pytest.mark.slow
def test_nobody_pays_for_what_others_print(tmp_path: Path) -> None:
    assert THEIR_FILES
    check_nobody_pays(collect(THEIR_FILES, tmp_path))
