"""Who held which part of every node-hour, how busy it was, and what it cost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gpucost.catalog import load_components
from gpucost.engine import run_stage, run_stages
from gpucost.periods import MS_PER_HOUR, Period, from_ms, local_days, local_midnight, to_ms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAYS = "gpucost.attribute.days"
_BASIS = "gpucost.attribute.basis"
# Stages that charge cores and memory: they have nothing to do where no price is split.
_HOST_STAGES = ("23_over_requested", "24_billed_requests", "53_host_shares", "54_host_costs")
# What costs anything lies in time that was collected, or that a bill tells of.
_COVERED = """SELECT min(from_ms), max(to_ms)
    FROM (SELECT from_ms, to_ms FROM collected UNION ALL SELECT from_ms, to_ms FROM unseen_time)"""
# Days are attributed together up to about this many (pod, hour) rows: memory stays flat as the store grows.
_ROWS_AT_ONCE = 1_600_000


def stage(con: DuckDBPyConnection, tz: ZoneInfo, *, everything: bool) -> None:
    """Attribute the local days whose inputs changed, or `everything`.

    Commits the caller's transaction after each stretch of days, and leaves a new one open: a run that is ended half way
    has done whole days, and the next goes on with the others.

    Expects what inventory and price left behind on this connection: nodes, allocations, collected, coverage_gaps, node_stops,
    node_prices, and the temporary tables on devices, requests, teams and facts. Days are those of `tz`, which bills are cut by.
    """
    # The order of rows in intermediate tables means nothing, and keeping it costs time and memory.
    con.execute("SET preserve_insertion_order = false")
    # Otherwise pages of the store stay cached up to most of the machine's memory; beyond it, DuckDB spills beside the store.
    con.execute("SET memory_limit = '900MB'")
    if everything:
        con.execute(
            "TRUNCATE attributed_days; TRUNCATE cost_runs; TRUNCATE node_runs; TRUNCATE activity_hours; "
            "TRUNCATE cost_daily; TRUNCATE node_daily"
        )
    is_split = _split_prices(con)
    run_stage(con, _DAYS, "10_idle_threshold")
    run_stage(con, _DAYS, "15_unseen_time")
    run_stage(con, _DAYS, "17_absences")
    load_local_days(con, tz, *con.execute(_COVERED).fetchall()[0])
    run_stage(con, _DAYS, "20_day_fingerprints")
    run_stage(con, _DAYS, "25_uncovered_days")
    changed = con.execute(
        "SELECT from_ms, to_ms FROM day_fingerprints ANTI JOIN attributed_days USING (from_ms, to_ms, fingerprint) ORDER BY ALL"
    ).fetchall()
    for start, end in _spans(changed, _days_at_once(con)):
        con.execute("SET VARIABLE span_from_ms = $start", {"start": start})
        con.execute("SET VARIABLE span_to_ms = $end", {"end": end})
        run_stages(con, "gpucost.attribute", skip=() if is_split else _HOST_STAGES)
        # Committed span by span: what a transaction replaces stays in memory until it ends.
        con.commit()
        con.begin()
    for name in (
        "30_over_allocated_warnings",
        "40_unproven_end_warnings",
        "50_off_but_billed_warnings",
        "60_billed_unseen_warnings",
        "70_stopped_node_warnings",
    ):
        run_stage(con, _DAYS, name)


def _split_prices(con: DuckDBPyConnection) -> bool:
    """Make basis_spans: how the price of each node is split, and when; returns whether any is."""
    run_stage(con, _BASIS, "05_basis_spans")
    if con.execute("SELECT getvariable('cost_basis')").fetchall()[0][0] == "node":
        return False
    load_components(con)
    run_stages(con, _BASIS, skip=("05_basis_spans",))
    return bool(con.execute("SELECT count(*) FROM basis_spans").fetchall()[0][0])


def load_local_days(con: DuckDBPyConnection, tz: ZoneInfo, start: int | None, end: int | None) -> None:
    """Make the temporary table local_days: the days of `tz` that [start, end) touches, in milliseconds; none where null."""
    midnights: list[int] = []
    if start is not None and end is not None:
        days = list(local_days(Period(from_ms(start), from_ms(end)), tz))
        midnights = [to_ms(local_midnight(day, tz)) for day in (*days, days[-1] + timedelta(days=1))]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE local_days AS SELECT unnest($froms::BIGINT[]) AS from_ms, unnest($tos::BIGINT[]) AS to_ms",
        {"froms": midnights[:-1], "tos": midnights[1:]},
    )


def _days_at_once(con: DuckDBPyConnection) -> int:
    gpus = con.execute("SELECT coalesce(sum(gpu_count), 0) FROM nodes").fetchall()[0][0]
    return max(1, int(_ROWS_AT_ONCE / (24 * max(gpus, 1))))


def _spans(days: list[tuple[int, int]], at_most: int) -> list[tuple[int, int]]:
    """Adjoining days as one span, up to `at_most` days long."""
    spans: list[tuple[int, int]] = []
    count = 0
    for start, end in days:
        if spans and spans[-1][1] == start and count < at_most:
            spans[-1] = (spans[-1][0], end)
            count += 1
        else:
            spans.append((start, end))
            count = 1
    return spans


_UNFINISHED = -1  # as last_load_id: attribution began and did not end, or something else than a load changed its inputs


def is_current(con: DuckDBPyConnection, inputs: str, period: Period | None) -> bool:
    """Whether the result was made from `inputs` and all loads there are, and its cells are cut at the ends of `period`."""
    state = con.execute("SELECT inputs, last_load_id FROM attribution_state").fetchone()
    newest = con.execute("SELECT coalesce(max(load_id), 0) FROM loads").fetchall()[0][0]
    missing = con.execute("SELECT unnest($cuts::BIGINT[]) EXCEPT SELECT at_ms FROM cuts", {"cuts": _cuts(period)}).fetchall()
    return state == (inputs, newest) and not missing


def begin(con: DuckDBPyConnection, inputs: str, period: Period | None) -> bool:
    """Note that the result is being made from `inputs`; returns whether it was made from others before, or not at all."""
    con.execute("INSERT INTO cuts SELECT unnest($cuts::BIGINT[]) EXCEPT SELECT at_ms FROM cuts", {"cuts": _cuts(period)})
    known = con.execute("SELECT inputs FROM attribution_state").fetchone()
    con.execute("DELETE FROM attribution_state")
    con.execute("INSERT INTO attribution_state VALUES ($inputs, $load)", {"inputs": inputs, "load": _UNFINISHED})
    return known != (inputs,)


def finish(con: DuckDBPyConnection) -> None:
    """Note that the result holds all loads."""
    con.execute("UPDATE attribution_state SET last_load_id = (SELECT coalesce(max(load_id), 0) FROM loads)")


def _cuts(period: Period | None) -> list[int]:
    """The ends of a period at which cells are not cut anyway."""
    return [at for at in (period.start_ms, period.end_ms) if at % MS_PER_HOUR] if period else []
