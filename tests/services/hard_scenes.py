"""Figures of a few hours of fleets with faulty metrics, for scenarios with true figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total
from tests.replay.scrape import scrape
from tests.replay.series import Series

HOURS = 5
SPAN = (at(0) * 1000, at(HOURS) * 1000)
_TEAMS = """
    SELECT team, sum(allocated_gpu_ms) FROM cost_hourly JOIN nodes USING (node_id)
    WHERE kind = 'allocated' AND to_ms <= $end AND cluster SIMILAR TO $cluster
    GROUP BY ALL HAVING sum(allocated_gpu_ms) > 0
"""


class Answers:
    """The program's figures of a fleet's hours."""

    def __init__(self, config: Config, store: Store, cluster: str = ".*") -> None:
        self.config, self.store, self.cluster = config, store, cluster

    def shows(self, expected: str, within: float = 0.035) -> None:
        """Compare lines of a pod's uid, `total` or `teams` with figures: GPU-hours and `cost`, to within a scrape or two."""
        for line in expected.strip().splitlines():
            name, *words = line.split()
            figures = dict(zip(words[::2], map(float, words[1::2]), strict=True))
            if name == "teams":
                found = {team: ms / MS_PER_HOUR for team, ms in self.query(_TEAMS, end=SPAN[1])}
                assert found == pytest.approx(figures, abs=0.02)
                continue
            row: Any = total(self.store, *SPAN, self.cluster)
            if name != "total":
                row = next(f for key, f in by_pod(self.store, *SPAN, self.cluster).items() if key[3] == name)
            actual = {
                one: float(getattr(row, one if one == "cost" else f"{one}_gpu_hours")) for one in figures
            }
            assert actual == pytest.approx(figures, abs=within), name

    def held(self) -> list[float]:
        """Return the GPU-hours of each pod with any."""
        pods = by_pod(self.store, *SPAN, self.cluster).values()
        return sorted(float(figures.allocated_gpu_hours) for figures in pods if figures.allocated_gpu_hours)

    def query(self, sql: str, **params: int) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that contains $cluster."""
        with self.store.read() as con:
            return con.execute(sql, {"cluster": self.cluster, **params}).fetchall()

    def warnings(self, code: str) -> list[str]:
        """Return the stored warnings of a kind."""
        rows = self.query("SELECT code, message FROM warnings WHERE cluster SIMILAR TO $cluster")
        return [message for kind, message in rows if kind == code]


def lean(described: Fleet) -> list[Series]:
    """Return a fleet's series without metrics that have no effect."""
    return scrape(described, lean=True)


def held(table: str) -> list[dict[str, Any]]:
    """Return pods named like their uids: name, node, GPUs, from hour, to hour, namespace."""
    pods = fleet(HOURS, [], table.strip().splitlines(), {})["pods"]
    return [{**one, "uid": one["name"]} for one in pods]


def on_w(pods: list[Any], util: Any, kind: str = "g6.12xlarge", **more: Any) -> Fleet:
    """Return a fleet of one node w that is always up."""
    return fleet(HOURS, [node("w", kind, 0, HOURS)], pods, util, **more)


def of_team(name: str, **more: Any) -> Fleet:
    """Return a fleet with one GPU always held in a namespace labeled with a team."""
    return on_w(["a | w | 0 | 0 | 5"], {}, namespaces={"train": {"team": name}}, **more)


def own_store(
    folder: Path, described: Fleet, series: list[Series], after: Any = None
) -> tuple[Config, Store]:
    """Return configuration and store of a fleet that would change the figures of others in its store."""
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, folder, folder / "prices.csv")
    return config, load(described, series, config, after=after)
