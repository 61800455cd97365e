"""Time of which nobody expects metrics: clusters that were off as declared, and gaps that somebody signed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.collect.windows import subtract
from gpucost.config.coverage import hours_off, instant_ms

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.config.coverage import ClusterHours, CoverageSettings
    from gpucost.store.runs import Span


@dataclass(frozen=True, slots=True)
class Declared:
    """What `[[clusters]]` and `[coverage] accept` say, in the time zone of the settings."""

    clusters: list[ClusterHours]
    coverage: CoverageSettings
    timezone: ZoneInfo

    def missing(self, cluster: str | None, span: Span) -> list[Span]:
        """What of `span` should be there and is signed by nobody; None stands for every cluster."""
        off = [
            (instant_ms(gap.start, self.timezone), instant_ms(gap.end, self.timezone))
            for gap in self.coverage.accept
            if gap.cluster in (None, cluster)
        ]
        for hours in self.clusters:
            if hours.name == cluster:
                off += hours_off(hours, self.timezone, span)
        return subtract([span], off)
