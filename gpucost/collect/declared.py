"""Time of which nobody expects metrics: clusters that were off as declared, and gaps that somebody signed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from gpucost.collect.windows import subtract
from gpucost.model import from_ms, to_ms

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.config.coverage import ClusterHours, CoverageSettings, Moment
    from gpucost.store.runs import Span

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Declared:
    """What `[[clusters]]` and `[coverage] accept` say, in the time zone of the settings."""

    clusters: list[ClusterHours]
    coverage: CoverageSettings
    timezone: ZoneInfo

    def missing(self, cluster: str | None, span: Span) -> list[Span]:
        """What of `span` should be there and is signed by nobody; None stands for every cluster."""
        left = [span]
        for gap in self.coverage.accept:
            if gap.cluster in (None, cluster):
                left = subtract(left, [(self._ms(gap.start), self._ms(gap.end))])
        for hours in self.clusters:
            if hours.name == cluster:
                left = subtract(left, self._off(hours, span))
        return left

    def _off(self, hours: ClusterHours, span: Span) -> list[Span]:
        off: list[Span] = []
        if hours.start is not None:
            off.append((0, self._ms(hours.start)))
        if hours.until is not None:
            off.append((self._ms(hours.until), span[1]))
        if hours.hours:
            off += subtract([span], self._on(hours, span))
        return off

    def _on(self, hours: ClusterHours, span: Span) -> list[Span]:
        """The declared hours around `span`: one that begins the evening before may reach into it."""
        on: list[Span] = []
        day = from_ms(span[0]).astimezone(self.timezone).date() - _DAY
        while self._ms(day) < span[1]:
            for weekdays, start, end in hours.spans():
                if day.weekday() in weekdays:
                    last = day if start < end else day + _DAY
                    on.append((self._local(day, start), self._local(last, end)))
            day += _DAY
        return on

    def _ms(self, moment: Moment) -> int:
        if not isinstance(moment, datetime):
            return self._local(moment, time(0))
        return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=self.timezone))

    def _local(self, day: date, at: time) -> int:
        return to_ms(datetime.combine(day, at, tzinfo=self.timezone).astimezone(UTC))
