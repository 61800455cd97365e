"""Figures of the report from a hand-filled store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import gpucost
from gpucost import engine
from gpucost.config.model import Config, Targets
from gpucost.errors import GpucostError, StoreError
from gpucost.periods import Period
from gpucost.questions.report.build import build, build_each, workload_tables
from gpucost.questions.report.query import DIMENSIONS, NODE_DIMENSIONS, Query, default_period
from gpucost.questions.report.sections import IDLE_FLAG
from gpucost.render import markdown, terminal
from gpucost.render.schema import to_dict
from gpucost.render.view import Figures, ReportView, Table
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, Fleet, sample, stored
from tests.text_tables import text_rows
from tests.unit.whatif_costs import shown

Connection = duckdb.DuckDBPyConnection


store = stored(hours=96)


@pytest.fixture(scope="module")
def con(store: Path) -> Iterator[Connection]:
    with duckdb.connect(str(store), read_only=True) as connection:
        yield connection


def hours_of(first: int, last: int) -> Period:
    return Period(*(datetime.fromtimestamp((OCTOBER + hour * HOUR) / 1000, UTC) for hour in (first, last)))


def ask(con: Connection, *by: str, config: Config | None = None, **options: Any) -> ReportView:
    """A report on the sample's 96 hours or another period, built only once with the default settings."""
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


def test_all_teams_add_up_to_the_node_cost(con: Connection) -> None:
    view = ask(con)
    assert view.by == ("team",)
    assert [row.keys["team"] for row in view.rows] == ["product", "research", "vision", None]
    found = to_dict(view)
    totals, coverage = found["totals"], found["coverage"]
    assert totals["cost"] + totals["unallocated_cost"] == totals["node_cost"] == Decimal("36.045") * 96
    hours = totals["allocated_gpu_hours"] + totals["unallocated_gpu_hours"]
    assert hours == totals["capacity_gpu_hours"] == 21 * 96
    assert coverage["price_sources"] == {"price_book": 0.938826, "catalog": 0.061174}
    assert coverage["unknown_capacity_gpu_hours"] == 48
    spot = totals["spot_gpu_hours"] / (totals["allocated_gpu_hours"] - 48)
    assert totals["spot_ratio"] == pytest.approx(spot, abs=1e-6)


FAST = ("team", "workload", "node", "day")


@pytest.mark.parametrize(
    "dimension", [pytest.param(one, marks=[pytest.mark.slow] * (one not in FAST)) for one in DIMENSIONS]
)
def test_rows_by_any_dimension_add_up_to_the_totals(con: Connection, dimension: str) -> None:
    view = ask(con, dimension, with_sections=False)
    held = [row.measures for row in view.rows if row.kind == "allocated"]
    free = [row for row in view.rows if row.unallocated]
    for name in ("cost", "idle_cost"):
        assert sum(getattr(part, name) for part in held) == getattr(view.totals, name)
    assert sum(part.allocated_gpu_hours for part in held) == pytest.approx(view.totals.allocated_gpu_hours)
    unallocated = sum(row.unallocated.unallocated_cost for row in free if row.unallocated)
    assert view.node_totals and unallocated == view.node_totals.unallocated_cost
    has_nodes = dimension in (*NODE_DIMENSIONS, "month", "day", "hour")
    assert all((row.keys[dimension] is not None) is has_nodes for row in free)
    costs = [row.measures.cost for row in view.rows]
    assert costs == sorted(costs, reverse=True)


def test_period_has_only_its_own_cells(con: Connection) -> None:
    parts = [ask(con, period=hours_of(*span)).totals.cost for span in ((0, 10), (10, 30), (30, 96))]
    assert sum(parts) == ask(con).totals.cost


FIRST = """
    month | 2026-09 2
    day   | 2026-09-30 5
    hour  | 2026-09-30T20:00:00-04:00 96
"""


@pytest.mark.parametrize(("dimension", "expected"), text_rows(FIRST))
def test_time_dimensions_follow_the_configured_zone(con: Connection, dimension: str, expected: str) -> None:
    config = Config(timezone="America/New_York")
    keys = {row.keys[dimension] or "" for row in ask(con, dimension, config=config).rows}
    assert f"{min(keys)} {len(keys)}" == expected


