"""The format of described fleets, and the folder of the described cases.

A case is a folder with `fleet.json`, `prices.csv` (a price book) and `expected.json` (its true figures).

All times are Unix seconds, all intervals half-open. A fleet is a dict of:

    start, end         the time that was scraped; report: [from, to] is the reported period if it differs
    scrape             seconds between scrapes; offset, jitter: seconds of deviation from multiples of it
    nodes              [{cluster, name, instance_type, region, zone, capacity_type, provider, gpu_model, gpus: [uuid],
                         from, to, replicas, mig: {uuid: [{gi, profile}]}, shared_resource}], and extensions of this replay:
                         created (if the node is older than `from`), mig_single (profile: plain GPUs are slices), sharing,
                         gke_partition, gke_shared_clients, gfd (false: no nvidia.com/gpu.* labels), beta_labels, labels (raw),
                         cordoned and not_ready [[from, to]], allocatable [[from, to, count]] (of plain GPUs, or of a resource
                         named fourth), offers {resource: units} on top of or instead of its devices, mig_replicas {profile: slots
                         per slice}, dcgm (false: no exporter)
    pods               [{cluster, namespace, name, uid, container, node, resource, count, devices: [{uuid, gi}], owner, labels,
                         scheduled, from, to, end_phase, keep_until, created, restarts, evicted, image}],
                         and containers:
                         [{name, count, role}] with role main, init or sidecar instead of count; asks {resource: units} besides
                         the resource; annotations {name: value}; claims [name]; a device's part: the share of it that the pod
                         holds if no rule of the node gives it, and labeled: false if the exporter names another pod for it;
                         timestamps (false: no scheduled and start time), completes (false: no completion time at its end,
                         only at restarts)
    namespaces         {name: {label: value}}
    util               {uuid or uuid/gi: [[from, to, percent]]}; raw: {uuid: [[tick, value]]}; invalid: {key: [[from, to, value]]}
    profile            {metric: {uuid or uuid/gi: [[from, to, value]]}}: profiling metrics, collected by [activity] profile, and
                         metrics of errors; an XID after the name is a label
    queues             {metric: [[labels, [from, to, value], …]]}: metrics of schedulers about their queues
    epochs             {pod: [[from, to, number]]}: finished epochs, as a metric of pods in the namespace train
    silent, ksm_silent [[node, from, to]], [[from, to]] while the exporter or kube-state-metrics was unreachable
    honor_labels       false: DCGM's pod labels arrive as exported_*; label_one: only one sharing pod is labeled
    ksm_replicas, prometheus_replicas   several that report the same; node_labels: false if none are exported
    ksm_scrapes        seconds between the scrapes of each of several kube-state-metrics, instead of ksm_replicas
    hostname_label     dcgm-exporter's name of it; cluster_label: true adds the cluster to every series
    timezone, teams    for the configuration of the report
    cost_basis         for the configuration, too; with it nodes have vcpus and memory_gib, pods (or their containers) cpu and
                         memory_gib, pods without GPUs a count of 0; list_prices {instance type: price} and unit_prices
                         {provider/region/family: [core, GiB]} are the clouds' on-demand prices
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Fleet = dict[str, Any]

CASES = Path(__file__).parent / "cases"


def read_fleet(case: Path) -> Fleet:
    """Return the fleet described in a case's folder."""
    return json.loads((case / "fleet.json").read_text())


def read_expected(case: Path) -> dict[str, Any]:
    """Return the true figures of a case."""
    return json.loads((case / "expected.json").read_text())


def all_cases() -> list[Path]:
    """Return the folders of the project's own cases."""
    return [file.parent for file in sorted(CASES.glob("*/fleet.json"))]


def period_of(fleet: Fleet) -> tuple[int, int]:
    """Return the reported period in Unix seconds."""
    start, end = fleet.get("report", [fleet["start"], fleet["end"]])
    return start, end


def device_key(device: dict[str, Any]) -> str:
    """Return a device's name in `util` and `invalid`: its UUID, or UUID/instance for a MIG instance."""
    return device["uuid"] if device.get("gi") is None else f"{device['uuid']}/{device['gi']}"


def plain_resource(node: dict[str, Any]) -> str:
    """Return the resource of a node's GPUs that are not partitioned into mixed MIG instances."""
    return str(node.get("shared_resource", "nvidia_com_gpu"))


def is_on(pod: dict[str, Any], node: dict[str, Any]) -> bool:
    """Return whether the pod was bound to this node rather than to an earlier or later node of that name."""
    same = pod["node"] == node["name"] and pod["cluster"] == node["cluster"]
    return same and node.get("created", node["from"]) <= pod["scheduled"] < node["to"]


def has_cluster_label(fleet: Fleet) -> bool:
    """Return whether series have a cluster label."""
    return bool(fleet.get("cluster_label")) or len({node["cluster"] for node in fleet["nodes"]}) > 1
