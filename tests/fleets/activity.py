"""Activity metrics of all exporters and versions, and their units.

A pod on one of four GPUs is active for 21 minutes of each hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.fleets.case import Case, Edit, alone, case, drop, duplicate, relabel, revalue, scale
from tests.replay.cases.words import at, pod
from tests.replay.series import Series
from tests.text_tables import text_rows, words

UTIL, RATIO = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"
ENGINE, POWER = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"
SMI = "nvidia_smi_utilization_gpu_ratio"
# active, idle and unmeasured GPU-hours per hour
WHOLE, UNMEASURED, IDLE = "21/60 39/60 0", "0 0 1", "0 1 0"


def busy(percent: float = 77, resource: str = "nvidia_com_gpu", **more: Any) -> dict[str, Any]:
    util = {"GPU-w-0": [[at(hour), at(hour) + 21 * 60, percent] for hour in range(5)]}
    kind = {"shared_resource": resource, **more.pop("of", {})}
    return alone(5, "g6.12xlarge", pod("a", "w", [0], 0, 5, resource=resource, **more), util=util, of=kind)


def measured(
    name: str, figures: str, *changes: Edit, percent: float = 77, of: Any = None, **more: Any
) -> Case:
    """Return a table with the same figures from 01:00 to 04:00."""
    table = "hour pod | active idle unmeasured\n" + "\n".join(f"{hour} a | {figures}" for hour in (1, 2, 3))
    return case(name, of or busy(percent), table, *changes, hours=(1, 4), **more)


def each(metric: str, change: Callable[[Series], Series]) -> Edit:
    """Change the series of a metric one by one."""
    return lambda series: [change(one) if one.labels["__name__"] == metric else one for one in series]


def renamed(metric: str, names: Mapping[str, str]) -> Edit:
    """Rename labels of a metric."""
    return each(
        metric,
        lambda one: replace(one, labels={names.get(name, name): one.labels[name] for name in one.labels}),
    )


def powered(watts: Callable[[Any], Any]) -> Edit:
    """Replace each device's engine activity by its power."""
    return each(
        ENGINE, lambda one: replace(one, labels={**one.labels, "__name__": POWER}, values=watts(one.values))
    )


never_zero = each(UTIL, lambda one: replace(one, values=one.values + 3.0 * (one.values == 0)))


def cores(series: list[Series]) -> list[Series]:
    """neuron-monitor names neither node nor pod: the instance id does, and the pod holds the whole instance."""
    (instance,) = {
        one.labels["provider_id"].rpartition("/")[2] for one in series if "provider_id" in one.labels
    }
    labels = {"__name__": "neuroncore_utilization_ratio", "job": "neuron", "instance_id": instance}
    core = each(
        UTIL,
        lambda one: replace(one, labels={**labels, "neuroncore": one.labels["gpu"]}, values=one.values / 100),
    )
    return core(series)


def to_ratio(hours: tuple[float, float] = (-1, 99), name: str = RATIO, **labels: str | None) -> Edit:
    return relabel(UTIL, {"__name__": name, **labels}, hours=hours)


def minute_of(one: Series) -> Any:
    return one.times % 3_600_000 // 60_000


# the first idle scrape of each hour is six seconds late
late = each(UTIL, lambda one: replace(one, times=one.times + 6_000 * (minute_of(one) == 21)))
paused = each(UTIL, lambda one: one.where((minute_of(one) <= 30) | (minute_of(one) >= 40)))
NO_ENGINE = drop(ENGINE)
VENDORS = """
amd_com_gpu     | gpu_gfx_activity                | UUID=serial_number Hostname=hostname
amd_com_gpu     | amd_gpu_gfx_activity            | UUID=gpu_uuid Hostname=hostname
google_com_tpu  | duty_cycle                      | UUID=accelerator_id Hostname=unused
habana_ai_gaudi | habanalabs_utilization          | Hostname=node
nvidia_com_gpu  | HostCoreUtilization             | UUID=deviceuuid Hostname=nodeid
nvidia_com_gpu  | hami_host_gpu_utilization_ratio | UUID=device_uuid Hostname=node
"""