# names of nodes, clusters, models, GPUs, capacity types, prices and their sources
NODES = """
    n       | east    | A100 | 1 | on_demand | 4  | price_book
    n       | west    | A100 | 1 | on_demand | 4  | price_book
    n       | south   | A100 | 8 | on_demand | 32 | price_book
    paid    | north   | A100 | 4 | spot      | 8  | price_book
    free    | north   | A100 | 4 | spot      | 0  | none
    unknown | nowhere |      | 1 | on_demand | 0  | none
"""
# hours, nodes, GPUs held and uids
HELD = "0 1 1 | 0 2 1 | 10 3 2 first | 11 3 2 second | 20 4 4 | 20 5 2 | 30 6 1"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A pod name in two clusters and twice in one of them, and nodes without a price; each in its own hour or cluster."""
    fleet = Fleet()
    nodes = text_rows(NODES)
    for number, (name, cluster, model, gpus, capacity, price, source) in enumerate(nodes, 1):
        fleet.node(number, name, model or None, int(gpus), capacity, price, cluster=cluster, source=source)
    for line in HELD.split(" | "):
        hour, node, gpus, *uid = line.split()
        pod_id, cluster = int(f"{node}{hour}"), nodes[int(node) - 1][1]
        fleet.pod(pod_id, int(node), "ml", "train", "Pod/train", uid="".join(uid), cluster=cluster)
        fleet.cell(OCTOBER + int(hour) * HOUR, int(node), [(pod_id, "ml", int(gpus), 1.0, 1.0)])
    with opened(fleet, tmp_path_factory.mktemp("odd") / "s") as connection:
        yield connection


PODS = "pod | train 4\npod uid | train first 2; train second 2"


@pytest.mark.parametrize(("by", "expected"), text_rows(PODS))
def test_reused_pod_name_has_one_row_unless_grouped_by_uid(odd: Connection, by: str, expected: str) -> None:
    rows = [row for row in ask(odd, *by.split(), period=hours_of(10, 12)).rows if row.kind == "allocated"]
    assert "; ".join(shown(*row.keys.values(), row.measures.allocated_gpu_hours) for row in rows) == expected


def test_same_name_in_two_clusters_is_kept_apart(odd: Connection) -> None:
    period = hours_of(0, 1)
    assert len(ask(odd, "cluster", "namespace", period=period).rows) == 2
    west = to_dict(ask(odd, period=period, clusters=("west",)))["totals"]
    assert west["cost"] == west["node_cost"] == 4
    top = table(ask(odd, period=period), "Top consumers")
    assert [line.cells[1] for line in top.lines] == ["east", "west"]


# hour, team, price sources, GPU-hours without a price, and their line in the report
UNPRICED = """
    20 |    | {'price_book': 1.0} 4.0 | 4.0 GPU-hours (50.0 %)
    20 | ml | {'price_book': 1.0} 2.0 | 2.0 GPU-hours (33.3 %)
    30 |    | {} 1.0                  |
"""


@pytest.mark.parametrize(("hour", "teams", "priced", "line"), text_rows(UNPRICED))
def test_nodes_without_a_price_are_counted_and_named(
    odd: Connection, hour: str, teams: str, priced: str, line: str
) -> None:
    view = ask(odd, period=hours_of(int(hour), int(hour) + 1), teams=tuple(teams.split()))
    coverage = to_dict(view)["coverage"]
    assert f"{coverage['price_sources']} {coverage['unpriced_gpu_hours']}" == priced
    for text in (terminal.render(view, 100, color=False), markdown.render(view)):
        assert not line or f"{line} of the nodes have no price" in text
        assert not line or "Some GPU-hours of A100 spot have no price: they count, at no cost." in text


def test_workloads_idle_for_half_of_their_time_are_flagged(con: Connection) -> None:
    top = table(ask(con, teams=("research",)), "Top consumers")
    assert {line.cells[0]: line.flag for line in top.lines}["StatefulSet/jupyter-alice"] == "idle"
    assert sum(line.flag is not None for line in top.lines) == 1
    assert IDLE_FLAG == 0.5


TARGETS = """
    vision  | 0.8  | unknown unknown
    product | 0.8  | missed missed
    product | 0.75 | met missed
