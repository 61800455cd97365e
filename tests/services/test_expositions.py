"""What exporters print, scraped for ten minutes, collected and reported: nothing crashes, nonsense is counted, idle is nobody's.

Our own, and those in ../shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TextIO

import pytest

from gpucost import pipeline
from gpucost.config.model import Config, PrometheusSource
from gpucost.periods import Period
from gpucost.render.view import ReportView
from gpucost.report import Query
from gpucost.store.connection import Store
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.shared import SHARED

START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp())
PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
OWN = Path(__file__).parents[1] / "replay" / "expositions"
FILES = [
    *sorted(OWN.rglob("*.prom")),
    *(
        pytest.param(path, marks=[pytest.mark.shared] if number < 2 else [pytest.mark.shared, pytest.mark.slow])
        for number, path in enumerate(sorted((SHARED / "data/gpu").glob("exposition-*/**/*.prom")))
    ),
]
SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)\{(.*)\} (\S+)$")


def scraped(path: Path, out: TextIO) -> None:
    """The file's samples as ten scrapes, a minute apart."""
    # the text format lets spaces follow a comma, OpenMetrics does not
    lines = [line.replace('", ', '",') for line in path.read_text().splitlines() if SAMPLE.match(line)]
    for line in dict.fromkeys(lines):
        for minute in range(10):
            out.write(f"{line} {START + 60 * minute}\n")
    out.write("# EOF\n")


Collected = tuple[ReportView | None, dict[tuple[str, str], int], Store]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Collected]:
    """A function from a file to the report of the hour, what was dropped, and the store; each file is scraped once."""
    return cache(lambda path: _collected(path, tmp_path_factory.mktemp("exposition")))


def _collected(path: Path, folder: Path) -> Collected:
    """The report is None where the file tells of no GPU."""
    require_prometheus()
    store = Store(folder / "store.duckdb")
    with prometheus_over_text(lambda out: scraped(path, out), folder / "prometheus") as url:
        config = Config(prometheus=[PrometheusSource(url=url)])
        (result,), errors = pipeline.collect(config, store, PERIOD)
        assert not errors
        assert result.ok
    dropped = {(item.metric, item.reason): item.samples for item in result.dropped}
    pipeline.attribute(config, store, PERIOD)
    with store.read() as con:
        (nodes,) = con.execute("SELECT count(*) FROM nodes").fetchall()[0]
    view = pipeline.report(config, store, Query(period=PERIOD, period_name="an hour", by=("node",))) if nodes else None
    return view, dropped, store


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_whatever_is_scraped_nobody_pays_for_an_idle_gpu(path: Path, collected: Callable[[Path], Collected]) -> None:
    view, _, store = collected(path)
    with store.read() as con:
        (activity,) = con.execute("SELECT count(*) FROM blocks").fetchall()[0]
    assert (view is not None) or activity == 0
    if view is not None and view.node_totals is not None:
        assert view.totals.allocated_gpu_hours == 0
        assert view.node_totals.unallocated_gpu_hours == pytest.approx(view.node_totals.capacity_gpu_hours)


def test_an_idle_node_is_unallocated(collected: Callable[[Path], Collected]) -> None:
    view, _, _ = collected(OWN / "idle-node.prom")
    assert view is not None
    (row,) = view.rows
    assert row.kind == "unallocated"
    assert row.keys["node"] == "gpu-a"
    assert row.unallocated is not None
    assert row.unallocated.unallocated_gpu_hours == pytest.approx(2 * 10 / 60)


def test_nonsense_is_dropped_and_counted(collected: Callable[[Path], Collected]) -> None:
    _, dropped, store = collected(OWN / "nonsense.prom")
    metric = "DCGM_FI_DEV_GPU_UTIL"
    assert dropped == {(metric, "out_of_range"): 10, (metric, "sentinel"): 40, (metric, "nan"): 10}
    with store.read() as con:
        assert con.execute("SELECT sum(samples), max(last_value) FROM blocks").fetchall() == [(10, 37.0)]


def test_every_spelling_is_a_device(collected: Callable[[Path], Collected]) -> None:
    view, _, _ = collected(OWN / "spellings.prom")
    assert view is not None
    assert {row.keys["node"] for row in view.rows} == {"worker-3", "worker-4", "worker-5"}
