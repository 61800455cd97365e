"""What a run leaves missing of the clusters that it asked for, as coverage has it: said at once, not first by a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gpucost.collect.result import CollectResult, Finding, MissingTime
from gpucost.collect.windows import intersect
from gpucost.model import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.store import runs
from gpucost.timeline import local_midnight

if TYPE_CHECKING:
    import duckdb

    from gpucost.config import PrometheusSource
    from gpucost.store.runs import Span


@dataclass(frozen=True, slots=True)
class _Gap:
    cluster: str
    from_ms: int
    to_ms: int
    kind: str
    families: tuple[str, ...]
    reason: str

    def within(self, start: int, end: int) -> MissingTime:
        period = Period(from_ms(max(self.from_ms, start)), from_ms(min(self.to_ms, end)))
        reason = f"{self.reason}; who stands at both ends held on" if self.kind == "bridged" else self.reason
        return MissingTime(self.cluster, period, reason, self.families)


def note_gaps(
    con: duckdb.DuckDBPyConnection, source: PrometheusSource, result: CollectResult, period: Period | None, tz: ZoneInfo
) -> None:
    """Enters into `result` what `coverage_gaps`, made anew, says of its clusters: gaps, and what closed days lack for good."""
    rows = con.execute(
        "SELECT cluster, from_ms, to_ms, kind, families, reason FROM coverage_gaps"
        " WHERE kind IN ('not_collected', 'bridged', 'partial') AND accepted_by IS NULL AND reason <> 'before its first sample'"
        " AND cluster IN (SELECT cluster FROM series WHERE source = $source) ORDER BY from_ms, cluster",
        {"source": source.source},
    ).fetchall()
    gaps = [_Gap(cluster, start, end, kind, tuple(families), reason) for cluster, start, end, kind, families, reason in rows]
    # What lies past the newest sample is late, not missing; what lies before the first was said.
    newest = (runs.newest_sample(con, source.source) or 0) + 1
    for gap in gaps:
        seen = intersect([(gap.from_ms, min(gap.to_ms, newest))], result.spans)
        if sum(end - start for start, end in seen) > runs.SHORT_SILENCE_MS:
            result.gaps.append(gap.within(seen[0][0], seen[-1][1]))
    result.findings += [Finding("warning", "gap", f"{source.source}: {gap}") for gap in result.gaps]
    closed = _closed(source, period, result.moment, tz)
    final = _final_hours(con, source, result.moment)
    for gap in gaps:
        lost = [] if gap.kind == "bridged" else intersect([(gap.from_ms, gap.to_ms)], [closed])
        if lost and intersect(lost, final):
            result.incomplete.append(gap.within(0, max(closed[1], gap.from_ms)))


def _closed(source: PrometheusSource, period: Period | None, now: datetime, tz: ZoneInfo) -> Span:
    """The local days that are over and were asked for whole."""
    midnight = _midnight(now, tz)
    if period is None:
        return to_ms(now) - (source.late_hours + 48) * MS_PER_HOUR, midnight
    first = _midnight(period.start + timedelta(days=1) - timedelta(milliseconds=1), tz)
    return first, max(first, min(midnight, _midnight(period.end, tz)))


def _final_hours(con: duckdb.DuckDBPyConnection, source: PrometheusSource, now: datetime) -> list[Span]:
    """Hours that will not be asked for again: answers an hour apart agree, or they lie too far back."""
    rows = con.execute(
        "SELECT hour FROM asked_hours WHERE source = $source AND (last_at - first_at >= INTERVAL 1 HOUR OR hour < $last)",
        {"source": source.source, "last": to_ms(now) // MS_PER_HOUR - source.late_hours},
    ).fetchall()
    return [(hour * MS_PER_HOUR, (hour + 1) * MS_PER_HOUR) for (hour,) in rows]


def _midnight(instant: datetime, tz: ZoneInfo) -> int:
    return to_ms(local_midnight(instant.astimezone(tz).date(), tz))
