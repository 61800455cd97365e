"""What measures activity: any exporter of any version, at once; and in which unit it does, settled by all that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.catalog import ACTIVITY, activity_metrics, facts
from gpucost.config.load import load_config
from gpucost.config.model import Activity, Config
from gpucost.engine import text
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.oracle import Figures
from tests.replay.cases.words import HEADER, at, fleet, node, pod
from tests.replay.edits import drop, duplicate, relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.load import windows, write_config
from tests.replay.result import by_pod
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.side_by_side import Scene, Scenes

HOURS = 5
BOOK = [",,,g6.12xlarge,on_demand,4.80,USD,", ",,,trn1.2xlarge,on_demand,1.34,USD,"]
UTIL, RATIO = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"
ENGINE, POWER = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"
WHOLE = (21, 39, 0)  # minutes active, idle and unmeasured in an hour of what busy() describes
UNMEASURED = (0, 0, 60)
IDLE = (0, 60, 0)
scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What scenes are sent: a function from an hour to the minutes that pod a was active, idle and unmeasured in it."""

    def minutes(_: Config, store: Store, cluster: str) -> Callable[[int], tuple[Fraction, ...]]:
        return lambda hour: _minutes(store, hour, cluster)

    with scene.start(tmp_path_factory.mktemp("scenes"), minutes, BOOK, HOURS) as answers:
        yield answers


def _minutes(store: Store, hour: int, cluster: str = "main") -> tuple[Fraction, ...]:
    found: dict[Any, Figures] = by_pod(store, at(hour) * 1000, at(hour + 1) * 1000, cluster)
    (a,) = (figures for key, figures in found.items() if key[2] == "a")
    return tuple(60 * part for part in (a.active_gpu_hours, a.idle_gpu_hours, a.unmeasured_gpu_hours))


def busy(percent: float = 77, resource: str = "nvidia_com_gpu") -> tuple[Fleet, list[Series]]:
    """A pod on one of a node's four GPUs, active in 21 minutes of each hour, and what was scraped of it."""
    util = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, percent] for hour in range(HOURS)]}
    nodes = [node("w", "g6.12xlarge", 0, HOURS, shared_resource=resource)]
    described = fleet(HOURS, nodes, [pod("a", "w", [0], 0, HOURS, resource=resource)], util)
    return described, scrape(described, lean=True)


def scaled(series: list[Series], metric: str, factor: float) -> list[Series]:
    """The same with other values of a metric."""
    return [replace(one, values=one.values * factor) if one.labels["__name__"] == metric else one for one in series]


def powered(series: list[Series], watts: Callable[[Any], Any]) -> list[Series]:
    """The power of each device in place of its engine's activity."""
    with_power = relabel(series, ENGINE, {"__name__": POWER})
    return [replace(one, values=watts(one.values)) if one.labels["__name__"] == POWER else one for one in with_power]


@scene()
def test_exporter_upgraded_within_an_hour_leaves_no_gap() -> Scene:
    """dcgm-exporter 4.9 from 02:30 on: other names, units and labels; hour 2 is told by both."""
    described, series = busy()
    new = relabel(series, UTIL, {"__name__": RATIO, "Hostname": None, "hostname": "w"}, hours=(2.5, 99))
    minutes = yield described, scaled(new, RATIO, 0.01)
    assert [minutes(hour) for hour in range(1, 4)] == [WHOLE] * 3


@scene()
def test_two_versions_at_once_count_once() -> Scene:
    """Both names of one device, in percent and as a ratio, all the time."""
    described, series = busy()
    minutes = yield described, scaled(duplicate(series, UTIL, {"__name__": RATIO}), RATIO, 0.01)
    assert minutes(2) == WHOLE


@scene()
def test_threshold_is_compared_in_the_own_unit_of_each_name() -> Scene:
    """5 % is active under the threshold of 5 %, as 5 and as 0.05, and 4.9 % is not."""
    described, series = busy(5)
    minutes = yield described, scaled(relabel(series, UTIL, {"__name__": RATIO}, hours=(2, 99)), RATIO, 0.01)
    assert [minutes(1), minutes(3)] == [WHOLE, WHOLE]


