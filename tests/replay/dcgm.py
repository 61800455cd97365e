"""The series of dcgm-exporter for a fleet's devices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.replay.fleet import Fleet, device_key, has_cluster_label, is_on
from tests.replay.series import Clock, Recorder, Values
from tests.text_tables import columns, words

Item = dict[str, Any]


def dcgm(fleet: Fleet, out: Recorder, base: Item, ticks: Clock, lean: bool) -> None:
    """Record the exporters of all nodes; `lean` leaves out metrics without effect on figures."""
    for node in fleet["nodes"]:
        if not node.get("dcgm", True):
            continue
        seen = ticks.without([s[1:] for s in fleet.get("silent", []) if s[0] == node["name"]])
        target = {"job": "dcgm-exporter", "instance": f"{node['name']}:9400", **base}
        target |= {"cluster": node["cluster"]} if has_cluster_label(fleet) else {}
        for number, uuid in enumerate(node["gpus"]):
            for part in node.get("mig", {}).get(uuid, [{}]):
                labels = target | columns(f"""
                    gpu                     {number}
                    UUID                    {uuid}
                    pci_bus_id              00000000:{32 + number:02X}:00.0
                    device                  nvidia{number}
                    modelName               {node["gpu_model"]}
                    GPU_I_PROFILE           {part.get("profile", "")}
                    GPU_I_ID                {part.get("gi", "")}
                    {fleet.get("hostname_label", "Hostname")}  {node["name"]}
                    DCGM_FI_DRIVER_VERSION  570.172.08
                """)
                device = {"uuid": uuid, "gi": part.get("gi")}
                _device(fleet, out, node, device, labels, seen, lean)


def _device(
    fleet: Fleet, out: Recorder, node: Item, device: Item, labels: Item, ticks: Clock, lean: bool
) -> None:
    holders = [p for p in fleet["pods"] if is_on(p, node) and _on(p, device)]
    edges = {min(max(pod[at], node["from"]), node["to"]) for pod in holders for at in ("scheduled", "to")}
    for since, until in itertools.pairwise(sorted({node["from"], node["to"], *edges})):
        here = ticks.slice(since, until)
        percent, shown, engine = _values(fleet, device, ticks, here)
        pods = [p for p in holders if p["scheduled"] <= since < p["to"]]
        for pod in (pods[:1] if fleet.get("label_one") else pods) or [None]:
            named = {**labels, **_holder(fleet, node, pod)}
            times = ticks.times[here]
            if device["gi"] is None:
                out.add("DCGM_FI_DEV_GPU_UTIL", named, times, shown)
            out.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", named, times, engine)
            for name, spans in fleet.get("profile", {}).items():
                metric, _, xid = name.partition(" ")
                for first, last, value in spans.get(device_key(device), []):
                    inside = (times >= first * 1000) & (times < last * 1000)
                    out.add(metric, {**named, **({"xid": xid} if xid else {})}, times[inside], value)
            if not lean:
                out.add("DCGM_FI_DEV_FB_USED", named, times, np.round(400 + 350 * percent) * bool(pods))


def _on(pod: Item, device: Item) -> bool:
    return any(device_key(d) == device_key(device) and d.get("labeled", True) for d in pod["devices"])


def _holder(fleet: Fleet, node: Item, pod: Item | None) -> Item:
    prefix = "" if fleet.get("honor_labels", True) else "exported_"
    exporter = words(
        f"namespace=gpu-operator pod=nvidia-dcgm-exporter-{node['name']} container=nvidia-dcgm-exporter"
    )
    own = exporter if prefix or (pod is None and fleet.get("exporter_labels")) else {}
    if pod is None:
        return own
    holder = {"namespace": pod["namespace"], "pod": pod["name"], "container": pod["container"]}
    return own | {prefix + label: value for label, value in holder.items()}


def _values(fleet: Fleet, device: Item, ticks: Clock, here: slice) -> tuple[Values, Values, Values]:
    """Return the device's percent at each scrape, and the values of GPU_UTIL and GR_ENGINE_ACTIVE, sometimes implausible."""
    key, times = device_key(device), ticks.times[here] / 1000
    percent = np.zeros(len(times))
    for since, until, value in reversed(fleet["util"].get(key, [])):
        percent[(times >= since) & (times < until)] = value
    shown, engine = percent.copy(), np.round(percent / 100, 4)
    for tick, value in fleet.get("raw", {}).get(key, []):
        shown[ticks.ticks[here] == tick * 1000] = float(value)
    for since, until, value in fleet.get("invalid", {}).get(key, []):
        for values in (shown, engine):
            values[(times >= since) & (times < until)] = float(value)
    return percent, shown, engine