CASES = [
    # dcgm-exporter 4.9 from 02:30 on: other names, units and labels
    measured(
        "an exporter upgraded within an hour leaves no gap", WHOLE, to_ratio((2.5, 99), Hostname=None, hostname="w"),
        scale(RATIO, 0.01),
    ),
    measured("two versions at once count once", WHOLE, duplicate(UTIL, {"__name__": RATIO}), scale(RATIO, 0.01)),
    # 5 % is active under the threshold of 5 %, as 5 and as 0.05
    measured("the threshold is compared in the unit of each name", WHOLE, to_ratio((2, 99)), scale(RATIO, 0.01), percent=5),
    measured("4.9 percent is idle", IDLE, percent=4.9),
    measured("scrapes off the grid count until the next one", "211/600 389/600 0", late),
    # the scrape at 30 minutes counts for one minute
    measured("a pause in an hour with a scrape off the grid is unmeasured", "211/600 299/600 9/60", paused, late),
    # DCGM 4.6 reported a percentage under the new name: 3 % is idle
    measured(
        "percentages under the name of a ratio", WHOLE, never_zero, NO_ENGINE, to_ratio(),
        warnings="activity_scale holds percentages under the name of a ratio: read as percentages",
    ),
    # one sample of 2 % on an idle device decides for its target
    measured(
        "percentages of an idle fleet under the name of a ratio", IDLE, to_ratio(), revalue(RATIO, 2, hours=(1.5, 1.51)),
        percent=1,
        warnings="activity_scale holds percentages under the name of a ratio",
    ),
    measured(
        "ratios under the old name are proven by the engine", WHOLE, scale(UTIL, 0.01),
        warnings="activity_scale read as ratios"
    ),
    measured(
        "ratios under the old name are unmeasured without proof", UNMEASURED, scale(UTIL, 0.01), NO_ENGINE,
        warnings="activity_scale_unknown has values from 0 to 1 that may be ratios or percentages, so this",
    ),
    # 60 of 72 W while the ratio is 0.77
    measured(
        "ratios under the old name are proven by power", WHOLE, scale(UTIL, 0.01), powered(lambda values: 15 + 45 * (values > 0)),
        warnings="activity_scale read as ratios",
    ),
    # 0.8 and 0.3 % on average, the engine at a hundredth of that
    measured(
        "averaged percentages of an idle fleet are never ratios", IDLE,
        revalue(UTIL, 0.3), revalue(UTIL, 0.8, hours=(1, 3)), revalue(ENGINE, 0.003),
    ),
    measured(
        "averaged percentages of an idle fleet are idle by power", IDLE, revalue(UTIL, 0.8),
        powered(lambda values: 15 + 0 * values)
    ),
    measured(
        "averaged percentages of an idle fleet are unmeasured without proof", UNMEASURED, revalue(UTIL, 0.3), NO_ENGINE,
        warnings="activity_scale_unknown fix: [activity] device_scale = 100 for a ratio, 1 for a percentage",
    ),
    measured("whole numbers are in the unit of the name", IDLE, NO_ENGINE, percent=1),
    measured("one is fully active under the name of a ratio", WHOLE, to_ratio(), NO_ENGINE, percent=1),
    # dcgm-exporter 1.x until 02:00, nvidia_gpu_exporter from then on: only the UUID label, and the pod's label by relabeling
    measured(
        "old and other exporters of NVIDIA", WHOLE,
        to_ratio((-1, 2), "dcgm_gpu_utilization"), to_ratio(name=SMI), renamed("dcgm_gpu_utilization", {"UUID": "uuid"}),
        renamed(ENGINE, {"UUID": "uuid"}), renamed(SMI, {"UUID": "uuid"}), scale(SMI, 0.01),
    ),
    *(
        measured(
            f"the exporter of {metric}", WHOLE, to_ratio(name=metric), NO_ENGINE, renamed(metric, words(names)),
            of=busy(resource=resource),
        )
        for resource, metric, names in text_rows(VENDORS)
    ),
    # one Trainium device with two cores, one of them active for 21 minutes of each hour: 10.5 minutes of the device
    *(
        measured(
            f"cores are parts of a device by {resource}", "21/120 99/120 0", NO_ENGINE, cores,
            of=busy(resource=resource, count=units, of={
                "gpus": ["GPU-w-0", "GPU-w-1"], "shared_resource": "aws_amazon_com_neuron", "gfd": False,
                "offers": {"aws_amazon_com_neuron": 1, "aws_amazon_com_neuroncore": 2}, "instance_type": "trn1.2xlarge",
            }),
        )
        for resource, units in (("aws_amazon_com_neuron", 1), ("aws_amazon_com_neuroncore", 2))
    ),
]  # fmt: skip
