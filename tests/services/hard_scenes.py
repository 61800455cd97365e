"""What the product says of a few hours of a fleet that errs, for scenarios with their true figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.oracle.calculation import PodKey
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total
from tests.replay.series import Series

HOURS = 5
PLAIN = {"resource": "nvidia_com_gpu"}
REQUESTS = "kube_pod_container_resource_.*"
SPAN = (at(0) * 1000, at(HOURS) * 1000)
_TEAMS = """
    SELECT team, sum(allocated_gpu_ms) FROM cost_hourly JOIN nodes USING (node_id)
    WHERE kind = 'allocated' AND to_ms <= $end AND cluster SIMILAR TO $cluster
    GROUP BY ALL HAVING sum(allocated_gpu_ms) > 0
"""
_MESSAGES = "SELECT message FROM warnings WHERE cluster = $cluster"


class Answers:
    """What the product says of a fleet's hours, in GPU-hours."""

    def __init__(self, config: Config, store: Store, cluster: str = ".*") -> None:
        self.config, self.store, self.cluster = config, store, cluster

    def pods(self) -> dict[PodKey, Figures]:
        return by_pod(self.store, *SPAN, self.cluster)

    def pod(self, uid: str, *measures: str) -> list[float]:
        figures = next(f for key, f in self.pods().items() if key[3] == uid)
        return [float(getattr(figures, measure)) for measure in measures]

    def total(self, *measures: str) -> list[float]:
        figures = total(self.store, *SPAN, self.cluster)
        return [float(getattr(figures, measure)) for measure in measures]

    def query(self, sql: str, **params: int) -> list[tuple[Any, ...]]:
        """Rows of a statement in which $cluster stands."""
        with self.store.read() as con:
            return con.execute(sql, {"cluster": self.cluster, **params}).fetchall()

    def teams(self) -> dict[str, Any]:
        return {
            team: pytest.approx(ms / MS_PER_HOUR, abs=0.02) for team, ms in self.query(_TEAMS, end=SPAN[1])
        }

    def warnings(self, code: str) -> list[str]:
        """What the stored warnings of a kind say."""
        rows = self.query(
            f"SELECT message FROM warnings WHERE code = '{code}' AND cluster SIMILAR TO $cluster"  # noqa: S608
        )
        return [message for (message,) in rows]


def own_store(folder: Path, described: Fleet, series: list[Series]) -> tuple[Config, Store]:
    """A fleet whose figures others in one store with it would change."""
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, folder, folder / "prices.csv")
    return config, load(described, series, config)


def near(*hours: float) -> Any:
    """These figures, each within a scrape or two."""
    return pytest.approx(list(hours), abs=0.035)


def of_team(name: str, start: float = 0, **more: Any) -> Fleet:
    """One GPU held all the time in a namespace labeled with a team."""
    nodes = [node("w", "g6.12xlarge", start, HOURS)]
    return fleet(
        HOURS, nodes, [pod("a", "w", [0], start, HOURS)], {}, namespaces={"train": {"team": name}}, **more
    )
