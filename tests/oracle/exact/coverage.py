"""Collected time of each cluster, by the times of the samples."""

from __future__ import annotations

from collections import defaultdict

from tests.oracle.exact.devices import DeviceSeries
from tests.oracle.exact.states import HOUR, State

#: Gaps up to this long are bridged: pods present at both ends held their GPUs. Longer gaps are not collected.
BRIDGED = 2 * HOUR


def collected(kube_states: list[State], exporters: list[DeviceSeries]) -> dict[str, list[tuple[int, int]]]:
    """Return spans of collected time by cluster, from one scrape before the first sample (same hour) to one after the last.

    Activity alone does not show which pod held a GPU: it counts only for clusters without any other metrics. The tests of
    coverage cover shards and single families of metrics that fail.
    """
    seen = defaultdict(list)
    for state in kube_states:
        seen[state.cluster].append((state.first, state.last, state.begin, state.end))
    known = set(seen)
    for device in exporters:
        if device.cluster not in known:
            seen[device.cluster].append(
                (device.first, device.last, device.first - (device.end - device.last), device.end)
            )
    return {cluster: _spans(sorted(runs)) for cluster, runs in seen.items()}


def _spans(runs: list[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    begins, ends = max(runs[0][2], runs[0][0] // HOUR * HOUR), runs[0][3]
    found = []
    for first, _, _, end in runs:
        if first - ends > BRIDGED:
            found.append((begins, ends))
            begins = first
        ends = max(ends, end)
    return [*found, (begins, ends)]