@scene()
def test_percentages_under_the_name_of_a_ratio() -> Scene:
    """DCGM 4.6 used the new name for a percentage: 3 % is idle."""
    described, series = busy()
    never_zero = [replace(one, values=one.values + 3.0 * (one.values == 0)) for one in series if one.labels["__name__"] == UTIL]
    others = [one for one in series if not one.labels["__name__"].startswith("DCGM")]
    minutes = yield described, others + relabel(never_zero, UTIL, {"__name__": RATIO})
    assert minutes(2) == WHOLE


@scene()
def test_percentages_of_an_idle_fleet_under_the_name_of_a_ratio() -> Scene:
    """One sample of 2 % on an idle device settles its target; its hour's average is under 1."""
    described, series = busy(1)
    once = revalue(relabel(series, UTIL, {"__name__": RATIO}), RATIO, 2, hours=(1.5, 1.51))
    minutes = yield described, once
    assert minutes(2) == IDLE


@scene()
def test_ratios_under_the_old_name_are_proven_by_the_engine() -> Scene:
    described, series = busy()
    minutes = yield described, scaled(series, UTIL, 0.01)
    assert minutes(2) == WHOLE


@scene()
def test_ratios_under_the_old_name_are_unmeasured_without_proof() -> Scene:
    described, series = busy()
    minutes = yield described, drop(scaled(series, UTIL, 0.01), ENGINE)
    assert minutes(2) == UNMEASURED


@scene()
def test_ratios_under_the_old_name_are_proven_by_power() -> Scene:
    """60 of 72 W while the ratio is 0.77."""
    described, series = busy()
    minutes = yield described, powered(scaled(series, UTIL, 0.01), lambda values: 15 + 45 * (values > 0))
    assert minutes(2) == WHOLE


@scene()
def test_averaged_percentages_of_an_idle_fleet_are_never_ratios() -> Scene:
    """0.8 and 0.3 % on average, the engine at a hundredth of it: idle."""
    described, series = busy()
    idle = revalue(revalue(series, UTIL, 0.3), UTIL, 0.8, hours=(1, 3))
    minutes = yield described, revalue(idle, ENGINE, 0.003)
    assert minutes(2) == IDLE


@scene()
def test_averaged_percentages_of_an_idle_fleet_are_idle_by_power() -> Scene:
    described, series = busy()
    minutes = yield described, powered(revalue(series, UTIL, 0.8), lambda values: 15 + 0 * values)
    assert minutes(2) == IDLE


@scene()
def test_averaged_percentages_of_an_idle_fleet_are_unmeasured_without_proof() -> Scene:
    described, series = busy()
    minutes = yield described, drop(revalue(series, UTIL, 0.3), ENGINE)
    assert minutes(2) == UNMEASURED


@scene()
def test_whole_numbers_are_in_the_unit_of_the_name() -> Scene:
    """1 under a percentage's name is 1 %, in a fleet that says nothing but 0 and 1."""
    described, series = busy(1)
    minutes = yield described, drop(series, ENGINE)
    assert minutes(2) == IDLE


@scene()
def test_one_is_all_under_the_name_of_a_ratio() -> Scene:
    described, series = busy(1)
    minutes = yield described, drop(relabel(series, UTIL, {"__name__": RATIO}), ENGINE)
    assert minutes(2) == WHOLE


@scene()
def test_old_and_other_exporters_of_nvidia() -> Scene:
    """dcgm-exporter 1.x until 02:00, nvidia_gpu_exporter from there on: no label but the UUID, and the pod's by relabeling."""
    described, series = busy()
    old = relabel(series, UTIL, {"__name__": "dcgm_gpu_utilization"}, hours=(-1, 2))
    smi = relabel(old, UTIL, {"__name__": "nvidia_smi_utilization_gpu_ratio"})
    minutes = yield described, scaled(_lowered(smi), "nvidia_smi_utilization_gpu_ratio", 0.01)
    assert [minutes(hour) for hour in (1, 2, 3)] == [WHOLE] * 3


