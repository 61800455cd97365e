"""When each cluster was collected: what was seen, by the samples' own times."""

from __future__ import annotations

from collections import defaultdict

from tests.oracle.exact.devices import DeviceSeries
from tests.oracle.exact.states import HOUR, State

#: Gaps in what was seen of a cluster are bridged up to this long; a longer one is not collected.
BRIDGED = 2 * HOUR


def collected(told: list[State], exporters: list[DeviceSeries], since: int, until: int) -> dict[str, list[tuple[int, int]]]:
    """Spans of collected time within [since, until), by cluster: from one scrape before the first sample on.

    Activity alone tells nothing of who held a GPU: it counts only where nothing else was ever collected.
    """
    seen: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for state in told:
        seen[state.cluster].append((state.first, state.last, state.end - state.last))
    for device in exporters:
        if device.cluster not in {state.cluster for state in told}:
            seen[device.cluster].append((device.first, device.last, device.end - device.last))
    found = {}
    for cluster, spans in seen.items():
        spans.sort()
        begins, last = spans[0][0] - spans[0][2], spans[0][1]
        parts = []
        for first, final, interval in spans:
            if first - last > BRIDGED:
                parts.append((begins, last))
                begins = first
            last = max(last, final)
        parts.append((begins, until))
        found[cluster] = [(max(a, since), min(b, until)) for a, b in parts if max(a, since) < min(b, until)]
    return found
