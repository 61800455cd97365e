"""Which metrics measure activity, and how their unit is settled later; figures: tests/fleets/activity.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpucost import pipeline
from gpucost.catalog import ACTIVITY, activity_metrics, facts
from gpucost.config.model import Activity
from gpucost.engine import text
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.edits import drop, revalue
from tests.replay.load import windows, write_config
from tests.replay.result import by_pod
from tests.replay.scrape import scrape

UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def minutes(store: Store, hour: int) -> tuple[float, ...]:
    """Active, idle and unmeasured minutes."""
    (a,) = by_pod(store, at(hour) * 1000, at(hour + 1) * 1000).values()
    return tuple(float(60 * part) for part in (a.active_gpu_hours, a.idle_gpu_hours, a.unmeasured_gpu_hours))


def test_later_proof_of_a_unit_corrects_earlier_days_and_ends_the_warning(tmp_path: Path) -> None:
    """Values stay at 0.3 until hour 48.

    The first value above 1 then proves percentages, for earlier days too.
    """
    util = {"GPU-w-0": [[at(50), at(60), 77]]}
    described = fleet(60, [node("w", "g6.12xlarge", 0, 60)], [pod("a", "w", [0], 0, 60)], util, scrape=300)
    series = revalue(drop(scrape(described, lean=True), ENGINE), UTIL, 0.3, hours=(-1, 48))
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    store = Store(config.store)
    parts = list(windows(described, series, config, 30))

    def loaded(number: int) -> list[Any]:
        with store.write() as con:
            load_window(con, parts[number])
        pipeline.attribute(config, store)
        return store.query(
            "SELECT code, message, fix FROM warnings WHERE starts_with(code, 'activity_scale')"
        )[1]

    ((code, message, fix),) = loaded(0)
    assert minutes(store, 2) == (0, 0, 60)
    assert code == "activity_scale_unknown"
    assert fix == "[activity] device_scale = 100 for a ratio, 1 for a percentage"
    assert message.endswith("may be ratios or percentages, so this time is unmeasured")
    assert loaded(1) == []
    assert [minutes(store, hour) for hour in (2, 40, 55)] == [(0, 60, 0), (0, 60, 0), (60, 0, 0)]


def test_configured_metric_outside_the_table_replaces_the_others() -> None:
    metrics = activity_metrics(Activity(device_metric="my_gpu_busy"))
    names = [metric.metric for metric in metrics if metric.part == "device"]
    assert names[0] == "my_gpu_busy" and not any(name.startswith("DCGM") for name in names)


def test_metric_table_has_both_names_of_each_version_and_labels_for_silences() -> None:
    rows = facts(ACTIVITY)
    measured: dict[str, set[str]] = {"2.0 to 4.8": set(), "from 4.9": set()}
    for row in rows:
        if row["exporter"] == "dcgm-exporter":
            measured.setdefault(row["versions"], set()).add(row["measures"])
    names = "device_busy engine sm tensor memory_bandwidth memory_used power energy fp16 fp32 fp64 occupancy"
    assert measured["2.0 to 4.8"] == measured["from 4.9"] == set(names.split())
    vendors = {row["vendor"] for row in rows if row["measures"] == "device_busy"}
    assert vendors == {"nvidia", "amd", "google", "aws", "habana"}
    statement = text("gpucost.store", "sql/silences")
    for row in rows:
        for label in row["device"].split():
            assert f"labels['{label}']" in statement, row["metric"]
