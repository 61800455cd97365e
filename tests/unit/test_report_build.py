"""The report's figures, from a store filled by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

import gpucost
from gpucost import engine
from gpucost.config.model import Config, Targets
from gpucost.errors import GpucostError, StoreError
from gpucost.periods import Period
from gpucost.questions.report.build import build, build_each
from gpucost.questions.report.query import DIMENSIONS, NODE_DIMENSIONS, Query, default_period
from gpucost.questions.report.sections import IDLE_FLAG
from gpucost.render import markdown, terminal
from gpucost.render.data import to_json
from gpucost.render.schema import to_dict
from gpucost.render.view import Figures, ReportView, Table
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, Fleet, sample, stored

Connection = duckdb.DuckDBPyConnection


store = stored(hours=96)


@pytest.fixture(scope="module")
def con(store: Path) -> Iterator[Connection]:
    with duckdb.connect(str(store), read_only=True) as connection:
        yield connection


def hours_of(first: int, last: int) -> Period:
    return Period(*(datetime.fromtimestamp((OCTOBER + hour * HOUR) / 1000, UTC) for hour in (first, last)))


def ask(con: Connection, *by: str, config: Config | None = None, **options: Any) -> ReportView:
    """A report of the sample's 96 hours, or of another period; with the settings of the defaults it is built once."""
    given: dict[str, Any] = {"period": hours_of(0, 96), "period_name": "these days", "by": by, "now": NOW}
    query = Query(**given | options)
    return build(con, config, query) if config else built(con, query)


BUILT: dict[tuple[int, Query], ReportView] = {}


def built(con: Connection, query: Query) -> ReportView:
    if (id(con), query) not in BUILT:
        BUILT[id(con), query] = build(con, Config(), query)
    return BUILT[id(con), query]


def opened(fleet: Fleet, path: Path) -> Connection:
    fleet.write(path)
    return duckdb.connect(str(path), read_only=True)


def table(view: ReportView, title: str) -> Table:
    (found,) = (section for section in view.sections if isinstance(section, Table) and section.title == title)
    return found


def test_all_teams_add_up_to_what_the_nodes_cost(con: Connection) -> None:
    view = ask(con)
    assert view.by == ("team",)
    assert [row.keys["team"] for row in view.rows] == ["product", "research", "vision", None]
    assert view.node_totals is not None
    assert (
        view.node_totals.node_cost
        == (Decimal("24.48") + Decimal("9.36") + Decimal("1.4") + Decimal("0.805")) * 96
    )
    assert view.totals.cost + view.node_totals.unallocated_cost == view.node_totals.node_cost
    assert view.node_totals.capacity_gpu_hours == 21 * 96
    assert (
        view.totals.allocated_gpu_hours + view.node_totals.unallocated_gpu_hours
        == view.node_totals.capacity_gpu_hours
    )


FAST = ("team", "workload", "node", "day")


@pytest.mark.parametrize(
    "dimension", [pytest.param(one, marks=[pytest.mark.slow] * (one not in FAST)) for one in DIMENSIONS]
)
def test_rows_by_any_dimension_add_up_to_the_totals(con: Connection, dimension: str) -> None:
    view = ask(con, dimension, with_sections=False)
    held = [row for row in view.rows if row.kind == "allocated"]
    free = [row.unallocated for row in view.rows if row.unallocated]
    assert sum(row.measures.cost for row in held) == view.totals.cost
    assert sum(row.measures.idle_cost for row in held) == view.totals.idle_cost
    assert sum(row.measures.allocated_gpu_hours for row in held) == pytest.approx(
        view.totals.allocated_gpu_hours
    )
    assert view.node_totals is not None
    assert sum(part.unallocated_cost for part in free) == view.node_totals.unallocated_cost
    named = [row.keys[dimension] is not None for row in view.rows if row.kind == "unallocated"]
    assert all(named) if dimension in (*NODE_DIMENSIONS, "month", "day", "hour") else not any(named)
    assert [row.measures.cost for row in view.rows] == sorted(
        (row.measures.cost for row in view.rows), reverse=True
    )


