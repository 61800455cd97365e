"""What samples say of pods: idle stretches against a plain count, levels, and the commands on the demo store."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.demo.build import build
from gpucost.periods import Period
from gpucost.store.connection import Store, scratch_store
from gpucost.store.usage import read_idle, read_levels
from gpucost.whatif.fleet import Pod, is_batch, is_notebook

OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
WEEK = Period(datetime(2026, 10, 5, tzinfo=UTC), datetime(2026, 10, 12, tzinfo=UTC))
ASKED = ("--from", "2026-10-05", "--to", "2026-10-12")
MINUTE = 60_000


pytestmark = pytest.mark.usefixtures("stages_together")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    path = build(folder, OCTOBER, lambda _: None).path
    assert path is not None
    return path


@cache
def run(demo: Path, *args: str) -> Any:
    """The answer, which no test may change: it is asked once."""
    result = CliRunner().invoke(app, ["whatif", *args, "--config", str(demo), *ASKED, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _insert(con: Any, series: int, metric: str, labels: dict[str, str], hour: int, values: list[float], threshold: float) -> None:
    """An hour of one sample a minute."""
    con.execute("INSERT INTO series VALUES ($1, $1, 's', 'c', $2, $3)", [series, metric, labels])
    idle = sum(value < threshold for value in values[:-1])
    con.execute(
        "INSERT INTO blocks VALUES ($1, $2, $3, $4, $5, $6, 0, 60000, NULL, 60000, $7, $8, $9)",
        [series, hour, len(values), sum(values), idle, threshold, (len(values) - 1) * MINUTE, values[-1], values],
    )


@pytest.fixture
def pod() -> Any:
    """A pod with two GPUs for two hours: one idle from minute 10 to 40 of the first hour, the other from 20 on."""
    with scratch_store() as con:
        begin, end = 100 * 3_600_000, 102 * 3_600_000
        con.execute(
            "INSERT INTO allocations VALUES (1, 'c', 'ns', 'p', 'u', 1, 'nvidia_com_gpu', 2, 2, $1, $2, 'Job', 'Job/p')",
            [begin, end],
        )
        labels = {"exported_namespace": "ns", "exported_pod": "p"}
        one = [0.0 if 10 <= minute < 40 else 90.0 for minute in range(60)]
        two = [0.0 if minute >= 20 else 50.0 for minute in range(60)]
        _insert(con, 1, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g1"}, 100, one, 5)
        _insert(con, 2, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g2"}, 100, two, 5)
        _insert(con, 3, "DCGM_FI_DEV_FB_USED", {**labels, "UUID": "g1"}, 100, [1000.0 + minute for minute in range(60)], 0)
        yield con


METRICS = load_config(None).activity
PERIOD = Period(datetime.fromtimestamp(360_000, UTC), datetime.fromtimestamp(367_200, UTC))


def test_a_pod_is_idle_while_all_its_gpus_are(pod: Any) -> None:
    found = [
        ((r["from_ms"] - 360_000_000) / MINUTE, (r["to_ms"] - 360_000_000) / MINUTE) for r in read_idle(pod, METRICS, PERIOD, 0)
    ]
    assert found == [(20, 40)]
    assert read_idle(pod, METRICS, PERIOD, 21 * MINUTE) == []


def test_a_pod_of_which_a_gpu_is_not_measured_is_never_idle(pod: Any) -> None:
    pod.execute("UPDATE allocations SET gpus = 3, units = 3")
    assert read_idle(pod, METRICS, PERIOD, 0) == []


def test_a_pod_with_all_gpus_of_its_node_needs_no_label(pod: Any) -> None:
    pod.execute("UPDATE series SET labels = MAP {'UUID': labels['UUID'], 'Hostname': 'node-1'}")
    assert read_idle(pod, METRICS, PERIOD, 0) == []
    pod.execute(
        "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'node-1' AS node, 0 AS up_from_ms, 999999999 AS up_to_ms,"
        " 'on_demand' AS capacity_type, 2 AS gpu_count"
    )
    assert len(read_idle(pod, METRICS, PERIOD, 0)) == 1
    pod.execute("UPDATE nodes SET gpu_count = 8")
    assert read_idle(pod, METRICS, PERIOD, 0) == []


def test_levels_with_memory(pod: Any) -> None:
    (row,) = read_levels(pod, METRICS, PERIOD)
    assert (row["devices"], row["active_devices"]) == (2, 2)
    assert row["mean_activity"] == pytest.approx((0.9 * 0.5 + 0.5 / 3) / 2)
    assert row["high_activity"] == pytest.approx(0.9)
    assert row["high_memory_mib"] == pytest.approx(1056.05)


def _plain_idle(samples: list[tuple[int, float]], end: int) -> list[tuple[int, int]]:
    """Stretches in which the samples say idle: each until the next, or for one interval where the next is far."""
    gaps = sorted(b[0] - a[0] for a, b in pairwise(samples))
    interval = gaps[(len(gaps) - 1) // 2]
    spans: list[tuple[int, int]] = []
    for (moment, value), following in zip(samples, [*(at for at, _ in samples[1:]), None], strict=True):
        near = following is not None and following - moment <= 2.5 * interval
        until = min(end, following if near and following is not None else moment + interval)
        if value < 5 and spans and spans[-1][1] == moment:
            spans[-1] = (spans[-1][0], until)
        elif value < 5:
            spans.append((moment, until))
    return spans


def test_idle_stretches_against_a_plain_count(demo: Path) -> None:
    """Of every pod of the demo with one whole GPU: sample by sample, in Python."""
    settings = load_config(demo)
    pipeline.attribute(settings, Store(settings.store))
    with Store(settings.store).read() as con:
        found = read_idle(con, settings.activity, OCTOBER, 30 * MINUTE)
        held = con.execute(
            "SELECT cluster, uid, namespace, pod, held_from_ms, held_to_ms FROM allocations"
            " WHERE gpus = 1 AND resource = 'nvidia_com_gpu' AND held_to_ms > 1790812800000"
        ).fetchall()
        series: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for namespace, name, hour, offset, step, offsets, values in con.execute(
            "SELECT coalesce(s.labels['exported_namespace'], s.labels['namespace']),"
            " coalesce(s.labels['exported_pod'], s.labels['pod']),"
            " b.hour, b.first_offset_ms, b.step_ms, b.offsets_ms, b.vals"
            " FROM blocks AS b JOIN series AS s USING (series_id) WHERE s.metric = 'DCGM_FI_DEV_GPU_UTIL'"
        ).fetchall():
            at = offsets or [offset + index * (step or 0) for index in range(len(values))]
            series.setdefault((namespace, name), []).extend(
                (hour * 3_600_000 + moment, value) for moment, value in zip(at, values, strict=True)
            )
    told = {(row["uid"], row["from_ms"], row["to_ms"]) for row in found}
    checked = 0
    for _, uid, namespace, name, begin, ended in held:
        end = min(ended, OCTOBER.end_ms)
        samples = sorted(s for s in series.get((namespace, name), []) if begin <= s[0] < end)
        if len(samples) < 3:
            continue
        plain = {(uid, *span) for span in _plain_idle(samples, end) if span[1] - span[0] >= 30 * MINUTE}
        assert {row for row in told if row[0] == uid} == plain
        checked += len(plain)
    assert checked > 100


def test_schedule_on_the_store(demo: Path) -> None:
    short, long = run(demo, "schedule", "--idle-minutes", "30"), run(demo, "schedule", "--idle-minutes", "120")
    assert short["today"] == long["today"]
    assert 0 < long["saving"] < short["saving"] < short["today"]["cost"]
    assert short["waits"] > long["waits"] > 0


@pytest.mark.parametrize(
    ("command", "described"),
    [
        ("share", ["--pods", "4", "--utilization-percent", "15"]),
        ("schedule", ["--on-demand-price", "3", "--active-hours-per-day", "5"]),
    ],
)
def test_fleets_of_the_store_and_of_options_have_one_answer(demo: Path, command: str, described: list[str]) -> None:
    result = CliRunner().invoke(app, ["whatif", command, *described, "--store", str(demo.parent / "none"), "--format", "json"])
    assert list(json.loads(result.stdout)) == list(run(demo, command))


def test_notebooks_alone_by_default(demo: Path) -> None:
    touched = run(demo, "schedule")["tables"]["Whom it touches"]
    released = {line["workload"] for line in touched if line["released_gpu_hours"] > 0}
    assert {"StatefulSet/jupyter-alice", "StatefulSet/jupyter-bob", "StatefulSet/jupyter-chen"} <= released
    assert all(name.startswith("StatefulSet/jupyter-") for name in released)


def test_schedule_of_a_team_is_its_own_cost(demo: Path) -> None:
    answer = run(demo, "schedule", "--team", "research")
    with Store(load_config(demo).store).read() as con:
        found = con.execute(
            "SELECT sum(cost) FROM cost_hourly WHERE team = 'research' AND from_ms >= $1 AND to_ms <= $2",
            [WEEK.start_ms, WEEK.end_ms],
        ).fetchone()
    assert found is not None and answer["today"]["cost"] == pytest.approx(float(found[0]), abs=1e-4)
    hours = run(demo, "schedule", "--team", "research", "--office-hours", "08:00-18:00")
    assert hours["busy_gpu_hours_outside_office_hours"] > 0


def test_a_clusters_nodes_are_whole(demo: Path) -> None:
    whole, cluster = run(demo, "schedule"), run(demo, "schedule", "--cluster", "demo")
    assert whole["today"] == cluster["today"] and whole["saving"] == cluster["saving"]


@pytest.mark.parametrize("method", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("time-slicing", "mps")), "mig"])
def test_share_on_the_store(demo: Path, method: str) -> None:
    answer = run(demo, "share", "--method", method, "--headroom-percent", "0", "--across-teams")
    assert answer["memory_measured"] is False
    assert any("DCGM_FI_DEV_FB_USED" in finding for finding in answer["findings"])
    assert answer["scenario"]["cost"] <= answer["today"]["cost"]


def test_rightsize_on_the_store(demo: Path) -> None:
    answer = run(demo, "rightsize", "--team", "research")
    assert 0 < answer["saving"] < answer["today"]["cost"]
    assert run(demo, "rightsize", "--team", "research", "--same-model")["saving"] < answer["saving"]


def test_a_plan_on_the_store(demo: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        '[[groups]]\nname = "r"\nteams = ["research"]\n[[steps]]\nchange = "spot"\ngroups = ["r"]\nprice_per_gpu_hour = 1.0\n'
    )
    answer = run(demo, "plan", str(file))
    assert answer["today"]["cost"] == pytest.approx(run(demo, "schedule", "--team", "research")["today"]["cost"], abs=1e-3)
    assert answer["scenario"]["cost"] == pytest.approx(answer["scenario"]["gpu_hours"])


@pytest.mark.parametrize("command", ["schedule", "share", "rightsize"])
def test_an_empty_period_is_told(demo: Path, command: str) -> None:
    result = CliRunner().invoke(app, ["whatif", command, "--config", str(demo), "--month", "2020-01"])
    assert result.exit_code == 1 and "2020-01" in result.output
    nobody = CliRunner().invoke(app, ["whatif", command, "--config", str(demo), "--month", "2026-10", "--team", "nobody"])
    assert nobody.exit_code == 1 and "nobody" in nobody.output


def test_what_a_notebook_is() -> None:
    assert is_notebook(Pod("n", "StatefulSet/Jupyter-eve", 1, 0, 1))
    assert is_notebook(Pod("n", "Pod/x", 1, 0, 1, namespace="notebooks"))
    assert not is_notebook(Pod("n", "Job/train", 1, 0, 1))
    assert is_batch(Pod("n", "PyTorchJob/x", 1, 0, 1)) and not is_batch(Pod("n", "Deployment/x", 1, 0, 1))
