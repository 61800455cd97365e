"""When each cluster was collected: what was seen, by the samples' own times."""

from __future__ import annotations

from collections import defaultdict

from tests.oracle.exact.devices import DeviceSeries
from tests.oracle.exact.states import HOUR, State

#: What was not seen is bridged up to this long: who stands at both ends held on. Longer ones are not collected.
BRIDGED = 2 * HOUR


def collected(told: list[State], exporters: list[DeviceSeries]) -> dict[str, list[tuple[int, int]]]:
    """Spans of collected time by cluster, from one scrape before its first sample, in the same hour, to one after its last.

    Activity alone tells nothing of who held a GPU: it counts only where nothing else was ever collected. Families of metrics that
    fall silent alone, and shards, are left to the tests of coverage.
    """
    seen = defaultdict(list)
    for state in told:
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