def _lowered(series: list[Series]) -> list[Series]:
    """The same with the labels of nvidia_gpu_exporter and dcgm-exporter 1.x: uuid."""
    return [
        replace(one, labels={"uuid" if name == "UUID" else name: value for name, value in one.labels.items()}) for one in series
    ]


VENDORS: list[tuple[str, str, float, Mapping[str, str]]] = [
    ("amd_com_gpu", "gpu_gfx_activity", 1, {"UUID": "serial_number", "Hostname": "hostname"}),
    ("amd_com_gpu", "amd_gpu_gfx_activity", 1, {"UUID": "gpu_uuid", "Hostname": "hostname"}),
    ("google_com_tpu", "duty_cycle", 1, {"UUID": "accelerator_id", "Hostname": "unused"}),
    ("habana_ai_gaudi", "habanalabs_utilization", 1, {"Hostname": "node"}),
    ("nvidia_com_gpu", "HostCoreUtilization", 1, {"UUID": "deviceuuid", "Hostname": "nodeid"}),
    ("nvidia_com_gpu", "hami_host_gpu_utilization_ratio", 1, {"UUID": "device_uuid", "Hostname": "node"}),
]


@scene(*VENDORS)
def test_other_vendors_and_exporters(resource: str, metric: str, factor: float, names: Mapping[str, str]) -> Scene:
    described, series = busy(resource=resource)
    named = drop(relabel(series, UTIL, {"__name__": metric}), ENGINE)
    minutes = yield (
        described,
        scaled(
            [
                one
                if one.labels["__name__"] != metric
                else replace(one, labels={names.get(name, name): value for name, value in one.labels.items()})
                for one in named
            ],
            metric,
            factor,
        ),
    )
    assert [minutes(hour) for hour in (1, 2)] == [WHOLE] * 2


@scene(("aws_amazon_com_neuron", 1), ("aws_amazon_com_neuroncore", 2))
def test_neuron_cores_are_parts_of_a_device(resource: str, units: int) -> Scene:
    """One Trainium device of two cores, one of them active in 21 minutes of each hour: 10.5 minutes of the device.

    neuron-monitor names neither node nor pod: the instance's id does, and the pod holds all of it.
    """
    util = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, 77] for hour in range(HOURS)]}
    cores = {"gpus": ["GPU-w-0", "GPU-w-1"], "shared_resource": "aws_amazon_com_neuron", "gfd": False}
    offers = {"aws_amazon_com_neuron": 1, "aws_amazon_com_neuroncore": 2}
    trainium = node("w", "g6.12xlarge", 0, HOURS, offers=offers, **cores) | {"instance_type": "trn1.2xlarge"}
    described = fleet(HOURS, [trainium], [pod("a", "w", [0, 1], 0, HOURS, resource=resource, count=units)], util)
    series = drop(scrape(described, lean=True), ENGINE)
    (machine,) = {one.labels["provider_id"].rpartition("/")[2] for one in series if "provider_id" in one.labels}
    metric = "neuroncore_utilization_ratio"
    renamed = [
        replace(
            one,
            labels={"__name__": metric, "job": "neuron", "neuroncore": one.labels["gpu"], "instance_id": machine},
            values=one.values / 100,
        )
        if one.labels["__name__"] == UTIL
        else one
        for one in series
    ]
    minutes = yield described, renamed
    assert minutes(2) == (Fraction(21, 2), Fraction(99, 2), 0)


def _loaded(folder: Path, fleet: Fleet, series: list[Series], settings: str = "") -> tuple[Config, Store, Callable[..., None]]:
    """A configuration, an empty store, and what loads series into it."""
    prices = folder / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(fleet, folder, prices)
    assert config.path is not None
    config.path.write_text(config.path.read_text() + settings)
    config = load_config(config.path, environ={}, cwd=folder)
    store = Store(config.store)

    def load(hours: tuple[int, int]) -> None:
        with store.write() as con:
            for window in windows(fleet, series, config, 1):
                if at(hours[0]) * 1000 <= window.from_ms < at(hours[1]) * 1000:
                    load_window(con, window)
        pipeline.attribute(config, store)

    return config, store, load


