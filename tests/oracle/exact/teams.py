"""The team of a pod: its namespace's label at the hour's start, the configured teams, or none."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from typing import Any

from tests.oracle.exact.labels import Span, at, spans
from tests.oracle.exact.states import HOUR, State

UNASSIGNED = "unassigned"


class Teams:
    """The team of a namespace in any hour."""

    def __init__(self, kube_states: list[State], configured: list[dict[str, Any]]) -> None:
        self.configured = configured
        sets = defaultdict(list)
        for state in kube_states:
            if state.metric == "kube_namespace_labels" and state.get("namespace"):
                sets[state.cluster, str(state.get("namespace"))].append(state)
        self.labels: dict[tuple[str, str], list[Span]] = {key: spans(found) for key, found in sets.items()}
        self.exported = {
            key[0] for key, found in self.labels.items() if any("label_team" in span.labels for span in found)
        }

    def of(self, cluster: str, namespace: str, moment: int) -> str:
        """Return the team at the start of the hour that contains `moment`; without configuration, a namespace is a team."""
        for team in self.configured:
            if any(fnmatchcase(namespace, pattern) for pattern in team["namespaces"]):
                return str(team["name"])
        if self.configured:
            return UNASSIGNED
        if cluster not in self.exported:
            return namespace
        span = at(self.labels.get((cluster, namespace), []), moment // HOUR * HOUR)
        return span.labels.get("label_team", UNASSIGNED) if span else UNASSIGNED
