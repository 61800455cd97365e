"""Every described fleet, scraped by a real Prometheus and collected over HTTP, gives its true figures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from tests.replay.check import check_figures
from tests.replay.compare import differences
from tests.replay.fleet import all_cases, period_of, read_expected, read_fleet
from tests.replay.load import put_prices, write_config
from tests.replay.waste import check_waste

pytestmark = pytest.mark.services


# The exact calculation holds all of them against their samples; what HTTP adds to that, some show.
SOME = [
    pytest.param(
        case, id=case.name, marks=[] if number == 32 else pytest.mark.slow if number % 8 else pytest.mark.ci
    )
    for number, case in enumerate(all_cases())
]


@pytest.mark.parametrize("case", SOME)
def test_fleet_collected_over_http_gives_its_true_figures(
    case: Path, tmp_path: Path, prometheus_server: Callable[[dict[str, Any]], str]
) -> None:
    fleet = read_fleet(case)
    url = prometheus_server(fleet)
    config = write_config(fleet, tmp_path, case / "prices.csv", url, cluster=fleet["nodes"][0]["cluster"])
    store = Store(config.store)
    put_prices(fleet, store)
    results, errors = pipeline.collect(config, store, _period(fleet["start"], fleet["end"]))
    assert not errors
    assert all(result.ok for result in results)
    period = _period(*period_of(fleet))
    by = ("day",) if "timezone" in fleet else ("namespace",)
    view = reading.report(config, store, Query(period=period, period_name="the case", by=by))
    check_figures(case, store)
    check_waste(config, store, period)
    expected = read_expected(case)
    for row in view.rows:
        if "by_day" in expected and row.kind == "allocated":
            figures = expected["by_day"][row.keys["day"]]
            assert not differences(
                row.keys["day"] or "", {"cost": row.measures.cost}, figures, ("cost",), {"cost": 0.05}
            )
    if "by_day" in expected:
        assert {row.keys["day"] for row in view.rows if row.kind == "allocated"} == set(expected["by_day"])


def _period(start: int, end: int) -> Period:
    return Period(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
