"""Pods: the node, time and amount of the GPUs each held, and the devices known to be its own."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.exact.devices import DeviceSeries
from tests.oracle.exact.nodes import PARTS, Node, is_accelerator
from tests.oracle.exact.states import ONE, ZERO, State

TERMINAL = ("Succeeded", "Failed")
#: Longest lag of a phase behind its completion: two scrapes, or this.
LAG = 120_000
#: Weight of a label that names exactly one pod: more than any number of samples.
CERTAIN = 10**9


@dataclass
class Holding:
    """The devices of one kind that a pod held: whole ones or slices."""

    units: Fraction = ZERO
    gpus: Fraction = ZERO
    shared: bool = False


@dataclass(eq=False)
class Pod:
    """A pod that held GPUs of a node, and the weight of each device known to be its own."""

    cluster: str
    namespace: str
    name: str
    uid: str
    node: Node
    since: int
    until: int
    gpus: Fraction = ZERO
    kinds: dict[bool, Holding] = field(default_factory=lambda: defaultdict(Holding))
    devices: dict[tuple[str, str], Fraction] = field(default_factory=dict)


def _is_request(state: State) -> bool:
    return state.metric.startswith("kube_pod_") and "container_resource_" in state.metric


def pods(kube_states: list[State], nodes: list[Node], exporters: Iterable[DeviceSeries]) -> list[Pod]:
    """Return all pods that held GPUs."""
    by_uid = defaultdict(list)
    by_name = defaultdict(list)
    for node in nodes:
        by_name[node.cluster, node.name].append(node)
    for state in kube_states:
        if state.metric.startswith("kube_pod_") and state.get("uid"):
            by_uid[state.cluster, str(state.get("uid"))].append(state)
        if _is_request(state) and is_accelerator(state.resource):
            for node in by_name[state.cluster, str(state.get("node"))]:
                node.requested.add(state.resource)
        counted = next((resource for resource, parts in PARTS.items() if state.resource in parts), None)
        if counted and _is_request(state) and state.get("node"):
            for node in by_name[state.cluster, str(state.get("node"))]:
                node.virtual.add(counted)
    for node in nodes:
        node.on_hami = [other for other in nodes if other.cluster == node.cluster and other.virtual]
    claimed = {(d.cluster, d.namespace, d.pod) for d in exporters if d.by_claim}
    found = []
    claims = []
    for (cluster, uid), states in by_uid.items():
        namespace, name = str(states[0].get("namespace")), str(states[0].get("pod"))
        units = {resource: count for resource, count in requests(states).items() if is_accelerator(resource)}
        by_claim = not units and (cluster, namespace, name) in claimed
        bound = _node_of(states)
        held = _held(states)
        if not (units or by_claim) or not bound or held is None:
            continue
        on = [(max(held[0], n.since), min(held[1], n.until), n) for n in by_name[cluster, bound]]
        on = sorted((one for one in on if one[0] < one[1]), key=lambda one: one[0])
        if not on:
            continue
        # a pod never moves: with several nodes of one name, it ran on the first
        pod = Pod(cluster, namespace, name, uid, on[0][2], on[0][0], on[0][1])
        for resource, count in units.items():
            part = _part_of_virtual(resource, states, pod.node) if resource in PARTS else None
            if part is not None:
                _hold(pod, sliced=False, units=count, gpus=part, shared=True)
            else:
                unit = pod.node.unit(resource, pod.since)
                _hold(pod, unit.profile is not None, count, count * unit.share, unit.shared)
        if by_claim:
            claims.append(pod)
        elif pod.gpus:
            found.append(pod)
    found += _claimed(claims)
    _assign(found)
    return found


def _part_of_virtual(counted: str, states: list[State], node: Node) -> Fraction | None:
    """Return the GPUs that a pod holds as parts of virtual GPUs (HAMi, Volcano); None if it requests no part.

    Per container: devices x max(cores, memory), at most 1 each. Missing memory means the whole device, missing cores none.
    """
    requested = {
        (resource, container, is_init): units for (resource, container, is_init), units in _requested(states).items()
        if resource in PARTS[counted] or resource == counted
    }  # fmt: skip
    if not any(resource in PARTS[counted] for resource, _, _ in requested):
        return None
    parts = {}
    for container, is_init in {key[1:] for key in requested}:
        memory, percentage, cores = (
            requested.get((resource, container, is_init)) for resource in PARTS[counted]
        )
        of_each = node.memory_of_each(PARTS[counted][0])
        share = percentage / 100 if percentage is not None else ONE
        if memory is not None:
            share = memory / of_each if of_each else ONE
        devices = requested.get((counted, container, is_init), ONE)
        parts[container, is_init] = devices * min(ONE, max(share, (cores or ZERO) / 100))
    return _together({("", *key): part for key, part in parts.items()}, states)[""]


def _claimed(claims: list[Pod]) -> list[Pod]:
    """Return pods that hold devices by claims, once per span of unchanged share: running pods split a device."""
    on = defaultdict(dict)
    for pod in claims:
        for device in _named(pod):
            if device.by_claim:
                on[pod.node, device.uuid, device.instance][pod] = device
    found = []
    for pod in claims:
        mine = [(holders, holders[pod]) for holders in on.values() if pod in holders]
        edges = {edge for holders, _ in mine for other in holders for edge in (other.since, other.until)}
        moments = sorted({pod.since, pod.until, *(edge for edge in edges if pod.since < edge < pod.until)})
        for since, until in itertools.pairwise(moments):
            piece = Pod(pod.cluster, pod.namespace, pod.name, pod.uid, pod.node, since, until)
            for holders, device in mine:
                sharers = sum(other.since <= since < other.until for other in holders)
                _hold(
                    piece, device.profile is not None, ONE, _part(pod.node, device, {}) / sharers, sharers > 1
                )
            same = (
                found
                and found[-1].uid == pod.uid
                and found[-1].until == since
                and found[-1].kinds == piece.kinds
            )
            if same:
                found[-1].until = until
            elif piece.gpus:
                found.append(piece)
    return found


def _hold(pod: Pod, sliced: bool, units: Fraction, gpus: Fraction, shared: bool) -> None:
    kind = pod.kinds[sliced]
    kind.units += units
    kind.gpus += gpus
    kind.shared |= shared
    pod.gpus += gpus


def requests(states: list[State]) -> dict[str, Fraction]:
    """Return units by resource: the sum of containers and sidecars, or the largest init container."""
    return {resource: units for resource, units in _together(_requested(states), states).items() if units > 0}


def _requested(states: list[State]) -> dict[tuple[str, str | None, bool], Fraction]:
    """Return units by resource, container and init flag; requests equal limits, and duplicates count once."""
    requested = {}
    for state in states:
        if _is_request(state):
            key = (state.resource, state.get("container"), "_init_" in state.metric)
            requested[key] = max(Fraction(state.value), requested.get(key, ZERO))
    return requested


def _together(
    requested: dict[tuple[str, str | None, bool], Fraction], states: list[State]
) -> dict[str, Fraction]:
    sidecars = {
        s.get("container")
        for s in states
        if s.metric == "kube_pod_init_container_info" and s.labels.get("restart_policy") == "Always"
    }
    lasting = defaultdict(Fraction)
    starting = defaultdict(Fraction)
    for (resource, container, is_init), units in requested.items():
        if is_init and container not in sidecars:
            starting[resource] = max(starting[resource], units)
        else:
            lasting[resource] += units
    return {resource: max(lasting[resource], starting[resource]) for resource in {*lasting, *starting}}


def _node_of(states: list[State]) -> str | None:
    bound = [s for s in states if s.get("node")]
    infos = [s for s in bound if s.metric == "kube_pod_info"]
    return max(infos or bound, key=lambda s: s.last).get("node") if bound else None


def _held(states: list[State]) -> tuple[int, int] | None:
    """Return the span from its binding to its terminal phase or its last sample."""
    since = next(
        (
            at
            for at in (
                _least(states, "kube_pod_status_scheduled_time"),
                _least(states, "kube_pod_start_time"),
            )
            if at is not None
        ),
        None,
    )
    if since is None:
        since = min((s.first for s in states if s.get("node")), default=None)
    if since is None:
        return None
    over = [
        s
        for s in states
        if s.metric == "kube_pod_status_phase" and s.labels["phase"] in TERMINAL and s.value == 1
    ]
    if not over:
        until = max(states, key=lambda s: s.last).end
    else:
        until = min(s.first for s in over)
        completed = max(
            (round(s.value * 1000) for s in states if s.metric == "kube_pod_completion_time"), default=None
        )
        # reported for any container that ever ended: an end long before the pod's end proves nothing
        if completed is not None and completed <= max(s.last for s in over):
            alive = _last_alive(states, over)
            lag = max(2 * max(s.end - s.last for s in states), LAG)
            if alive is None or alive - lag <= completed:
                until = completed
    return (since, until) if since < until else None


def _last_alive(states: list[State], over: list[State]) -> int | None:
    """Return the last scrape before its terminal phase; none if it ended before its first sample."""
    phase = "Succeeded" if any(s.labels["phase"] == "Succeeded" for s in over) else "Failed"
    before = [
        s.last
        for s in states
        if s.metric == "kube_pod_status_phase" and s.labels["phase"] == phase and s.value == 0
    ]
    return max(before, default=None)


def _least(states: list[State], metric: str) -> int | None:
    return min((round(s.value * 1000) for s in states if s.metric == metric), default=None)


def _named(pod: Pod) -> list[DeviceSeries]:
    """Return the series on its node that name it while it held GPUs."""
    return [
        d
        for d in pod.node.devices
        if d.namespace == pod.namespace and d.pod == pod.name and d.first < pod.until and pod.since <= d.last
    ]


def _assign(found: list[Pod]) -> None:
    """Assign each pod the devices known to be its own, with the GPUs that each represents."""
    named = {pod: _named(pod) for pod in found}
    namesakes = defaultdict(int)
    for pod, series in named.items():
        for one in series:
            namesakes[pod.node, one] += 1
    for pod in found:
        spoken = defaultdict(int)
        one_of = {}
        for one in named[pod]:
            # a reused name: the series must have samples within this pod's lifetime
            samples = CERTAIN if namesakes[pod.node, one] == 1 else one.samples_in(pod.since, pod.until)
            if samples:
                spoken[one.uuid, one.instance] += samples
                one_of[one.uuid, one.instance] = one
        for one in _alone(pod):
            spoken[one.uuid, one.instance] += CERTAIN
            one_of[one.uuid, one.instance] = one
        units = {
            unit.profile: unit.part
            for span in pod.node.labels
            for resource in {*pod.node.capacity(span.since, span.until), *pod.node.requested}
            for unit in [pod.node.unit(resource, span.since)]
            if unit.profile
        }
        for sliced, kind in pod.kinds.items():
            mine = [key for key in spoken if bool(key[1]) == sliced]
            mine = sorted(mine, key=lambda key: (-spoken[key], key))[: int(kind.units)]
            parts = {key: _part(pod.node, one_of[key], units) for key in mine}
            total = sum(parts.values(), ZERO)
            for key, part in parts.items():
                # slots are on the known devices; whole devices and slices that no exporter names stay unmeasured
                pod.devices[key] = part * (kind.gpus / total if kind.shared else min(ONE, kind.gpus / total))


def _alone(pod: Pod) -> list[DeviceSeries]:
    """Return the devices it must be on: all of a node if it holds all GPUs, or the node's only GPU."""
    if pod.node.gpus > 1 and pod.gpus < pod.node.gpus:
        return []
    near = [d for d in pod.node.devices if d.first < pod.until and pod.since <= d.last]
    if pod.gpus >= pod.node.gpus:
        return near
    return [d for d in near if not d.instance] if len({d.uuid for d in near}) == 1 else []


def _part(node: Node, device: DeviceSeries, units: dict[str | None, Fraction]) -> Fraction:
    if not device.profile:
        return ONE
    profile = device.profile.lower()
    return units.get(profile, Fraction(int(profile.split("g")[0]), node.slices))
