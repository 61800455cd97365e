"""When a device was active, idle or unmeasured: as the fleet's description says, or as its samples say."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.oracle.exact.devices import DeviceSeries, Speech, device_series
from tests.oracle.exact.states import valid
from tests.replay.fleet import device_key
from tests.replay.series import Series

#: [from, to) in milliseconds and whether the device was active; what lies in no span was not measured.
Timeline = list[tuple[int, int, bool]]


def told(fleet: dict[str, Any], node: dict[str, Any], device: dict[str, Any], threshold: float) -> Timeline:
    """The truth: utilization as described, less the time in which nobody could see it."""
    if not node.get("dcgm", True):
        return []
    key = device_key(device)
    blind = [s[1:] for s in fleet.get("silent", []) if s[0] == node["name"]]
    blind += [s[:2] for s in fleet.get("invalid", {}).get(key, [])]
    util = fleet["util"].get(key, [])
    edges = {node["from"], node["to"], fleet["start"], fleet["end"]}
    edges |= {edge for span in (*util, *blind) for edge in span[:2]}
    line: Timeline = []
    for since, until in itertools.pairwise(sorted(edges)):
        if not any(a <= since < b for a, b in blind):
            percent = next((v for a, b, v in util if a <= since < b), 0)
            line.append((round(since * 1000), round(until * 1000), percent >= threshold))
    return _joined(line)


def sampled(series: list[Series], threshold: float) -> dict[tuple[str, str, str], Timeline]:
    """What the samples of each device say, by (cluster or "", node, device key)."""
    devices: dict[tuple[str, str, str], list[DeviceSeries]] = defaultdict(list)
    for one in device_series(valid(series, "")):
        key = device_key({"uuid": one.uuid, "gi": one.instance or None})
        devices[one.cluster, one.host, key].append(one)
    lines = {}
    for name, found in devices.items():
        speech = Speech(found, Fraction(str(threshold)))
        spoken = zip(speech.times, speech.spoken, speech.idle, strict=True)
        lines[name] = _joined((time, time + length, not idle) for time, length, idle in spoken)
    return lines


def _joined(line: Iterable[tuple[int, int, bool]]) -> Timeline:
    joined: Timeline = []
    for since, until, active in line:
        if joined and joined[-1][1:] == (since, active):
            joined[-1] = (joined[-1][0], until, active)
        else:
            joined.append((since, until, active))
    return joined
