"""Every fleet's exact figures; days are the sums of their hours; answers agree with the hours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from shutil import copyfile

import duckdb
import pytest

from gpucost import inventory
from gpucost.config.load import load_config
from gpucost.periods import Period
from gpucost.publish import focus
from gpucost.questions.explain import explain_cost
from gpucost.questions.explain.costs import CostExplained
from gpucost.questions.findings import savings
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report.query import Query
from gpucost.store.connection import Store
from tests.fleets.case import Case
from tests.fleets.conftest import KINDS, PROFILED
from tests.fleets.figures import Figures
from tests.frozen.test_answers import check
from tests.profiles import listed
from tests.replay.cases.words import at
from tests.replay.waste import anatomy, check_waste

Fleets = Callable[[str], Figures]
STAGES = Path(__file__).parent / "stages"
DAY = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, 24)))
BILLED = "billed-hours-not-collected-have-the-cost-of-the-bill"
CASES = [pytest.param(kind, case, id=case.name) for kind, (cases, *_) in KINDS.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_fleet(kind: str, case: Case, fleets: Fleets) -> None:
    wrong = fleets(kind).differences(case)
    assert not wrong, "\n".join([case.name, *wrong])


@pytest.mark.parametrize("kind", PROFILED)
def test_stages_match_their_stored_sums(kind: str, fleets: Fleets) -> None:
    """A case above explains a changed figure; UPDATE_GOLDEN=1 then rewrites the sums."""
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


def test_gpus_never_used_count_collected_hours_only(fleets: Fleets) -> None:
    """Ten of 24 hours were not collected, and two of four allocated GPUs are never used."""
    figures = fleets("unseen")
    findings = savings._Scenarios(figures.config, figures.store, DAY).candidates
    (one,) = [finding for finding in findings if finding.kind == "over_requested"]
    assert one.waste_gpu_hours == 28
    assert "28.0 of 56.0 GPU-hours on GPUs never used" in one.evidence


def test_monthly_savings_scale_by_collected_hours_of_at_least_a_week(
    fleets: Fleets, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = fleets("unseen")
    for shortest, times in ((7 * 24, 1.0), (14, 730 / 14), (15, 1.0)):
        monkeypatch.setattr(savings, "_SHORTEST_MS", shortest * 3_600_000)
        found = savings.findings(figures.config, figures.store, DAY).findings
        assert found
        for one in found:
            assert float(one.saving_per_month) == pytest.approx(float(one.saving) * times, rel=0.01)


def explained(figures: Figures, cluster: str) -> CostExplained:
    query = Query(period=DAY, period_name="the day", namespaces=("train",), clusters=(cluster,))
    return explain_cost(figures.config, figures.store, query, 0)


def test_prices_cover_collected_hours_only(fleets: Fleets) -> None:
    (one,) = explained(fleets("unseen"), "unseen").nodes
    hours = [(price.end - price.start).total_seconds() / 3600 for price in one.prices]
    assert hours == [5, 9]
    assert one.node_cost == sum(
        Decimal(hour) * price.price_per_hour for hour, price in zip(hours, one.prices, strict=True)
    )


def test_bill_prices_hours_not_collected(fleets: Fleets) -> None:
    (one,) = explained(fleets("usual"), BILLED).nodes
    assert one.not_collected_cost == Decimal("219.6")
    assert sum((price.end - price.start).total_seconds() for price in one.prices) == 24 * 3600


def test_reconciliation_and_focus_match_the_hours(fleets: Fleets, tmp_path: Path) -> None:
    figures = fleets("usual")
    ((missed,),) = figures.store.query("SELECT sum(not_collected_cost) FROM cost_hourly")[1]
    account = reconciliation(figures.config, figures.store, "2026-03")
    assert account.lines["not_collected"] == missed
    path = tmp_path / "focus.parquet"
    focus.focus_file(figures.config, figures.store, "2026-03", "1.2", "parquet", path)
    sums = f"SELECT x_gpucost_kind, sum(EffectiveCost)::DOUBLE FROM '{path}' GROUP BY ALL"  # noqa: S608
    costs = dict(duckdb.execute(sums).fetchall())
    assert costs["not_collected"] == pytest.approx(float(account.lines["not_collected"]), abs=1e-6)


def test_cores_and_memory_without_a_gpu_form_a_bucket_of_waste(fleets: Fleets) -> None:
    """Cores and memory held without a GPU or unallocated cost 52 cents each for four hours, and 26 each for two.

    Next to a claim, a pod's cost 13 cents and unallocated ones 52 in each of five hours.
    """
    figures = fleets("scad")
    period = Period(DAY.start, DAY.start + timedelta(hours=5))
    found = {
        row.bucket: (row.gpu_hours, row.cost)
        for row in anatomy(figures.config, figures.store, period).buckets
    }
    assert found["cpu_memory"] == (0, Decimal("1.56") + 5 * Decimal("0.65"))
    check_waste(figures.config, figures.store, period)


def test_configured_server_without_answers_is_a_gap(fleets: Fleets, tmp_path: Path) -> None:
    figures = fleets("unseen")
    path = figures.config.path
    assert path is not None
    written, store = path.read_text(), Store(Path(copyfile(figures.store.path, tmp_path / "gpucost.duckdb")))
    file = tmp_path / "gpucost.toml"

    def missed(*servers: str) -> set[str]:
        file.write_text(
            written + "".join(f'[[prometheus]]\nurl = "http://127.0.0.1:10"\n{one}\n' for one in servers)
        )
        with store.write() as con:
            inventory.coverage(con, load_config(file, environ={}, cwd=tmp_path))
            return {
                name for (name,) in con.execute("SELECT DISTINCT cluster FROM coverage_gaps").fetchall()
            } - clusters

    clusters = set()
    clusters = missed()
    assert missed('cluster = "b"') == {"b"}
    assert missed('name = "c"') == set()  # nor did any other configured server answer
    assert missed('name = "replay"', f'name = "c"\ncluster = "{min(clusters)}"') == {"http://127.0.0.1:9"}


def test_pod_waits_until_it_is_bound(fleets: Fleets) -> None:
    rows = "SELECT pod, gpus, from_ms, to_ms FROM pending_pods WHERE cluster = 'a-pod-that-waits-for-a-node'"
    assert fleets("usual").store.query(rows)[1] == [("a", 1.0, at(1) * 1000, (at(2) + 20) * 1000)]