def test_one_team_has_no_node_side(con: Connection) -> None:
    view = ask(con, teams=("research",))
    assert view.by == ("namespace",)
    assert [row.kind for row in view.rows] == ["allocated", "allocated"]
    assert view.totals.cost == sum(
        row.measures.cost for row in ask(con).rows if row.keys["team"] == "research"
    )
    totals = to_dict(view)["totals"]
    hours = [
        totals[f"{name}_gpu_hours"] for name in ("capacity", "unallocated", "unavailable", "over_allocated")
    ]
    assert [*hours, totals["unallocated_cost"], totals["node_cost"]] == [None] * 6


def test_ratios(con: Connection) -> None:
    rows = {
        row.keys["workload"]: row.measures for row in ask(con, "workload").rows if row.kind == "allocated"
    }
    alice, ocr, llama = rows["StatefulSet/jupyter-alice"], rows["Pod/ocr-1"], rows["Job/llama-finetune"]
    assert (alice.efficiency, alice.measured_ratio, alice.avg_utilization, alice.spot_ratio) == (
        0.1,
        1.0,
        0.09,
        0.0,
    )
    assert (ocr.efficiency, ocr.measured_ratio, ocr.avg_utilization, ocr.spot_ratio) == (
        None,
        0.0,
        None,
        None,
    )
    assert (llama.efficiency, llama.measured_ratio, llama.avg_utilization, llama.spot_ratio) == (
        0.96,
        0.95,
        0.864,
        1.0,
    )


def test_unknown_capacity_is_left_out_of_the_spot_ratio(con: Connection) -> None:
    view = ask(con)
    assert view.coverage.unknown_capacity_gpu_hours == 48
    assert view.totals.spot_ratio == pytest.approx(
        view.totals.spot_gpu_hours / (view.totals.allocated_gpu_hours - 48), abs=1e-6
    )


def test_a_period_takes_its_own_cells_only(con: Connection) -> None:
    parts = [ask(con, period=hours_of(*span)).totals.cost for span in ((0, 10), (10, 30), (30, 96))]
    assert sum(parts) == ask(con).totals.cost


def test_time_dimensions_follow_the_configured_zone(con: Connection) -> None:
    config = Config(timezone="America/New_York")
    days = {row.keys["day"] for row in ask(con, "day", config=config).rows}
    assert days == {"2026-09-30", "2026-10-01", "2026-10-02", "2026-10-03", "2026-10-04"}
    hours = {row.keys["hour"] for row in ask(con, "hour", config=config).rows}
    assert len(hours) == 96
    assert "2026-09-30T20:00:00-04:00" in hours
    assert {row.keys["month"] for row in ask(con, "month", config=config).rows} == {"2026-09", "2026-10"}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """One pod name in two clusters and twice in one of them; nodes without a price; each in an hour or a cluster of its own."""
    fleet = Fleet()
    for node_id, cluster in ((1, "east"), (2, "west")):
        fleet.node(node_id, "n", "A100", 1, "on_demand", "4", cluster=cluster)
        fleet.pod(node_id, node_id, "ml", "train", "Pod/train", cluster=cluster)
        fleet.cell(OCTOBER, node_id, [(node_id, "ml", 1, 1.0, 0.0)])
    fleet.node(3, "n", "A100", 8, "on_demand", "32", cluster="south")
    for hour, uid in ((10, "first"), (11, "second")):
        fleet.pod(hour, 3, "ml", "train-0", "Pod/train-0", uid=uid, cluster="south")
        fleet.cell(OCTOBER + hour * HOUR, 3, [(hour, "ml", 2, 1.0, 1.0)])
    fleet.node(4, "paid", "A100", 4, "spot", "8", cluster="north")
    fleet.node(5, "free", "A100", 4, "spot", "0", source="none", cluster="north")
    fleet.node(6, "unknown", None, 1, "on_demand", "0", source="none", cluster="nowhere")
    for node_id, gpus, hour in ((4, 4, 20), (5, 2, 20), (6, 1, 30)):
        fleet.pod(node_id, node_id, "ml", "p", "Pod/p", cluster="x")
        fleet.cell(OCTOBER + hour * HOUR, node_id, [(node_id, "ml", gpus, 1.0, 1.0)])
    with opened(fleet, tmp_path_factory.mktemp("odd") / "s") as connection:
        yield connection


