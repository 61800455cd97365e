"""activity_idle.sql: the intervals in which all devices of a pod are idle, from hour blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import duckdb
import pytest

from gpucost.store import sqlfiles
from tests.text_tables import columns

_HOUR = 3_600
_TABLES = """
CREATE TABLE activity_devices (
    allocation_id UBIGINT, series_id INTEGER, device VARCHAR, kind VARCHAR, held_from_ms BIGINT, held_to_ms BIGINT);
CREATE TABLE allocations AS
SELECT 1::UBIGINT AS allocation_id, 'c' AS cluster, 'u' AS uid, 'nvidia_com_gpu' AS resource, 1 AS units, 1 AS gpus;
CREATE TABLE blocks (
    series_id INTEGER, hour INTEGER, samples INTEGER, idle_samples INTEGER, idle_threshold DOUBLE, first_offset_ms INTEGER,
    step_ms INTEGER, offsets_ms INTEGER[], gap_ms INTEGER, last_offset_ms INTEGER,
    last_value DOUBLE, vals DOUBLE[], idle_ms INTEGER)"""

# Minutes of a hold of six hours in which devices are idle, minutes without samples, and the intervals of an hour or more.
CASES = columns("""
    three-hours           40-130                 ; ; 40-130
    an-hour-in-two-hours  29-89                  ; ; 29-89
    under-an-hour         29-88                  ; ;
    a-third-of-each-hour  0-20 60-80 120-140     ; ;
    until-the-end         290-360                ; ; 290-360
    pause                 0-180 ; 90-95          ; 0-91 95-180
    two-devices           0-180 | 60-240         ; ; 60-180
    one-busy-device       0-180 | 500-501        ; ;
""")


def spans(text: str) -> list[tuple[int, int]]:
    return [(int(begin), int(end)) for begin, _, end in (word.partition("-") for word in text.split())]


@pytest.mark.parametrize("jitter_ms", [0, 300])
@pytest.mark.parametrize("case", CASES)
def test_idle_intervals_of_an_hour_are_found_across_hours(case: str, jitter_ms: int) -> None:
    idle, pauses, expected = CASES[case].split(";")
    with duckdb.connect() as con:
        con.execute(_TABLES)
        for number, device in enumerate(idle.split("|")):
            _load(con, number, spans(device), spans(pauses), jitter_ms)
        rows = sqlfiles.run(con, "activity_idle", {"at_least_ms": _HOUR * 1000}).fetchall()
    found = [(round(begin / 60_000), round(end / 60_000)) for _, _, begin, end in rows]
    assert found == spans(expected)


@pytest.mark.parametrize("jitter_ms", [0, 300])
def test_idle_interval_continues_in_the_next_series_of_a_device(jitter_ms: int) -> None:
    with duckdb.connect() as con:
        con.execute(_TABLES)
        _load(con, 0, [(45, 105)], [(81, 400)], jitter_ms)
        _load(con, 1, [(45, 105)], [(-1, 82)], jitter_ms, device=0)
        rows = sqlfiles.run(con, "activity_idle", {"at_least_ms": _HOUR * 1000}).fetchall()
    assert [(begin // 60_000, end // 60_000) for _, _, begin, end in rows] == [(45, 105)]


@pytest.mark.parametrize(
    ("idle_ms", "found"), [(_HOUR * 100, 0), (_HOUR * 1000, 1), (None, 1)], ids=["short", "long", "no-sum"]
)
def test_stored_idle_time_of_an_uneven_hour_decides_whether_its_list_is_read(
    idle_ms: int | None, found: int
) -> None:
    with duckdb.connect() as con:
        con.execute(_TABLES)
        _load(con, 0, [(0, 360)], (), 300)
        con.execute("UPDATE blocks SET idle_ms = $1", [idle_ms])
        rows = sqlfiles.run(con, "activity_idle", {"at_least_ms": _HOUR * 1000}).fetchall()
    assert len(rows) == found


def _load(
    con: duckdb.DuckDBPyConnection,
    series: int,
    idle: Sequence[tuple[int, int]],
    pauses: Sequence[tuple[int, int]],
    jitter_ms: int,
    device: int | None = None,
) -> None:
    """Load samples of each minute; with jitter, every other one is late. By default each series has a device."""
    con.execute(
        "INSERT INTO activity_devices VALUES (1, $1, $2::VARCHAR, 'activity', 0, $3)",
        [series, series if device is None else device, 6 * _HOUR * 1000],
    )
    minutes = [at for at in range(360) if not any(begin < at < end for begin, end in pauses)]
    for hour, several in groupby(minutes, lambda minute: minute // 60):
        there = list(several)
        offsets = [at % 60 * 60_000 + at % 2 * jitter_ms for at in there]
        values = [0.0 if any(begin <= at < end for begin, end in idle) else 50.0 for at in there]
        gaps = sorted(later - at for at, later in pairwise(offsets))
        is_even = len(set(gaps)) == 1
        lasting = [
            later - at for (at, later), value in zip(pairwise(offsets), values, strict=False) if not value
        ]
        con.execute(
            "INSERT INTO blocks VALUES ($1, $2, $3, $4, 5, $5, $6, $7, $8, $9, $10, $11, $12)",
            [
                series,
                hour,
                len(there),
                values[:-1].count(0.0),
                offsets[0],
                gaps[0] if is_even else None,
                None if is_even else offsets,
                gaps[(len(gaps) - 1) // 2],
                offsets[-1],
                values[-1],
                values,
                None if is_even else sum(lasting),
            ],
        )
