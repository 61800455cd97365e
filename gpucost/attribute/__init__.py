"""Split every node-hour among its holders, with its activity and its cost."""

from collections.abc import Callable, Collection
from datetime import date, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from gpucost.catalog import load_components
from gpucost.engine import announce, run_stage, run_stages
from gpucost.errors import StoreError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, local_days, local_midnight, merge, to_ms
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store.sqlfiles import column, value

DAYS = "gpucost.attribute.days"
BASIS = "gpucost.attribute.basis"
# All cost is in time that was collected or billed.
COVERED = """SELECT min(from_ms), max(to_ms)
    FROM (SELECT from_ms, to_ms FROM collected UNION ALL SELECT from_ms, to_ms FROM unseen_time)"""
# The value below which a series' samples are idle, in its own unit.
IDLE_BELOW = """
    SELECT DISTINCT n.series_id, c.threshold_percent / n.scale AS idle_below
    FROM node_devices AS n CROSS JOIN settings AS c"""
# Count idle samples again if they were counted under another threshold; the samples themselves do not change.
_OTHER_THRESHOLDS = f"""
CREATE OR REPLACE TEMP TABLE other_thresholds AS
SELECT b.series_id, b.hour, d.idle_below
FROM blocks AS b
JOIN ({IDLE_BELOW}) AS d USING (series_id)
-- under any threshold, only zeros are idle in these
WHERE b.idle_threshold <> d.idle_below AND (b.value_sum > 0 OR least(b.idle_threshold, d.idle_below) = 0)"""  # noqa: S608 - a text of our own
_LOST_THRESHOLDS = """
SELECT DISTINCT hour FROM other_thresholds SEMI JOIN (FROM blocks WHERE vals IS NULL) USING (series_id, hour) ORDER BY hour"""
_IDLE_SAMPLES = """
UPDATE blocks SET idle_samples = len(list_filter(vals[:-2], lambda v: v < d.idle_below)), idle_threshold = d.idle_below,
    idle_ms = CASE WHEN idle_ms IS NOT NULL THEN list_sum(list_transform(range(1, samples),
        lambda i: CASE WHEN vals[i] < d.idle_below THEN offsets_ms[i + 1] - offsets_ms[i] ELSE 0 END)) END
FROM other_thresholds AS d
WHERE blocks.series_id = d.series_id AND blocks.hour = d.hour"""
# The stage that lists the samples that a span needs: missing ones are an error, others may be dropped.
_READINGS = "71_device_readings"
_LOST_READINGS = """
SELECT DISTINCT hour FROM device_readings JOIN blocks USING (series_id, hour) WHERE is_uneven AND vals IS NULL ORDER BY hour"""
_DROP_LISTS = """
UPDATE blocks SET vals = NULL
WHERE hour >= ($start + 3599999) // 3600000 AND hour < $end // 3600000 AND vals IS NOT NULL
    AND (series_id, hour) NOT IN (SELECT (series_id, hour) FROM device_readings WHERE is_uneven)
    -- the unit of a value may depend on them
    AND series_id NOT IN (SELECT series_id FROM node_devices WHERE scale IS DISTINCT FROM usual_scale)
    AND series_id NOT IN (SELECT series_id FROM profile_devices)
    AND series_id NOT IN (
        SELECT series_id FROM activity_series
        WHERE part = 'compared' AND cluster IN (SELECT cluster FROM node_devices WHERE scale IS DISTINCT FROM usual_scale))"""
# The table that basis/ makes, empty because no price is split.
_NO_BASIS_SPANS = """
CREATE OR REPLACE TEMP TABLE basis_spans (
    node_id UBIGINT NOT NULL, from_ms BIGINT NOT NULL, to_ms BIGINT NOT NULL,
    gpu_fraction DOUBLE NOT NULL, cpu_fraction DOUBLE NOT NULL)"""