"""


@pytest.mark.parametrize(("team", "target", "statuses"), text_rows(TARGETS))
def test_targets_are_unknown_if_too_little_time_was_measured(
    con: Connection, team: str, target: str, statuses: str
) -> None:
    config = Config(targets=Targets(efficiency=Decimal(target)))
    view = ask(con, teams=(team,), config=config)
    waste = next(part for part in view.sections if isinstance(part, Figures))
    assert [figure.status for figure in waste.figures if figure.target is not None] == statuses.split()


def test_day_with_several_price_sources_counts_for_the_most_costly_one() -> None:
    with duckdb.connect() as con:
        con.execute(
            """CREATE TABLE nodes AS SELECT 1 AS node_id, 'c' AS cluster;
            CREATE TABLE allocations AS SELECT 1 AS node_id, 1 AS allocation_id, 'n' AS namespace, 'Job/w' AS workload,
                'u' AS "user";
            CREATE TABLE report_cost_cells AS SELECT 1 AS node_id, 0 AS from_ms, 1 AS allocation_id, 't' AS team,
                36e5 AS allocated_gpu_ms, 5::DECIMAL(38, 9) AS cost;
            CREATE TABLE label_spans (
                node_id INT, allocation_id INT, from_ms BIGINT, to_ms BIGINT, is_selected BOOLEAN);
            CREATE TABLE report_node_cells AS SELECT 1 AS node_id, 0 AS from_ms, NULL::DATE AS price_as_of,
                unnest(['bill', 'price_book', 'spot']) AS price_source, unnest([2, 3, 1]) AS node_cost"""
        )
        engine.run_stage(con, "gpucost.store", "sql/filters")
        filters = {f"{name}s": [] for name in ("team", "namespace", "cluster", "workload", "user")}
        con.execute("SET VARIABLE filters = $1", [filters])
        rows = engine.answer_rows(con, "gpucost.questions.report", "41_nodes_of_pods")
    assert [(row["source"], row["node_cost"]) for row in rows] == [("price_book", 5)]


def test_uncollected_time_is_reported_with_its_fix(con: Connection) -> None:
    view = ask(con, period=hours_of(-24, 744))
    assert view.coverage.not_collected_hours == 24 + 744 - 96
    assert not view.coverage.is_complete
    assert [notice.code for notice in view.coverage.warnings].count("not_collected") == 2
    fix = "gpucost collect prometheus --from 2026-09-30T00:00 --to 2026-10-01T00:00"
    assert view.coverage.warnings[0].fix == fix
    assert ask(con).coverage.is_complete


def test_current_hour_gives_no_warning(con: Connection) -> None:
    now = datetime(2026, 10, 5, 0, 40, tzinfo=UTC)
    query = Query(period=hours_of(0, 744), period_name="October 2026 so far", now=now)
    coverage = build(con, Config(), query).coverage
    assert coverage.not_collected_hours == pytest.approx(40 / 60)
    assert not [notice for notice in coverage.warnings if notice.code == "not_collected"]
    assert not coverage.is_complete


def test_contradictory_filters_are_an_error(con: Connection) -> None:
    with pytest.raises(GpucostError, match="the filters match nothing together"):
        ask(con, teams=("vision",), namespaces=("ml-product",))


def test_period_without_data_names_the_newest_month_with_data(con: Connection) -> None:
    with pytest.raises(GpucostError) as error:
        ask(con, period=hours_of(-48, -24), teams=("research",))
    assert error.value.message == "no data for these days"
    assert error.value.fix is not None and "--month 2026-10" in error.value.fix


def test_empty_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no data yet"):
        default_period(opened(Fleet(), tmp_path / "s"), Config().tz, NOW)


NOWS = "2026-10-09 | October 2026 so far\n2026-11-03 | October 2026\n2026-01-01 | October 2026"


@pytest.mark.parametrize(("now", "name"), text_rows(NOWS))
def test_default_period_is_the_newest_month_with_data(con: Connection, now: str, name: str) -> None:
    period, given, why = default_period(con, Config().tz, datetime.fromisoformat(f"{now}T00:00Z"))
    assert (given, period) == (name, hours_of(0, 744)) and why


# code, cluster, subject, hours, and message
WARNINGS = """
unknown_capacity_type  prod  node-theirs    0-1  theirs
team_overlap           prod  ns-theirs      0-1  theirs
pod_without_node       prod  ns-theirs/p    0-1  theirs
unassigned_namespace   prod  ns-theirs      0-1  theirs
pod_without_node       prod  ns-ours/p      0-1  pod of ours
stale_price            -     p4d            -    of a type that both use
stale_price            -     p5             -    of a type without nodes
team_overlap           prod  ns-ours        0-1  namespace of ours
unknown_capacity_type  prod  node-ours      0-1  node of ours
unassigned_namespace   prod  ns-ours        0-1  a namespace that has a team
unsupported_resource   prod  npu            -    the whole cluster
unsupported_resource   prod  npu            1-2  after the period
over_allocated         prod  node-ours      1-2  at another time"""


def test_team_report_has_only_warnings_of_its_nodes_and_namespaces(tmp_path: Path) -> None:
    fleet = Fleet()
    for node_id, team in ((1, "ours"), (2, "theirs")):
        fleet.node(node_id, f"node-{team}", "A100", 1, "on_demand", "4")
        fleet.pod(node_id, node_id, f"ns-{team}", "train", "Pod/train")
        fleet.cell(OCTOBER, node_id, [(node_id, team, 1, 1.0, 1.0)])
    for line in WARNINGS.strip().splitlines():
        code, cluster, subject, hours, message = line.split(None, 4)
        span = [OCTOBER + int(hour) * HOUR for hour in hours.split("-")] if hours != "-" else [None, None]
        fleet.rows["warnings"].append((code, cluster.strip("-") or None, subject, *span, message, None))
    with opened(fleet, tmp_path / "s") as connection:
        whole, narrowed = (
            ask(connection, period=hours_of(0, 1), teams=teams).coverage.warnings for teams in ((), ("ours",))
        )
    messages = {notice.message for notice in whole}
    assert len(whole) == 11 and not {"after the period", "at another time"} & messages
    assert "; ".join(notice.message for notice in narrowed) == (
        "pod of ours; of a type that both use; namespace of ours; node of ours; the whole cluster"
    )


def test_time_beyond_the_retention_of_the_server_is_lost(tmp_path: Path) -> None:
    fleet = sample(hours=4)
    load = fleet.rows["loads"][0]
    fleet.rows["loads"] = [(2, 1, "prometheus", "main", OCTOBER - 4 * HOUR, OCTOBER, 0, 0, load[-1]), load]
    view = ask(opened(fleet, tmp_path / "s"), period=hours_of(-4, 4))
    (notice,) = [notice for notice in view.coverage.warnings if notice.code == "not_collected"]
    assert notice.fix is None
    assert "lost" in notice.message


def test_gpu_time_is_summed_as_decimals() -> None:
    # sums of doubles over several threads differ in the last digits from run to run, and so would exported files
    questions = Path(gpucost.__file__).parent / "questions"
    for path in [*questions.glob("report/**/*.*"), *questions.glob("findings/**/*.*")]:
        if path.suffix in (".sql", ".py"):
            assert not re.search(r"sum\((?:\w+\.)?\w+_gpu_ms\b(?!::DECIMAL| for )", path.read_text()), path


def test_team_reports_in_one_pass_equal_separate_reports(con: Connection) -> None:
    con.execute(
        "CREATE OR REPLACE TEMP TABLE fx_rates AS SELECT 'USD' AS currency, 0 AS from_ms, 0 AS to_ms, 1.0 AS rate"
    )
    names = ("product", "research")
    query = Query(
        period=hours_of(0, 96), period_name="these days", now=NOW, top=1, with_series=True, share_unallocated="even", teams=names
    )  # fmt: skip
    each = build_each(con, Config(), query)
    assert each == {team: build(con, Config(), replace(query, teams=(team,))) for team in names}


@pytest.mark.parametrize("each_team", [False, True])
def test_other_workloads_are_added_up(
    con: Connection, monkeypatch: pytest.MonkeyPatch, each_team: bool
) -> None:
    query = Query(period=hours_of(0, 96), period_name="these days", now=NOW)
    names = tuple(str(row.keys["team"]) for row in ask(con, "team").rows if row.kind == "allocated")
    teams = build_each(con, Config(), replace(query, teams=names)) if each_team else {}
    whole = workload_tables(con, Config(), query, teams)
    monkeypatch.setattr("gpucost.questions.report.build.MOST_WORKLOADS", 1)
    shortened = workload_tables(con, Config(), query, teams)
    for team, table in shortened.items():
        at = [column.title for column in table.columns].index("Cost")
        listed = [line for line in whole[team].lines if not line.is_sum]
        costs = [line.cells[at] for line in whole[team].lines]
        if len(costs) - len(listed) == 1 and len(listed) == 1:
            assert table == whole[team]
            continue
        first, others, total = table.lines[:3]
        assert first == whole[team].lines[0] and others.is_sum and total.is_sum
        assert others.cells[0] == f"{costs.index(total.cells[at]) - 1} more"
        assert first.cells[at] + others.cells[at] == total.cells[at]  # type: ignore[operator]


def test_top_limits_consumers_but_not_rows(con: Connection) -> None:
    short, long = (ask(con, "cluster", "namespace", "workload", top=top) for top in (1, 10))
    assert len(table(short, "Top consumers").lines) == 1
    assert short.rows == long.rows