def _remarks(store: Store) -> list[Any]:
    return store.query("SELECT code, message, fix FROM warnings WHERE starts_with(code, 'activity_scale')")[1]


def test_setting_settles_the_scale_of_its_own_name_alone(tmp_path: Path) -> None:
    described, series = busy()
    ratios = drop(scaled(relabel(series, UTIL, {"__name__": RATIO}, hours=(3, 99)), UTIL, 0.01), ENGINE)
    _, store, load = _loaded(tmp_path, described, ratios, "[activity]\ndevice_scale = 100\n")
    load((0, HOURS))
    # percentages under the other name are found by their values
    assert [_minutes(store, hour) for hour in (1, 3)] == [WHOLE] * 2
    ((code, message, fix),) = _remarks(store)
    assert (code, fix) == ("activity_scale", None)
    assert message == f"cluster main: {RATIO} of 4 GPU(s), on w holds percentages under the name of a ratio: read as percentages"


def test_later_proof_corrects_earlier_days_and_warns_until_then(tmp_path: Path) -> None:
    """Nothing above 0.3 until 02:00; the first value above 1 proves percentages, of the hours before, too."""
    described, series = busy()
    doubtful = drop(revalue(series, UTIL, 0.3, hours=(-1, 2)), ENGINE)
    _, store, load = _loaded(tmp_path, described, doubtful)
    load((0, 2))
    assert _minutes(store, 0) == UNMEASURED
    ((code, message, fix),) = _remarks(store)
    assert code == "activity_scale_unknown" and fix == "[activity] device_scale = 100 for a ratio, 1 for a percentage"
    assert message.endswith("lies between 0 and 1: nothing proves a ratio or a percentage, so this time is unmeasured")
    load((2, HOURS))
    assert [_minutes(store, hour) for hour in (0, 1, 2)] == [IDLE, IDLE, WHOLE]
    assert _remarks(store) == []


def test_later_proof_corrects_a_day_that_no_load_touches(tmp_path: Path) -> None:
    described, series = busy()
    long = fleet(60, [node("w", "g6.12xlarge", 0, 60)], [pod("a", "w", [0], 0, 60)], {"GPU-w-0": [[at(50), at(60), 77]]})
    described, series = long, drop(scrape(long, lean=True), ENGINE)
    doubtful = revalue(series, UTIL, 0.3, hours=(-1, 48))
    _, store, load = _loaded(tmp_path, described, doubtful)
    load((0, 30))
    assert _minutes(store, 2) == UNMEASURED
    load((30, 60))
    assert _minutes(store, 2) == IDLE and _minutes(store, 55) == (60, 0, 0)


def test_metric_that_the_table_lacks_is_taken_alone(tmp_path: Path) -> None:
    described, series = busy()
    mine = relabel(series, UTIL, {"__name__": "my_gpu_busy"})
    _, store, load = _loaded(tmp_path, described, mine + series, '[activity]\ndevice_metric = "my_gpu_busy"\n')
    load((0, HOURS))
    assert _minutes(store, 2) == WHOLE
    names = [one.metric for one in activity_metrics(Activity(device_metric="my_gpu_busy")) if one.part == "device"]
    assert names[0] == "my_gpu_busy" and not any(name.startswith("DCGM") for name in names)


def test_table_has_both_names_of_each_version_and_names_labels_that_silences_know() -> None:
    rows = facts(ACTIVITY)
    old = {row["measures"] for row in rows if row["exporter"] == "dcgm-exporter" and row["versions"] == "2.0 to 4.8"}
    new = {row["measures"] for row in rows if row["exporter"] == "dcgm-exporter" and row["versions"] == "from 4.9"}
    assert old == new == {"device_busy", "engine", "sm", "tensor", "memory_bandwidth", "memory_used", "power", "energy"}
    assert {row["vendor"] for row in rows if row["measures"] == "device_busy"} == {"nvidia", "amd", "google", "aws", "habana"}
    statement = text("gpucost.store", "sql/silences")
    assert [row["metric"] for row in rows for label in row["device"].split() if f"labels['{label}']" not in statement] == []