# The attributed rows of days that begin in [$start, $end).
_CLEARED = [
    f"DELETE FROM {table} WHERE from_ms >= $start AND from_ms < $end"  # noqa: S608 - names of our own
    for table in (
        "attributed_days",
        "cost_runs",
        "node_runs",
        "activity_hours",
        "profile_hours",
        "cost_daily",
        "node_daily",
    )
]
# Tables of inventory that are not read here.
_DROP_LARGE = """
DROP TABLE IF EXISTS temp.state_intervals;
DROP TABLE IF EXISTS temp.named_series;
DROP TABLE IF EXISTS temp.device_series;
DROP TABLE IF EXISTS temp.allocated"""
_CHANGED = """
SELECT from_ms, to_ms
FROM day_fingerprints ANTI JOIN (FROM attributed_days WHERE is_sealed OR to_ms > $seal_until) USING (from_ms, to_ms, fingerprint)
ORDER BY ALL"""
_OTHER_INPUTS = "SELECT from_ms FROM attributed_days ANTI JOIN day_fingerprints USING (from_ms, to_ms, fingerprint) ORDER BY ALL"
_ATTRIBUTED = """
INSERT INTO attributed_days BY NAME
SELECT *, to_ms <= $seal_until AS is_sealed FROM day_fingerprints WHERE from_ms >= $start AND from_ms < $end"""
_LOST_CUTS = "SELECT DISTINCT hour FROM blocks WHERE hour IN (SELECT unnest($hours::BIGINT[])) AND vals IS NULL ORDER BY hour"
# Days are attributed together up to about this many (pod, hour) rows, which bounds memory.
_ROWS_AT_ONCE = 800_000
_EVER = 2**62


def stage(con: DuckDBPyConnection, tz: ZoneInfo, *, everything: bool, seal_until_ms: int = 0) -> None:
    """Attribute the local days whose inputs changed, or `everything`.

    Days that end by `seal_until_ms` are sealed: sample lists that their figures don't need are dropped.
    Raises StoreError with the days if a change needs dropped samples.

    Commits the caller's transaction after each span of days, and leaves a new one open: an interrupted run
    keeps its finished days, and the next run continues with the others.

    Expects the tables of inventory and price on this connection: nodes, allocations, collected,
    coverage_gaps, node_stops, node_prices, and the temporary tables on devices, requests, teams and facts.
    Days are local days of `tz`.
    """
    # Intermediate tables need no row order, and keeping it costs time and memory.
    con.execute("SET preserve_insertion_order = false")
    # Otherwise pages of the store fill most of the machine's memory. Beyond the limit, DuckDB spills next to
    # the store.
    con.execute("SET memory_limit = '900MB'")
    split_prices(con)
    recount_idle(con, tz)
    first, last = fingerprint(con, tz)
    run_stage(con, DAYS, "18_health_events")
    # Free memory for the days: these stages do not read the largest tables of inventory.
    con.execute(_DROP_LARGE)
    # time that neither metrics nor a bill cover any longer costs nothing
    for start, end in ((0, _EVER),) if everything else ((0, first), (last, _EVER)):
        _clear(con, start, end)
    if seal_until_ms:
        con.execute("INSERT INTO compactions VALUES (epoch_ms(now()), $1)", [seal_until_ms])
    sealed_ms = value(con, "SELECT coalesce(max(sealed_until_ms), 0) FROM compactions")
    changed = con.execute(_CHANGED, {"seal_until": seal_until_ms}).fetchall()
    gpus = value(con, "SELECT greatest(sum(gpu_count), 1) FROM nodes")
    at_once = int(_ROWS_AT_ONCE / (24 * gpus)) or 1
    spans = spans_of(changed, at_once, seal_until_ms)
    for number, (start, end) in enumerate(spans, 1):
        announce(f"attributing {len(changed):,} days: part {number:,} of {len(spans):,}")
        _clear(con, start, end)
        attribute_span(
            con, (start, end), partial(refuse_lost_readings, con, tz) if start < sealed_ms else None
        )
        if end <= seal_until_ms:
            con.execute(_DROP_LISTS, {"start": start, "end": end})
        con.execute(_ATTRIBUTED, {"start": start, "end": end, "seal_until": seal_until_ms})
        # Commit each span: replaced rows stay in memory until the transaction ends.
        con.commit()
        con.begin()
    run_stage(con, DAYS, "30_warnings")


