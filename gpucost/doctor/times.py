"""When a server's data ends, and what its clock says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucost.collect.needs import ACTIVITY_LOST, KSM
from gpucost.config import Config
from gpucost.doctor.check import Check, Status
from gpucost.errors import SourceError
from gpucost.model import iso

# Asks the server for a path under /api/v1 and returns the answer's data. Raises SourceError.
Ask = Callable[[str, Mapping[str, str]], Any]

# Prometheus looks back five minutes for a sample; a restart is no end.
FRESH = timedelta(minutes=10)
_SKEW = timedelta(minutes=2)
_SPANS = (
    (timedelta(days=1), timedelta(minutes=5)),
    (timedelta(days=30), timedelta(hours=1)),
    (timedelta(days=360), timedelta(hours=6)),
)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Ends:
    """About when the newest samples lie, by cluster; empty where there are none, or the server does not tell."""

    now: datetime
    states: Mapping[str, datetime] = field(default_factory=dict)
    activity: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def last(self) -> datetime:
        """When all data ends; now where it goes on."""
        newest = max([*self.states.values(), *self.activity.values()], default=self.now)
        return newest if newest < self.now - FRESH else self.now

    def looked_at(self, ends: Mapping[str, datetime]) -> datetime:
        """The moment to look at what ends so: when it was last there."""
        end = max(ends.values(), default=self.last)
        return end if end < self.last - FRESH else self.last


def ends(ask: Ask, config: Config, label: str, now: datetime) -> Ends:
    """Looks for the newest samples of kube-state-metrics and of dcgm-exporter; `label` names a series' cluster."""
    activity = config.activity
    return Ends(
        now,
        _newest(ask, ("kube_node_info", "kube_pod_info"), label, now),
        _newest(ask, (activity.device_metric, activity.mig_metric), label, now),
    )


def check_times(area: str, data: Ends, config: Config) -> Iterator[Check]:
    """At which time the server was looked at, and who fell silent before: one finding for each that did."""
    if data.last < data.now:
        age = (data.now - data.last) / timedelta(days=1)
        status = Status.fail if age > 1 else Status.warn
        ago = f"{age:.0f} days" if age > 2 else f"{age * 24:.0f} hours"
        text = f"data ends at {iso(data.last)} ({ago} ago); the day before that was checked"
        yield Check(
            area, "time", status, text, "see its page of targets: kube-state-metrics and dcgm-exporter are scraped no more"
        )
    else:
        known = data.states or data.activity
        yield Check(
            area, "time", Status.ok, f"looked at {iso(data.last)} and the day before" + (", data until then" if known else "")
        )
    for subject, mine, other, lost in (
        (KSM, data.states, data.activity, "no time since then is collected"),
        (config.activity.device_metric, data.activity, data.states, f"{ACTIVITY_LOST} since then"),
    ):
        if mine and other and max(mine.values()) < data.last - FRESH:
            text = f"silent since {iso(max(mine.values()))}, while others go on: {lost}"
            yield Check(area, subject, Status.fail, text, "see on its page of targets why it is scraped no more")
    declared = {cluster.name for cluster in config.clusters}
    newest = max(data.states.values(), default=data.last)
    late = {name: end for name, end in data.states.items() if end < newest - FRESH and name not in declared}
    if late:
        text = "; ".join(f"{name or 'no cluster label'}: nothing since {iso(end)}" for name, end in sorted(late.items()))
        fix = "see its page of targets; a cluster that was taken down is declared: [[clusters]] name, until"
        yield Check(area, "clusters", Status.warn, text, fix)


def check_clock(area: str, answer: Any) -> Iterator[Check]:
    """`answer` is that to a query without a time: the server's clock says when it was asked."""
    try:
        skew = timedelta(seconds=float(answer["result"][0]["value"][0]) - time.time())
    except (LookupError, TypeError, ValueError, OverflowError):
        return
    if abs(skew) > _SKEW:
        where = "ahead of" if skew > timedelta() else "behind"
        minutes = abs(skew) / _MINUTE
        text = f"its clock is {minutes:.0f} minutes {where} this machine's: hours are collected too late, or asked for twice"
        yield Check(area, "clock", Status.warn, text, "let both follow a time server: chronyc tracking shows by how much they do")


def by_cluster(ask: Ask, query: str, at: datetime, label: str) -> dict[str, float]:
    """What a query by `label` gives at a moment; empty where the server does not tell."""
    try:
        rows = ask("query", {"query": query, "time": f"{at.timestamp():.0f}"})["result"]
        return {row["metric"].get(label, ""): float(row["value"][1]) for row in rows}
    except (SourceError, LookupError, TypeError, ValueError, AttributeError):
        return {}


def _newest(ask: Ask, metrics: tuple[str, ...], label: str, now: datetime) -> dict[str, datetime]:
    for span, step in _SPANS:
        found = _last_steps(ask, metrics, label, (now - span, now, step))
        if found:
            break
    else:
        return {}
    last = max(found.values())
    if last < now - FRESH:  # to the minute
        found |= _last_steps(ask, metrics, label, (last, min(last + step, now), _MINUTE))
    return found


def _last_steps(
    ask: Ask, metrics: tuple[str, ...], label: str, span: tuple[datetime, datetime, timedelta]
) -> dict[str, datetime]:
    start, end, step = span
    params = {
        "query": " or ".join(f"count by ({label}) ({metric})" for metric in dict.fromkeys(metrics)),
        "start": f"{start.timestamp():.0f}",
        "end": f"{end.timestamp():.0f}",
        "step": f"{step.total_seconds():.0f}",
    }
    try:
        rows = ask("query_range", params)["result"]
        return {row["metric"].get(label, ""): datetime.fromtimestamp(float(row["values"][-1][0]), UTC) for row in rows}
    except (SourceError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return {}