def test_a_reused_pod_name_is_one_row_unless_uid_is_asked_for(odd: Connection) -> None:
    (row,) = [row for row in ask(odd, "pod", period=hours_of(10, 12)).rows if row.kind == "allocated"]
    assert row.measures.allocated_gpu_hours == 4.0
    rows = ask(odd, "pod", "uid", period=hours_of(10, 12)).rows
    names = [(row.keys["pod"], row.keys["uid"]) for row in rows if row.kind == "allocated"]
    assert names == [("train-0", "first"), ("train-0", "second")]


def test_one_name_in_two_clusters_is_kept_apart(odd: Connection) -> None:
    period = hours_of(0, 1)
    assert len(ask(odd, "cluster", "namespace", period=period).rows) == 2
    west = ask(odd, period=period, clusters=("west",))
    assert west.node_totals is not None
    assert west.totals.cost == west.node_totals.node_cost == 4
    top = table(ask(odd, period=period), "Top consumers")
    assert [line.cells[1] for line in top.lines] == ["east", "west"]


def test_gpu_hours_times_price_is_cost(con: Connection) -> None:
    consumed = table(ask(con), "GPU-hours consumed")
    for line in consumed.lines[:-1]:
        _, hours, price, cost = line.cells
        assert isinstance(hours, float) and isinstance(price, Decimal) and isinstance(cost, Decimal)
        assert Decimal(str(hours)) * round(price, consumed.columns[2].decimals) == pytest.approx(
            cost, rel=Decimal("1e-4")
        )


def test_workloads_that_idle_half_their_time_are_flagged(con: Connection) -> None:
    top = table(ask(con, teams=("research",)), "Top consumers")
    assert {line.cells[0]: line.flag for line in top.lines}["StatefulSet/jupyter-alice"] == "idle"
    assert sum(line.flag is not None for line in top.lines) == 1
    assert IDLE_FLAG == 0.5


def test_targets_are_unknown_where_too_little_was_measured(con: Connection) -> None:
    def status(team: str, config: Config | None = None) -> dict[str, str | None]:
        waste = next(
            section
            for section in ask(con, teams=(team,), config=config).sections
            if isinstance(section, Figures)
        )
        return {figure.label: figure.status for figure in waste.figures if figure.target is not None}

    assert status("vision") == {"Efficiency": "unknown", "Spot ratio": "unknown"}
    assert status("product") == {"Efficiency": "missed", "Spot ratio": "missed"}
    assert status("product", Config(targets=Targets(efficiency=Decimal("0.75"))))["Efficiency"] == "met"


def test_price_sources_are_shares_of_cost(con: Connection) -> None:
    assert to_dict(ask(con))["coverage"]["price_sources"] == {"price_book": 0.938826, "catalog": 0.061174}
    narrowed = ask(con, teams=("vision",)).coverage
    assert [(source.name, source.share) for source in narrowed.price_sources] == [("catalog", 1.0)]
    assert str(narrowed.price_as_of) == "2026-08-01"


def test_a_day_of_two_price_sources_counts_for_the_one_of_most_of_its_cost() -> None:
    with duckdb.connect() as con:
        con.execute(
            """CREATE TABLE nodes AS SELECT 1 AS node_id, 'c' AS cluster;
            CREATE TABLE allocations AS SELECT 1 AS node_id, 1 AS allocation_id, 'n' AS namespace, 'Job/w' AS workload,
                'u' AS "user";
            CREATE TABLE report_cost_cells AS SELECT 1 AS node_id, 0 AS from_ms, 1 AS allocation_id, 't' AS team,
                36e5 AS allocated_gpu_ms, 5::DECIMAL(38, 9) AS cost;
            CREATE TABLE report_node_cells AS SELECT 1 AS node_id, 0 AS from_ms, NULL::DATE AS price_as_of,
                unnest(['bill', 'price_book', 'spot']) AS price_source, unnest([2, 3, 1]) AS node_cost"""
        )
        engine.run_stage(con, "gpucost.store", "sql/filters")
        asked: dict[str, object] = {
            f"{name}s": [] for name in ("team", "namespace", "cluster", "workload", "user")
        }
        asked["each_team"] = False
        rows = engine.answer_rows(con, "gpucost.questions.report", "41_nodes_of_pods", asked)
    assert [(row["source"], row["node_cost"]) for row in rows] == [("price_book", 5)]