def fingerprint(con: DuckDBPyConnection, tz: ZoneInfo) -> tuple[int, int]:
    """Make the temporary table day_fingerprints.

    Returns the first and last midnight of its days, as load_local_days does.
    """
    run_stage(con, DAYS, "15_unseen_time")
    run_stage(con, DAYS, "17_absences")
    around = load_local_days(con, tz, *con.execute(COVERED).fetchall()[0])
    run_stage(con, DAYS, "20_day_fingerprints")
    return around


def days_of_other_inputs(con: DuckDBPyConnection, tz: ZoneInfo) -> list[int]:
    """The attributed days whose fingerprints no longer match the store's data.

    Days are midnights in milliseconds. Expects the same tables as `stage`, and no change since.
    """
    split_prices(con)
    fingerprint(con, tz)
    return column(con, _OTHER_INPUTS)


def recount_idle(con: DuckDBPyConnection, tz: ZoneInfo) -> None:
    """Recount idle samples that were counted under another threshold.

    Raises StoreError if such samples are gone.
    """
    if not value(con, _OTHER_THRESHOLDS):
        return
    _refuse_lost(con, _LOST_THRESHOLDS, tz, "their idle threshold and activity scale cannot change")
    con.execute(_IDLE_SAMPLES)


def attribute_span(
    con: DuckDBPyConnection, span: tuple[int, int], at_readings: Callable[[], object] | None
) -> None:
    """Run the numbered stages over the days of [span).

    Calls `at_readings` once device_readings lists the needed samples.
    """
    con.execute("SET VARIABLE span_from_ms = $start", {"start": span[0]})
    con.execute("SET VARIABLE span_to_ms = $end", {"end": span[1]})
    run_stages(con, "gpucost.attribute", until=_READINGS)
    if at_readings:
        at_readings()
    run_stages(con, "gpucost.attribute", after=_READINGS)


def refuse_lost_readings(con: DuckDBPyConnection, tz: ZoneInfo) -> None:
    """Raise StoreError if sample lists that the span needs are gone."""
    _refuse_lost(con, _LOST_READINGS, tz, "the change cannot be attributed")


def _refuse_lost(
    con: DuckDBPyConnection, query: str, tz: ZoneInfo, reason: str, params: dict[str, list[int]] | None = None
) -> None:
    """Raise StoreError if `query` returns hours with missing samples."""
    hours = column(con, query, params)
    numbers = (from_ms(hour * MS_PER_HOUR).astimezone(tz).toordinal() for hour in hours)
    spans = merge((number, number + 1) for number in numbers)
    if spans:
        ends = ((date.fromordinal(start), date.fromordinal(end - 1)) for start, end in spans)
        days = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ends)
        raise StoreError(
            f"the samples of {days} are gone (store.raw_retention_days), so {reason}",
            "undo the change (a scale: [activity] device_scale or mig_scale), or restore a copy of the store with these samples",
        )


def _clear(con: DuckDBPyConnection, start: int, end: int) -> None:
    for statement in _CLEARED:
        con.execute(statement, {"start": start, "end": end})


def split_prices(con: DuckDBPyConnection, done_stages: Collection[str] = ()) -> None:
    """Make basis_spans: the split of each node's price over time; empty with the cost basis `node`.

    Stages in `done_stages` have run already.
    """
    if value(con, "SELECT getvariable('cost_basis')") == "node":
        con.execute(_NO_BASIS_SPANS)
    else:
        load_components(con)
        run_stages(con, BASIS, skip=done_stages)


