"""When a device was active, idle or unmeasured: as the fleet's description says, or as its samples say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

from tests.replay.fleet import device_key
from tests.replay.series import Series

#: [from, to) in milliseconds and whether the device was active; what lies in no span was not measured.
Timeline = list[tuple[int, int, bool]]

VALID_PERCENT = (0, 100)


def told(fleet: dict[str, Any], node: dict[str, Any], device: dict[str, Any], threshold: float) -> Timeline:
    """The truth: utilization as described, less the time in which nobody could see it."""
    if not node.get("dcgm", True):
        return []
    key = device_key(device)
    blind = [s[1:] for s in fleet.get("silent", []) if s[0] == node["name"]] + [
        s[:2] for s in fleet.get("invalid", {}).get(key, [])
    ]
    util = fleet["util"].get(key, [])
    edges = {
        node["from"],
        node["to"],
        fleet["start"],
        fleet["end"],
        *(e for s in util for e in s[:2]),
        *(e for s in blind for e in s),
    }
    moments = sorted(edges)
    line: Timeline = []
    for since, until in itertools.pairwise(moments):
        if not any(a <= since < b for a, b in blind):
            percent = next((v for a, b, v in util if a <= since < b), 0)
            line.append((round(since * 1000), round(until * 1000), percent >= threshold))
    return _joined(line)


def sampled(series: list[Series], scrape: float, threshold: float) -> dict[tuple[str, str, str], Timeline]:
    """What the samples of each device say, by (cluster or "", node, device key).

    A sample speaks until the device's next one, or for one scrape interval when that is more than 2.5 intervals away.
    """
    points: dict[tuple[str, str, str], dict[int, Fraction]] = {}
    for one in series:
        labels = one.labels
        scale = 1 if labels["__name__"] == "DCGM_FI_DEV_GPU_UTIL" else 100
        wanted = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" if "GPU_I_ID" in labels else "DCGM_FI_DEV_GPU_UTIL"
        if labels["__name__"] != wanted:
            continue
        host = labels.get("Hostname") or labels["hostname"]
        key = labels["UUID"] + (f"/{labels['GPU_I_ID']}" if "GPU_I_ID" in labels else "")
        device = points.setdefault((labels.get("cluster", ""), host, key), {})
        for time, value in zip(one.times.tolist(), one.values.tolist(), strict=True):
            if not math.isnan(value) and VALID_PERCENT[0] <= value * scale <= VALID_PERCENT[1]:
                device[time] = Fraction(str(value)) * scale
    interval = round(scrape * 1000)
    lines = {}
    for device_name, found in points.items():
        times = sorted(found)
        line: Timeline = []
        for time, following in zip(times, [*times[1:], None][: len(times)], strict=True):
            speaks = (
                following
                if following is not None and (following - time) <= 2.5 * interval
                else time + interval
            )
            line.append((time, speaks, found[time] >= Fraction(str(threshold))))
        lines[device_name] = _joined(line)
    return lines


def _joined(line: Timeline) -> Timeline:
    joined: Timeline = []
    for since, until, active in line:
        if joined and joined[-1][1] == since and joined[-1][2] == active:
            joined[-1] = (joined[-1][0], until, active)
        else:
            joined.append((since, until, active))
    return joined
