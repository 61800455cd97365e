"""Every fleet's exact figures, and that the days of all of them are the sums of their hours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleets.case import Case
from tests.fleets.conftest import KINDS
from tests.fleets.figures import Figures
from tests.frozen.test_answers import check
from tests.profiles import listed

Fleets = Callable[[str], Figures]
STAGES = Path(__file__).parent / "stages"
CASES = [pytest.param(kind, case, id=case.name) for kind, (cases, *_) in KINDS.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_fleet(kind: str, case: Case, fleets: Fleets) -> None:
    wrong = fleets(kind).differences(case)
    assert not wrong, "\n".join([case.name, *wrong])


@pytest.mark.parametrize("kind", ["usual", "scad"])
def test_stages_write_what_they_wrote(kind: str, fleets: Fleets) -> None:
    """A changed figure is explained by a case above; UPDATE_GOLDEN=1 then writes the sums anew."""
    check(listed(fleets(kind).stages), STAGES / f"{kind}.txt")


_DAYS = {
    "cost_daily": ("cost_hourly", "kind, node_id, allocation_id, team"),
    "node_daily": ("node_hourly", "node_id, price_source"),
}
_BY_DAY = "SELECT from_ms // 86400000 AS day, {}, {} FROM {} GROUP BY ALL"
_EITHER = """WITH days AS ({}), hours AS ({})
(SELECT 'day' AS part, * FROM (FROM days EXCEPT FROM hours)) UNION ALL (SELECT 'hours', * FROM (FROM hours EXCEPT FROM days))"""


@pytest.mark.parametrize("daily", _DAYS)
def test_every_column_of_a_day_is_the_sum_of_its_hours(daily: str, fleets: Fleets) -> None:
    hourly, keys = _DAYS[daily]
    with fleets("usual").store.read() as con:
        types = con.execute(f"DESCRIBE {daily}").fetchall()
        columns = [name for name, kind, *_ in types if kind.startswith(("DOUBLE", "DECIMAL"))]
        assert columns
        sums = ", ".join(f"sum({name})::DECIMAL(38, 5) AS {name}" for name in columns)
        wrong = con.execute(
            _EITHER.format(*(_BY_DAY.format(keys, sums, table) for table in (daily, hourly)))
            + " ORDER BY ALL"
        )
        names = [column[0] for column in wrong.description]
        assert not [dict(zip(names, row, strict=True)) for row in wrong.fetchmany(6)]


@pytest.mark.parametrize(
    "days",
    [
        "node_daily WHERE (node_id, from_ms) IN (SELECT (node_id, from_ms) FROM node_daily GROUP BY ALL HAVING count(*) > 1)",
        "cost_daily WHERE unavailable_gpu_ms > 2 * 3600000",
        "cost_daily WHERE not_collected_gpu_ms > 2 * 3600000",
        "node_daily WHERE over_allocated_gpu_ms > 2 * 3600000",
    ],
)
def test_fleets_have_days_of_several_sources_and_hours_of_each_kind(days: str, fleets: Fleets) -> None:
    ((found,),) = fleets("usual").store.query(f"SELECT count(*) FROM {days}")[1]  # noqa: S608
    assert found