def test_uncollected_time_is_told_with_its_fix(con: Connection) -> None:
    view = ask(con, period=hours_of(-24, 744))
    assert view.coverage.not_collected_hours == 24 + 744 - 96
    assert not view.coverage.is_complete
    codes = [notice.code for notice in view.coverage.warnings]
    assert codes.count("not_collected") == 2
    assert (
        view.coverage.warnings[0].fix
        == "gpucost collect prometheus --from 2026-09-30T00:00 --to 2026-10-01T00:00"
    )
    assert ask(con).coverage.is_complete


def test_the_running_hour_of_a_running_period_is_no_warning(con: Connection) -> None:
    now = datetime(2026, 10, 5, 0, 40, tzinfo=UTC)
    query = Query(period=hours_of(0, 744), period_name="October 2026 so far", now=now)
    coverage = build(con, Config(), query).coverage
    assert coverage.not_collected_hours == pytest.approx(40 / 60)
    assert not [notice for notice in coverage.warnings if notice.code == "not_collected"]
    assert not coverage.is_complete


def test_filters_that_exclude_each_other(con: Connection) -> None:
    with pytest.raises(GpucostError, match="passes all of these filters"):
        ask(con, teams=("vision",), namespaces=("ml-product",))


def test_a_period_without_data_names_the_newest_month_with_data(con: Connection) -> None:
    with pytest.raises(GpucostError) as error:
        ask(con, period=hours_of(-48, -24), teams=("research",))
    assert error.value.message == "there is no data for these days"
    assert error.value.fix is not None and "--month 2026-10" in error.value.fix


def test_an_empty_store(tmp_path: Path) -> None:
    connection = opened(Fleet(), tmp_path / "s")
    with pytest.raises(StoreError):
        ask(connection)
    with pytest.raises(StoreError, match="no data yet"):
        default_period(connection, Config().tz, NOW)


@pytest.mark.parametrize(
    ("now", "name"),
    [
        ("2026-10-09T00:00Z", "October 2026 so far"),
        ("2026-11-03T00:00Z", "October 2026"),
        ("2026-01-01T00:00Z", "October 2026"),
    ],
)
def test_default_period(con: Connection, now: str, name: str) -> None:
    period, given, why = default_period(con, Config().tz, datetime.fromisoformat(now))
    assert (given, period) == (name, hours_of(0, 744))
    assert why


def test_nodes_without_a_price_are_counted(odd: Connection) -> None:
    view = ask(odd, "gpu_model", period=hours_of(30, 31))
    coverage = to_dict(view)["coverage"]
    assert (coverage["price_sources"], coverage["unpriced_gpu_hours"]) == ({}, 1.0)
    assert view.rows[0].keys == {"gpu_model": None}


@pytest.mark.parametrize(
    ("teams", "unpriced", "line"),
    [((), 4.0, "4.0 GPU-hours (50.0 %)"), (("ml",), 2.0, "2.0 GPU-hours (33.3 %)")],
)
def test_an_averaged_price_says_that_some_nodes_have_none(
    odd: Connection, teams: tuple[str, ...], unpriced: float, line: str
) -> None:
    view = ask(odd, period=hours_of(20, 21), teams=teams)
    assert view.coverage.unpriced_gpu_hours == unpriced
    assert [(source.name, source.share) for source in view.coverage.price_sources] == [("price_book", 1.0)]
    for text in (terminal.render(view, 100, color=False), markdown.render(view)):
        assert f"{line} of the nodes have no price" in text
        assert "Some GPU-hours of A100 spot have no price: they count, and cost nothing." in text


def test_programs_get_no_sections(con: Connection) -> None:
    view = ask(con, with_sections=False)
    assert view.sections == ()
    assert to_json(view) == to_json(ask(con))