def load_local_days(
    con: DuckDBPyConnection, tz: ZoneInfo, start: int | None, end: int | None
) -> tuple[int, int]:
    """Make the temporary table local_days: the days of `tz` that [start, end) touches.

    Times are in milliseconds; the table is empty if they are null. Returns the first and the last of the
    midnights, (0, 0) if there are none.
    """
    midnights = []
    if start is not None and end is not None:
        days = list(local_days(Period(from_ms(start), from_ms(end)), tz))
        midnights = [to_ms(local_midnight(day, tz)) for day in (*days, days[-1] + timedelta(days=1))]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE local_days AS SELECT unnest($froms::BIGINT[]) AS from_ms, unnest($tos::BIGINT[]) AS to_ms",
        {"froms": midnights[:-1], "tos": midnights[1:]},
    )
    return (midnights[0], midnights[-1]) if midnights else (0, 0)


def spans_of(days: list[tuple[int, int]], at_most: int, seal_until_ms: int) -> list[tuple[int, int]]:
    """Join adjoining days into spans of at most `at_most` days.

    No span mixes days to be sealed with others.
    """
    spans: list[tuple[int, int]] = []
    count = 0
    for start, end in days:
        if spans and spans[-1][1] == start != seal_until_ms and count < at_most:
            spans[-1] = (spans[-1][0], end)
            count += 1
        else:
            spans.append((start, end))
            count = 1
    return spans


# as last_load_id: attribution began and did not end, or a change other than a load touched its inputs
_UNFINISHED = -1


# Loads of work progress do not affect attribution.
_NEWEST_LOAD = "SELECT coalesce(max(load_id), 0) FROM loads WHERE kind <> 'progress'"


@frozen_dataclass
class InputDigests:
    """Digests of all inputs except collected data.

    `general` covers the inputs that no day's fingerprint shows.
    """

    all: str
    general: str


def is_current(con: DuckDBPyConnection, inputs: InputDigests, period: Period | None) -> bool:
    """Whether the result is made from `inputs` and all loads, and cut for `period`."""
    state = con.execute("SELECT inputs, last_load_id FROM attribution_state").fetchone()
    newest = value(con, _NEWEST_LOAD)
    return state == (inputs.all, newest) and not _missing_cuts(con, period)


def begin(con: DuckDBPyConnection, inputs: InputDigests, period: Period | None, tz: ZoneInfo) -> bool:
    """Note that the result is being made from `inputs`.

    Returns whether every day has to be attributed again. Raises StoreError if `period` begins or ends within
    an hour whose samples are gone.
    """
    cuts = _missing_cuts(con, period)
    # before a commit, after which every run would need these samples
    _refuse_lost(
        con,
        _LOST_CUTS,
        tz,
        "periods there must begin and end on the hour",
        {"hours": [at // MS_PER_HOUR for at in cuts]},
    )
    con.execute("INSERT INTO cuts SELECT unnest($1::BIGINT[])", [cuts])
    stored = con.execute("SELECT own_inputs FROM attribution_state").fetchone()
    con.execute("DELETE FROM attribution_state")
    con.execute(
        "INSERT INTO attribution_state VALUES ($1, $2, $3)", [inputs.all, inputs.general, _UNFINISHED]
    )
    return stored != (inputs.general,)


def finish(con: DuckDBPyConnection) -> None:
    """Note that the result holds all loads."""
    con.execute(f"UPDATE attribution_state SET last_load_id = ({_NEWEST_LOAD})")  # noqa: S608 - a text of our own


def _missing_cuts(con: DuckDBPyConnection, period: Period | None) -> list[int]:
    """The ends of a period that need a cut and have none."""
    ends = [at for at in (period.start_ms, period.end_ms) if at % MS_PER_HOUR] if period else []
    return column(con, "SELECT unnest($1::BIGINT[]) EXCEPT SELECT at_ms FROM cuts", [ends]) if ends else []
