"""What dcgm-exporter says about a fleet's devices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.replay.fleet import Fleet, device_key, is_on
from tests.replay.series import Clock, Recorder, Values

Item = dict[str, Any]


def dcgm(fleet: Fleet, out: Recorder, base: Item, ticks: Clock, lean: bool) -> None:
    """Records the exporters of all nodes; `lean` leaves out the metrics that no figure is made of."""
    clusters = len({n["cluster"] for n in fleet["nodes"]}) > 1 or fleet.get("cluster_label", False)
    for node in fleet["nodes"]:
        if not node.get("dcgm", True):
            continue
        seen = ticks.without([s[1:] for s in fleet.get("silent", []) if s[0] == node["name"]])
        target = {"job": "dcgm-exporter", "instance": f"{node['name']}:9400", **base}
        target |= {"cluster": node["cluster"]} if clusters else {}
        for number, uuid in enumerate(node["gpus"]):
            for part in node.get("mig", {}).get(uuid, [None]):
                labels = {
                    **target,
                    "gpu": number,
                    "UUID": uuid,
                    "pci_bus_id": f"00000000:{32 + number:02X}:00.0",
                    "device": f"nvidia{number}",
                    "modelName": node["gpu_model"],
                    **({"GPU_I_PROFILE": part["profile"], "GPU_I_ID": part["gi"]} if part else {}),
                    fleet.get("hostname_label", "Hostname"): node["name"],
                    "DCGM_FI_DRIVER_VERSION": "570.172.08",
                }
                _device(
                    fleet, out, node, {"uuid": uuid, "gi": part["gi"] if part else None}, labels, seen, lean
                )


def _device(
    fleet: Fleet, out: Recorder, node: Item, device: Item, labels: Item, ticks: Clock, lean: bool
) -> None:
    holders = [p for p in fleet["pods"] if is_on(p, node) and _on(p, device)]
    edges = {node["from"], node["to"]}
    for pod in holders:
        edges |= {min(max(at, node["from"]), node["to"]) for at in (pod["scheduled"], pod["to"])}
    moments = sorted(edges)
    for since, until in itertools.pairwise(moments):
        here = ticks.slice(since, until)
        percent, wrong = _truth(fleet, device, ticks, here)
        pods: list[Item | None] = [p for p in holders if p["scheduled"] <= since < p["to"]]
        for pod in (pods[:1] if fleet.get("label_one") else pods) or [None]:
            named = {**labels, **_holder(fleet, node, pod)}
            times = ticks.times[here]
            if device["gi"] is None:
                out.add("DCGM_FI_DEV_GPU_UTIL", named, times, np.where(wrong[0], wrong[1], percent))
            out.add(
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
                named,
                times,
                np.where(wrong[2], wrong[1], np.round(percent / 100, 4)),
            )
            if not lean:
                out.add("DCGM_FI_DEV_FB_USED", named, times, np.round(400 + 350 * percent) * bool(pods))


def _on(pod: Item, device: Item) -> bool:
    return any(device_key(d) == device_key(device) and d.get("labeled", True) for d in pod["devices"])


def _holder(fleet: Fleet, node: Item, pod: Item | None) -> Item:
    prefix = "" if fleet.get("honor_labels", True) else "exported_"
    exporter = {
        "namespace": "gpu-operator",
        "pod": f"nvidia-dcgm-exporter-{node['name']}",
        "container": "nvidia-dcgm-exporter",
    }
    own = exporter if prefix or (pod is None and fleet.get("exporter_labels")) else {}
    if pod is None:
        return own
    return {
        **own,
        prefix + "namespace": pod["namespace"],
        prefix + "pod": pod["name"],
        prefix + "container": pod["container"],
    }


def _truth(fleet: Fleet, device: Item, ticks: Clock, here: slice) -> tuple[Values, tuple[Any, Values, Any]]:
    """The device's percent at each scrape; then where GPU_UTIL says nonsense instead, what it says, and where all metrics do."""
    key, times = device_key(device), ticks.times[here]
    percent, nonsense = np.zeros(len(times)), np.zeros(len(times))
    everywhere = np.zeros(len(times), dtype=bool)
    for since, until, value in reversed(fleet["util"].get(key, [])):
        percent[(times >= since * 1000) & (times < until * 1000)] = value
    for since, until, value in fleet.get("invalid", {}).get(key, []):
        inside = (times >= since * 1000) & (times < until * 1000)
        everywhere |= inside
        nonsense[inside] = float(value)
    util_only = everywhere.copy()
    for tick, value in fleet.get("raw", {}).get(key, []):
        at = (ticks.ticks[here] == tick * 1000) & ~everywhere
        util_only |= at
        nonsense[at] = float(value)
    return percent, (util_only, nonsense, everywhere)