def test_a_team_hears_of_its_own_nodes_and_namespaces_only(tmp_path: Path) -> None:
    fleet = Fleet()
    for node_id, team in ((1, "ours"), (2, "theirs")):
        fleet.node(node_id, f"node-{team}", "A100", 1, "on_demand", "4")
        fleet.pod(node_id, node_id, f"ns-{team}", "train", "Pod/train")
        fleet.cell(OCTOBER, node_id, [(node_id, team, 1, 1.0, 1.0)])
        subjects = {
            "unknown_capacity_type": f"node-{team}",
            "team_overlap": f"ns-{team}",
            "pod_without_node": f"ns-{team}/p",
            "unassigned_namespace": f"ns-{team}",
        }
        fleet.rows["warnings"] += [
            (code, "prod", subject, OCTOBER, OCTOBER + HOUR, f"{code} {team}", None)
            for code, subject in subjects.items()
        ]
    fleet.rows["warnings"] += [
        ("stale_price", None, "p4d", None, None, "of a kind that both have", None),
        ("stale_price", None, "p5", None, None, "of a kind that nobody has", None),
        ("over_allocated", "prod", "node-ours", OCTOBER, OCTOBER + HOUR, "at another time", None),
        ("unsupported_resource", "prod", "npu", None, None, "the whole cluster", None),
        ("unsupported_resource", "prod", "npu", OCTOBER + HOUR, OCTOBER + 2 * HOUR, "after the period", None),
    ]
    with opened(fleet, tmp_path / "s") as connection:
        whole = [notice.message for notice in ask(connection, period=hours_of(0, 1)).coverage.warnings]
        narrowed = ask(connection, period=hours_of(0, 1), teams=("ours",)).coverage.warnings
    assert "after the period" not in whole and "at another time" not in whole
    assert len(whole) == 8 + 3
    assert [notice.message for notice in narrowed] == [
        "pod_without_node ours",
        "of a kind that both have",
        "team_overlap ours",
        "unknown_capacity_type ours",
        "the whole cluster",
    ]


def test_what_the_server_had_forgotten_is_lost(tmp_path: Path) -> None:
    fleet = sample(hours=4)
    load = fleet.rows["loads"][0]
    fleet.rows["loads"] = [(2, 1, "prometheus", "main", OCTOBER - 4 * HOUR, OCTOBER, 0, 0, load[-1]), load]
    view = ask(opened(fleet, tmp_path / "s"), period=hours_of(-4, 4))
    (notice,) = [notice for notice in view.coverage.warnings if notice.code == "not_collected"]
    assert notice.fix is None
    assert "lost" in notice.message


def test_gpu_time_is_added_as_decimals() -> None:
    # doubles that several threads add differ in the last digits from run to run: so would files made of them
    package = Path(gpucost.__file__).parent
    for folder in ("report", "findings"):
        for path in [*(package / folder).rglob("*.sql"), *(package / folder).rglob("*.py")]:
            found = re.findall(r"sum\((?:\w+\.)?\w+_gpu_ms\b(?!::DECIMAL| for ).*", path.read_text())
            assert not found, (path.name, found)


class Counted:
    """A connection that counts its statements."""

    def __init__(self, con: Connection) -> None:
        self.con, self.count = con, 0

    def execute(self, *given: Any) -> Counted:
        self.count += 1
        self.con.execute(*given)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)


@pytest.mark.parametrize(
    "share", [*(pytest.param(how, marks=pytest.mark.slow) for how in (None, "proportional")), "even"]
)
def test_each_team_is_told_of_as_alone_in_as_many_queries_as_one(
    con: Connection, share: Literal["proportional", "even"] | None
) -> None:
    con.execute(
        "CREATE OR REPLACE TEMP TABLE fx_rates AS SELECT 'USD' AS currency, 0 AS from_ms, 0 AS to_ms, 1.0 AS rate"
    )
    query = Query(
        period=hours_of(0, 96),
        period_name="these days",
        now=NOW,
        top=1,
        with_series=True,
        share_unallocated=share,
    )
    names = tuple(sorted(team for row in build(con, Config(), query).rows if (team := row.keys["team"])))
    assert len(names) > 2
    names = names[:2]
    one, all_of_them = Counted(con), Counted(con)
    each = build_each(all_of_them, Config(), replace(query, teams=names))  # type: ignore[arg-type]
    assert each == {team: build(con, Config(), replace(query, teams=(team,))) for team in names}
    build_each(one, Config(), replace(query, teams=names[:1]))  # type: ignore[arg-type]
    assert all_of_them.count <= one.count + 1


def test_top_cuts_the_consumers_and_no_rows(con: Connection) -> None:
    short, long = (ask(con, "cluster", "namespace", "workload", top=top) for top in (1, 10))
    assert len(table(short, "Top consumers").lines) == 1
    assert short.rows == long.rows
