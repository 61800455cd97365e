"""Effective cost, figure by figure: active time, SM activity at the same moments, and the part without samples."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.api import Gpucost
from gpucost.catalog import activity_metrics
from gpucost.collect.prometheus.queries import selectors
from gpucost.config.model import Activity, Config, StoreSettings
from gpucost.periods import Period
from gpucost.questions.efficiency import missing_metrics, waterfalls
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.fleets.case import Edit, alone, drop, duplicate, relabel, revalue
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.check import check_efficiency
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.load import load, windows, write_book, write_config
from tests.replay.scrape import scrape
from tests.replay.work import counter, put
from tests.unit.command import call

CASE = CASES / "sm-activity-mixed-and-mig"
SM, RATIO = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"
UTIL, POWER, ENERGY = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
)


def stored(
    folder: Path, described: Fleet, *changes: Edit, prices: Path | None = None
) -> tuple[Config, Store]:
    series = scrape(described, lean=True)
    for change in changes:
        series = change(series)
    config = write_config(described, folder, prices or write_book(folder))
    store = load(described, series, config)
    pipeline.attribute(config, store)
    return config, store


def rows(config: Config, store: Store, hours: Iterable[float] = (0, 24), **more: Any) -> dict[str, Any]:
    """The rows of effective cost by their name; '' is the total."""
    period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in hours))
    query = Query(period=period, period_name="the period", **more)
    found = pipeline.read_attributed(config, store, lambda con: waterfalls(con, config, query), period)
    return {row.keys.get(row.by) or "": row for row in found}


def profiled(*spans: tuple[float, float, float], metric: str = SM, **more: Any) -> Fleet:
    """One pod on one of four GPUs of $1.20 for four hours, active in the first three, with samples of a metric."""
    values = [[at(start), at(end), value] for start, end, value in spans]
    util = more.pop("util", busy("w", [0], 0, 3))
    of = more.pop("pod", pod("a", "w", [0], 0, 4))
    return alone(4, "g6.12xlarge", of, util=util, profile={metric: {"GPU-w-0": values}}, **more)


def answer(*words: Any) -> Any:
    return json.loads(call("efficiency", "--format", "json", *words)[0])


def figures(row: Any) -> str:
    parts = ("idle", "unmeasured", "sm_unmeasured", "sm_idle", "sm")
    return " ".join(f"{float(getattr(row, f'{part}_cost') or 0):g}" for part in parts)


@pytest.fixture(scope="module")
def mixed(module_path: Path) -> tuple[Config, Store]:
    return stored(module_path, read_fleet(CASE), prices=CASE / "prices.csv")


def test_mixed_models_and_a_slice_have_their_exact_figures(mixed: tuple[Config, Store]) -> None:
    found = json.loads(call("report", "--efficiency", "--format", "json", "--config", mixed[0].path)[0])
    check_efficiency(CASE, found)
    assert found["schema"] == "gpucost.efficiency/1"
    total = {name: value for name, value in found["rows"][0].items() if name.endswith("_cost")}
    for name in total:
        for by in ("team", "workload", "gpu_model"):
            assert sum(row[name] or 0 for row in found["rows"] if row["by"] == by) == pytest.approx(
                total[name], abs=1e-8
            )
    lost = [(loss["step"], loss["workload"], round(loss["cost"], 2)) for loss in found["losses"]]
    assert lost == [
        ("active", "Pod/a", 1.2), ("sm", "Pod/b", 6.86), ("sm", "Pod/c", 2.88), ("sm", "Pod/a", 0.6),
    ]  # fmt: skip
    assert [round(loss["share"], 3) for loss in found["losses"]] == [0.25, 0.5, 0.6, 0.25]


SLICED = node("m", "p5.48xlarge", 0, 4, mig={"GPU-m-0": [{"gi": gi, "profile": "3g.40gb"} for gi in (1, 2)]})
SLICES = fleet(
    4,
    [SLICED],
    [pod(name, "m", [(0, gi)], 0, 4, resource="nvidia_com_mig_3g_40gb") for name, gi in (("a", 1), ("b", 2))],
    busy("m", [(0, 1), (0, 2)], 0, 4),
    profile={SM: {"GPU-m-0/1": [[at(0), at(4), 0.25]], "GPU-m-0/2": [[at(0), at(4), 0.75]]}},
)
# name, edits of a fleet with SM activity of 0.5, and its parts: idle, unmeasured, active without SM samples, SMs idle, SMs busy
HALF = profiled((0, 4, 0.5))
WHOLE = "1.2 0 0 1.8 1.8"
EDGES: list[tuple[str, Fleet, tuple[Edit, ...], str]] = [
    ("half", HALF, (), WHOLE),
    ("samples while idle do not count", profiled((0, 3, 0.5), (3, 4, 0.9)), (), WHOLE),
    ("a value above one counts as one", profiled((0, 0.5, 0.5), (0.5, 4, 1.005)), (), "1.2 0 0 0.3 3.3"),
    ("percentages under the name of a ratio", profiled((0, 4, 50)), (), WHOLE),
    ("an exporter upgraded at 01:30", HALF, (relabel(SM, {"__name__": RATIO}, hours=(1.5, 9)),), WHOLE),
    ("two exporters at once count once", HALF, (duplicate(SM, {"__name__": RATIO}),), WHOLE),
    ("hours without SM samples", HALF, (drop(SM, hours=(1, 2)),), "1.2 0 1.2 1.2 1.2"),
    # the last sample before a pause of three or more minutes is valid for one
    ("minutes without SM samples", HALF, (drop(SM, hours=(1.2, 1.5)),), "1.2 0 0.36 1.62 1.62"),
    ("one missing sample does not interrupt", HALF, (drop(SM, hours=(1.2, 1.21)),), WHOLE),
    ("no SM samples at all", HALF, (drop(SM),), "1.2 0 3.6 0 0"),
    ("time without activity is unmeasured, with or without SM samples", HALF, (drop(UTIL, hours=(1.5, 2)),), "1.2 0.6 0 1.5 1.5"),
    # bound 30 seconds after a scrape
    ("a pod bound between two scrapes", profiled((0, 4, 0.5), pod=pod("a", "w", [0], 1810 / 3600, 4)), (),
     "1.2 0 0 1.49833 1.49833"),
    ("activity comes and goes within an hour", profiled((0, 4, 0.5), (0, 9, 0), util={"GPU-w-0": [[at(0.5), at(0.75), 90]]}), (),
     "4.5 0 0 0.15 0.15"),
    ("a pod without a label on a node of its own", profiled((0, 4, 0.5), pod=pod("a", "w", [0, 1, 2, 3], 0, 4)), (),
     "15.6 0 0 1.8 1.8"),
    # the samples of 01:59:30 are valid until 02:00:30
    ("an hour without samples begins with the last one before it", {**HALF, "offset": 30},
     (drop("DCGM.*", hours=(2, 3)),), "1.2 1.21 0 1.2 1.2"),
    ("each slice of a GPU has its own samples", SLICES, (), "0 0 0 10.2857 3.42857"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("described", "changes", "expected"), [pytest.param(*row, id=name) for name, *row in EDGES]
)
def test_parts_of_the_cost(
    described: Fleet, changes: tuple[Edit, ...], expected: str, tmp_path: Path
) -> None:
    found = rows(*stored(tmp_path, described, *changes))["Pod/a"]
    assert figures(found) == expected
    assert found.held_cost == found.idle_cost + found.unmeasured_cost + found.active_cost
    busy_and_idle = (found.sm_idle_cost or 0) + (found.sm_cost or 0)
    assert found.active_cost == found.sm_unmeasured_cost + busy_and_idle
    assert (found.sm_cost is None) == (found.measured.sm is None)


def test_profiling_metrics_change_no_other_figure(mixed: tuple[Config, Store], tmp_path: Path) -> None:
    described = {name: value for name, value in read_fleet(CASE).items() if name != "profile"}
    _, plain = stored(tmp_path, described, prices=CASE / "prices.csv")
    tables = [
        each.query("SELECT * EXCLUDE (node_id, allocation_id) FROM cost_hourly ORDER BY ALL")[1]
        for each in (plain, mixed[1])
    ]
    assert tables[0] == tables[1]
    assert plain.query("FROM profile_hours")[1] == []


def test_metrics_are_queried_only_if_profiling_is_on() -> None:
    asked = [{each.metric for each in selectors(Activity(profile=on))} for on in (False, True)]
    assert {SM, RATIO, ENERGY, POWER, "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"} <= asked[1] - asked[0]
    assert not [metric for metric in activity_metrics(Activity()) if metric.part == "profile"]


def test_energy_counter_counts_before_power_and_through_a_reset(tmp_path: Path) -> None:
    """60 kJ in each minute are 1,000 W; a counter that restarts leaves one minute out."""
    minutes = [(minute / 60, (minute + 1) / 60, 6e7 * (minute % 120)) for minute in range(240)]
    described = profiled(*minutes, metric=ENERGY)
    found = rows(*stored(tmp_path, described, duplicate(ENERGY, {"__name__": POWER}), revalue(POWER, 10)))[
        "Pod/a"
    ]
    assert found.measured.power == 10
    # the last sample has no next one
    assert found.measured.energy_kwh == pytest.approx(4 - 2 / 60)


def test_energy_of_a_pod_without_a_counter_is_from_power(tmp_path: Path) -> None:
    """Pod a has a counter of 1,000 W, pod b only power of 100 W, each for four hours."""
    minutes = [[at(minute / 60), at((minute + 1) / 60), 6e7 * minute] for minute in range(240)]
    described = alone(
        4, "g6.12xlarge", pod("a", "w", [0], 0, 4), pod("b", "w", [1], 0, 4), util=busy("w", [0, 1], 0, 4),
        profile={
            ENERGY: {"GPU-w-0": minutes},
            POWER: {"GPU-w-0": [[at(0), at(4), 10]], "GPU-w-1": [[at(0), at(4), 100]]},
        },
    )  # fmt: skip
    found = {name: row.measured.energy_kwh for name, row in rows(*stored(tmp_path, described)).items()}
    assert found["Pod/a"] == pytest.approx(4 - 1 / 60) and found["Pod/b"] == pytest.approx(0.4)
    assert found[""] == found["L4"] == pytest.approx(found["Pod/a"] + found["Pod/b"])


def test_labels_that_change_cut_the_cost(tmp_path: Path) -> None:
    """Pod a is x until 02:00, then y, idle in its last hour; pod b has no label."""
    described = profiled((0, 4, 0.5), pod=pod("a", "w", [0], 0, 4, labels={"app": "x"}))
    described["pods"].append(pod("b", "w", [1], 0, 4))
    change = relabel("kube_pod_labels", {"label_app": "y"}, "pod=a", (2, 99))
    config, store = stored(tmp_path, described, change)
    named = ("--month", "2026-03", "--config", config.path)
    for text, expected in (("x", "0 0 0 1.2 1.2"), ("y", "1.2 0 0 0.6 0.6")):
        found = rows(config, store, labels=(f"app={text}",))
        assert figures(found["Pod/a"]) == figures(found[""]) == expected and "Pod/b" not in found
        totals = json.loads(
            call("report", "--label", f"app={text}", "--format", "json", *named)[0]
        )["totals"]  # fmt: skip
        row = answer("--label", f"app={text}", *named)["rows"][0]
        assert row["held_cost"] == totals["cost"] and row["idle_cost"] == totals["idle_cost"]
    parts = [rows(config, store, labels=(f"app={text}",))[""].held_cost for text in "xy"]
    assert sum(parts) == rows(config, store)["Pod/a"].held_cost


def test_report_efficiency_takes_or_refuses_the_options_of_report(mixed: tuple[Config, Store]) -> None:
    named = ("report", "--efficiency", "--config", mixed[0].path)
    for words in (
        ("--by", "pod"), ("--share-unallocated", "even"), ("--findings", 3), ("--brief", "--format", "markdown"),
        ("--format", "focus"),
    ):  # fmt: skip
        _, error = call(*named, *words, code=2)
        assert "--efficiency takes no" in error and str(words[0]) in error
    text, error = call(*named, "--strict", "--month", "2026-03", code=4)
    assert "From held GPUs to busy SMs" in text and "is incomplete" in error


def test_page_names_metrics_without_samples(mixed: tuple[Config, Store], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("report", "--efficiency", "--output", page, "--config")
    described = {name: value for name, value in read_fleet(CASE).items() if name != "profile"}
    config, _ = stored(tmp_path, described, prices=CASE / "prices.csv")
    _, error = call(*words, config.path)
    assert "profiling metrics are not collected: set [activity] profile = true" in error
    Path(config.path).write_text("activity.profile = true\n" + Path(config.path).read_text())
    _, error = call(*words, config.path)
    assert "profiling" not in error and "no samples of DCGM_FI_PROF" in page.read_text()


def test_missing_metrics_are_named_once_with_the_setting(mixed: tuple[Config, Store], tmp_path: Path) -> None:
    found = answer("--config", mixed[0].path)
    (notice,) = [one for one in found["coverage"]["warnings"] if one["code"] == "not_profiled"]
    assert "counters file (-f)" in notice["fix"]
    assert SM not in found["missing"] and "DCGM_FI_PROF_PIPE_FP16_ACTIVE" in found["missing"]
    assert missing_metrics(()) and "DCGM_FI_PROF_SM_OCCUPANCY" in notice["message"]
    described = {name: value for name, value in read_fleet(CASE).items() if name != "profile"}
    config, _ = stored(tmp_path, described, prices=CASE / "prices.csv")
    found = answer("--config", config.path)
    (notice,) = [one for one in found["coverage"]["warnings"] if one["code"] == "not_profiled"]
    assert notice["fix"].startswith("set [activity] profile = true")
    row = found["rows"][0]
    assert row["sm_unmeasured_cost"] == row["active_cost"] > 0 and row["sm"] is None


def test_filters_formats_and_page(mixed: tuple[Config, Store], tmp_path: Path) -> None:
    named = ("--config", mixed[0].path)
    found = answer("--team", "research", "--workload", "Pod/c", *named)
    assert [row["held_cost"] for row in found["rows"]] == [9.6] * 4
    text, _ = call("report", "--efficiency", *named)
    assert (
        "Most lost to idle SMs of active GPUs" in text
        and "train/Pod/a in main: $1.20, 25.0 % of its held cost" in text
    )
    assert call("efficiency", *named)[0] == text
    lines = call("report", "--efficiency", "--format", "csv", *named)[0].splitlines()
    assert lines[0].startswith("by,cluster,namespace,team,workload,gpu_model,held_gpu_hours")
    assert len(lines) == 1 + 1 + 2 + 4 + 2
    page = tmp_path / "page.html"
    call("report", "--efficiency", "--output", page, *named)
    html = page.read_text()
    assert "Gpu model" not in text + html and "GPU model  " in text
    assert "Effective cost by GPU model" in html and "Most lost to idle GPUs" in html
    assert Gpucost(config=mixed[0].path).efficiency().df().held_cost[0] == pytest.approx(31.714286, abs=1e-6)


def test_period_cuts_the_figures(tmp_path: Path, half_file: Path) -> None:
    """On a copy: a cut within an hour changes the ninth decimals of that hour."""
    config = write_config(HALF, tmp_path, write_book(tmp_path))
    store = Store(Path(copyfile(half_file, config.store)))
    assert figures(rows(config, store, hours=(1, 4))["Pod/a"]) == "1.2 0 0 1.2 1.2"
    assert figures(rows(config, store, hours=(0.5, 1))["Pod/a"]) == "0 0 0 0.3 0.3"


def test_lake_has_the_same_figures(mixed: tuple[Config, Store], tmp_path: Path) -> None:
    named, lake = ("--config", mixed[0].path), str(tmp_path / "lake")
    call("lake", "export", lake, *named)
    call("lake", "attribute", lake, *named)
    assert answer("--lake", lake, *named)["rows"] == answer(*named)["rows"]


def test_compacted_store_keeps_the_samples_of_profiled_hours(
    mixed: tuple[Config, Store], tmp_path: Path
) -> None:
    config, store = stored(tmp_path, read_fleet(CASE), prices=CASE / "prices.csv")
    settings = StoreSettings(path=config.store, raw_retention_days=1)
    later = datetime.fromtimestamp(at(96), UTC)
    pipeline.compact(config.model_copy(update={"store_settings": settings}), store, later)
    assert store.query("FROM compactions")[1]
    with store.write() as con:
        con.execute("DELETE FROM attributed_days; DELETE FROM attribution_state")
    pipeline.attribute(config, store)
    assert rows(config, store) == rows(*mixed)


def test_split_price_is_cut_by_time(tmp_path: Path) -> None:
    """Cores and memory of a pod cost as much per hour whether its GPUs are active or idle."""
    case = CASES / "basis-sku"
    described = read_fleet(case)
    halves = [[at(hour), at(hour + 0.5), 77] for hour in range(24)]
    described["util"] = dict.fromkeys(described["util"], halves)
    found = rows(*stored(tmp_path, described, prices=case / "prices.csv")).values()
    assert any(row.idle_cost for row in found)
    for row in found:
        if row.by == "workload":
            expected = float(row.held_cost) * row.active_gpu_hours / row.held_gpu_hours
            assert float(row.active_cost) == pytest.approx(expected, abs=1e-6), row.keys


# FLOPs per unit (1,000 units in an hour on an L4 of 121 dense FP16 teraFLOPS), more settings, and the MFU
L4_HOUR = 121e12 * 3600
MFUS: dict[str, tuple[float, str, float | None]] = {
    "half of the peak": (L4_HOUR / 2000, "", 0.5),
    "fp16 has the same peak": (L4_HOUR / 4000, 'precision = "fp16"', 0.25),
    "no peak of a precision": (L4_HOUR / 4000, 'precision = "fp8"', None),
    "more than the peak": (L4_HOUR / 900, "", 2),
}


@pytest.mark.parametrize(("flops", "settings", "expected"), MFUS.values(), ids=MFUS)
def test_mfu(flops: float, settings: str, expected: float | None, tmp_path: Path, half_file: Path) -> None:
    """Work is counted in the first two of four hours; the other two do not count."""
    config = write_config(
        HALF, tmp_path, write_book(tmp_path),
        settings=f"[[units]]\nname = 'test'\nunit = 'token'\nmetric = 'tokens'\nflops_per_unit = {flops}\n{settings}\n",
    )  # fmt: skip
    store = Store(Path(copyfile(half_file, config.store)))
    put(store, [(counter("token", "a"), [(hour / 4, hour * 250) for hour in range(8)] + [(119 / 60, 2000)])])
    if expected and expected > 1:
        _, error = call("efficiency", "--config", config.path, code=1)
        assert "the MFU of Pod/a is 111.1 %" in error and "flops_per_unit" in error
        return
    found = {row["workload"] or row["by"]: row["mfu"] for row in answer("--config", config.path)["rows"]}
    assert found == {"total": None, "team": None, "gpu_model": None, "Pod/a": expected}
    if expected == 0.25:
        page = tmp_path / "page.html"
        call("report", "--output", page, "--config", config.path)
        assert ">25 %<" in page.read_text()


@pytest.fixture(scope="module")
def half_file(module_path: Path) -> Path:
    folder = module_path / "half"
    folder.mkdir()
    return stored(folder, HALF)[1].path


def test_later_proof_of_a_unit_corrects_earlier_days(tmp_path: Path) -> None:
    """SM activity is 0.5 until hour 48; then 50 proves percentages under the name of a ratio."""
    described = alone(
        60, "g6.12xlarge", pod("a", "w", [0], 0, 60), util=busy("w", [0], 0, 60), scrape=300,
        profile={SM: {"GPU-w-0": [[at(0), at(48), 0.5], [at(48), at(60), 50]]}},
    )  # fmt: skip
    config = write_config(described, tmp_path, write_book(tmp_path))
    store, found = Store(config.store), []
    for window in windows(described, scrape(described, lean=True), config, 30):
        with store.write() as con:
            load_window(con, window)
        found.append(rows(config, store, hours=(2, 3))["Pod/a"].measured.sm)
    assert found == [0.5, 0.005]
