"""Pods without a uid after relabeling, distinguished by namespace, name, node and start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from tests.oracle.exact.labels import EVER, NEVER
from tests.oracle.exact.states import COVERED, State

#: Metrics of the time at which a pod was bound, best first.
STARTS = ("kube_pod_status_scheduled_time", "kube_pod_start_time")


def identified(kube_states: list[State]) -> Iterator[State]:
    """Yield the states with generated uids for pods without one, each once per pod that it covers."""
    nameless = defaultdict(list)
    for state in kube_states:
        if (
            state.metric.startswith("kube_pod_")
            and not state.get("uid")
            and state.get("namespace")
            and state.get("pod")
        ):
            nameless[state.cluster, state.get("namespace"), state.get("pod")].append(state)
        else:
            yield state
    for (_, namespace, pod), states in nameless.items():
        for since, until, node, start in _lives(states):
            uid = f"{namespace}/{pod}/{node}/{datetime.fromtimestamp(start // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
            for state in states:
                first, last = max(state.first, since), min(state.last, until - 1)
                if first <= last:
                    begin, end = first - (state.first - state.begin), last + (state.end - state.last)
                    yield replace(
                        state,
                        labels={**state.labels, "uid": uid},
                        first=first,
                        last=last,
                        begin=begin,
                        end=end,
                    )


def _lives(states: list[State]) -> Iterator[tuple[int, int, str | None, int]]:
    """Yield from, to, node and start of each pod of one name: a new pod has another start or node, or follows a gap."""
    infos = sorted(
        (s for s in states if s.metric == "kube_pod_info" and s.get("node")), key=lambda s: s.first
    )
    dated = {}
    metric = next((m for m in STARTS if any(s.metric == m for s in states)), None)
    if metric:
        for state in states:
            if state.metric == metric:
                start = round(state.value * 1000)
                first, last = dated.get(start, (state.first, state.last))
                dated[start] = (min(first, state.first), max(last, state.last))
    else:
        node, start = None, 0
        for info in infos:
            if info.get("node") != node or info.first - dated[start][1] > COVERED:
                node, start = info.get("node"), info.first
                dated[start] = (info.first, info.last)
            dated[start] = (dated[start][0], max(dated[start][1], info.last))
    since = EVER
    for start in sorted(dated):
        first, last = dated[start]
        here = [s for s in infos if s.first <= last and first <= s.last]
        until = NEVER if start == max(dated) else last + 1
        yield since, until, max(here, key=lambda s: s.last).get("node") if here else None, start
        since = last + 1
