"""Metrics that change, in stores of their own: odd periods, another scrape interval, no activity."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, thin
from tests.replay.load import write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape
from tests.services.hard_scenes import HOURS, Answers, held, lean, of_team, on_w, own_store


def test_a_report_of_an_odd_period_leaves_other_reports_as_they_are(tmp_path: Path) -> None:
    """The label is y from 02:10 on, so y pays from 03:00 on, whether or not somebody asks for 02:15-04:00 before."""
    described, later = of_team("x"), (2 + 1 / 6, HOURS)
    series = relabel(lean(described), "kube_namespace_labels", {"label_team": "y"}, hours=later)
    config, store = own_store(tmp_path, described, series)
    for hours in ((2.25, 4), (0, HOURS)):
        pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(at(h), UTC) for h in hours)))
        assert not unpaid(store)
        Answers(config, store).shows("teams x 3 y 2")


@pytest.mark.slow
def test_missing_activity_is_a_stored_warning(tmp_path: Path) -> None:
    """In a store of its own: of invalid samples it is known which server they are of, but not which cluster."""
    described = on_w(held("a | w | 0 | 0 | 5"), busy("w", [0], 0, HOURS))
    config, store = own_store(tmp_path, described, drop(scrape(described), "DCGM_.*"))
    pipeline.attribute(config, store)
    (message,) = Answers(config, store).warnings("no_activity")
    assert "has no DCGM_FI_DEV_GPU_UTIL: all GPU time is unmeasured" in message


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(120, 60), (60, 120)])
def test_scraping_otherwise_from_the_third_day_on_leaves_the_first_as_it_was(
    tmp_path: Path, before: int, after: int
) -> None:
    """Rows and fingerprint of the first day stay as they are, with a gap, a node and a pod that end in it."""
    pods = [
        pod("a", "w", [0], 0.5, 20.01, uid="a", keep_until=at(20.01)),
        *held("b | w | 1 | 3.3 | 70"),
        pod("c", "v", [0], 1.2, 9.99, uid="c", timestamps=False),
    ]
    nodes = [node("w", "g6.12xlarge", 0, 72), node("v", "g6.12xlarge", 0, 10.01)]
    silent = [["w", at(5.1), at(5.4)], ["w", at(11.99), at(13.2)]]
    util = {**busy("w", [0, 1], 0, 72), **busy("v", [0], 0, 72)}
    described = fleet(72, nodes, pods, util, silent=silent)
    series = thin(thin(lean(described), before, (0, 48)), after, (48, 72))
    states: list[Any] = []

    def attribute(store: Store) -> None:
        pipeline.attribute(write_config(described, tmp_path, tmp_path / "prices.csv"), store)
        days = ("FROM cost_hourly SELECT from_ms, *", "SELECT from_ms, fingerprint FROM attributed_days")
        first = [[row for row in store.query(text)[1] if int(str(row[0])) < at(24) * 1000] for text in days]
        states.append([sorted(rows, key=str) for rows in first])

    own_store(tmp_path, described, series, attribute)
    assert len(states) == 3 and states[0][0]
    assert states[1] == states[2]
