"""The store's history, in order: loads, seals of closed months, and upkeep."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal

from gpucost.engine import dicts
from gpucost.records import DuckDBPyConnection, frozen_dataclass


@frozen_dataclass
class SealRecord:
    """The seal of a month's bundle in the store: see the table seals."""

    month: str
    state: str
    charge: Decimal
    currency: str
    figures: str
    digest: str
    sharing: str | None
    reasons: Sequence[str]


_SEAL = """
INSERT INTO seals
SELECT $month, $sealed_at, $state, $charge, $currency, $figures, $digest, $sharing, $reasons"""


def add_seal(con: DuckDBPyConnection, seal: SealRecord) -> None:
    """Record the seal of a bundle, unless its month already has the same one."""
    if seal.digest not in dict(seals(con, seal.month)):
        con.execute(
            _SEAL,
            asdict(seal)
            | {"sealed_at": datetime.now(UTC).replace(tzinfo=None), "reasons": list(seal.reasons)},
        )


def seals(con: DuckDBPyConnection, month: str) -> list[tuple[str, datetime]]:
    """Digests and times of the seals of a month's bundles, oldest first."""
    return con.execute(
        "SELECT digest, sealed_at FROM seals WHERE month = $1 ORDER BY sealed_at, rowid", [month]
    ).fetchall()


@frozen_dataclass
class LogEntry:
    """One event: `what` is 'load', 'seal', 'restatement', 'rewrite', 'drop' or 'schema'."""

    at: datetime
    what: str
    subject: str
    detail: str


_LOG = """
SELECT date_trunc('second', done_at)::TIMESTAMPTZ AS "at", what, subject, detail
FROM (
    SELECT loaded_at AS done_at, 'load' AS what, concat_ws(' ', kind, source) AS subject,
        format('{} to {}: {:,} rows{}', strftime(make_timestamp(from_ms * 1000), '%Y-%m-%dT%H:%MZ'),
            strftime(make_timestamp(to_ms * 1000), '%Y-%m-%dT%H:%MZ'), rows,
            CASE WHEN dropped > 0 THEN format(', {:,} left out', dropped) ELSE '' END) AS detail,
        1 AS place, load_id AS number
    FROM loads
    UNION ALL
    SELECT sealed_at, CASE WHEN lag(figures) OVER months IS DISTINCT FROM figures AND lag(figures) OVER months IS NOT NULL
            THEN 'restatement' ELSE 'seal' END, month,
        concat(format('{}: {:,.2f} {}', state, charge::DOUBLE, currency), ', unallocated shared ' || sharing,
            CASE WHEN lag(figures) OVER months <> figures
                THEN format(', {:,.2f} before', (lag(charge) OVER months)::DOUBLE) ELSE '' END,
            CASE WHEN len(reasons) > 0 THEN concat('; ', array_to_string(reasons, '; ')) ELSE '' END),
        2, rowid
    FROM seals WINDOW months AS (PARTITION BY month, sharing ORDER BY sealed_at, rowid)
    UNION ALL
    SELECT make_timestamp(at_ms * 1000), CASE WHEN sealed_until_ms IS NULL THEN 'rewrite' ELSE 'drop' END, 'store',
        CASE WHEN sealed_until_ms IS NULL THEN 'rewritten'
            ELSE format('samples before {} that no figure needs',
                strftime(make_timestamp(sealed_until_ms * 1000), '%Y-%m-%d')) END,
        3, rowid
    FROM compactions
    UNION ALL
    SELECT applied_at, 'schema', 'store', name, 0, version FROM schema_version
)
ORDER BY done_at, place, number"""


def entries(con: DuckDBPyConnection) -> list[LogEntry]:
    """All events, oldest first."""
    return [LogEntry(**row) for row in dicts(con.execute(_LOG))]
