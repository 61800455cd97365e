"""Devices: the measurements of exporters' series, the pods they name, and the time for which each sample is valid."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from tests.oracle.exact.states import (
    DEVICE,
    HOUR,
    MIG,
    SCALE,
    USUAL_INTERVAL,
    ZERO,
    Samples,
    Target,
    hourly_gaps,
    lower_median,
)

HOSTS = ("Hostname", "hostname", "node", "kubernetes_node", "node_name")
NODE_LABELS = ("node", "kubernetes_node", "node_name", "exported_node")


@dataclass(frozen=True)
class DeviceSeries:
    """One activity series."""

    labels: dict[str, str]
    cluster: str
    times: list[int]
    values: list[float]
    intervals: dict[int, int]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def uuid(self) -> str:
        return self.labels.get("UUID") or self.labels["uuid"]

    @property
    def instance(self) -> str:
        return self.labels.get("GPU_I_ID", "")

    @property
    def profile(self) -> str | None:
        return self.labels.get("GPU_I_PROFILE") or None

    @property
    def host(self) -> str:
        return _host(self.labels)

    @property
    def node_label(self) -> str:
        return next((self.labels[label] for label in NODE_LABELS if label in self.labels), "")

    @property
    def namespace(self) -> str | None:
        return self._named("exported_namespace", "pod_namespace", "namespace")

    @property
    def pod(self) -> str | None:
        return self._named("exported_pod", "pod_name", "pod")

    @property
    def by_claim(self) -> bool:
        return "dra_claim_name" in self.labels

    @property
    def first(self) -> int:
        return self.times[0]

    @property
    def last(self) -> int:
        return self.times[-1]

    @property
    def end(self) -> int:
        return self.last + self.intervals[self.last // HOUR]

    def samples_in(self, since: int, until: int) -> int:
        """Return the number of samples in [since, until)."""
        return bisect.bisect_left(self.times, until) - bisect.bisect_left(self.times, since)

    def _named(self, *labels: str) -> str | None:
        return next((self.labels[label] or None for label in labels if label in self.labels), None)


def device_series(everything: Iterable[Samples]) -> list[DeviceSeries]:
    """Return the activity series: one metric for whole devices, the other for MIG instances."""
    activity = []
    for samples in everything:
        labels = samples.labels
        if labels["__name__"] == (MIG if labels.get("GPU_I_ID") else DEVICE) and (
            labels.get("UUID") or labels.get("uuid")
        ):
            activity.append(samples)
    scraped = defaultdict(lambda: defaultdict(list))
    for samples in activity:
        hourly = hourly_gaps(samples)
        for hour, gaps in hourly.items():
            scraped[_target(samples)][hour].append((-len(gaps), lower_median(gaps) or USUAL_INTERVAL))
    intervals = {target: dict(_intervals(hours)) for target, hours in scraped.items()}
    found = []
    for samples in activity:
        own = intervals.get(_target(samples), {})
        hours = {}
        for hour in sorted({time // HOUR for time in samples.times}):
            others = [
                found[hour]
                for target, found in intervals.items()
                if target[:2] == samples.target[:2] and hour in found
            ]
            few = min((gap for _, gap in scraped[_target(samples)][hour]), default=None)
            hours[hour] = own.get(hour) or lower_median(others) or few or USUAL_INTERVAL
        found.append(DeviceSeries(samples.labels, samples.cluster, samples.times, samples.values, hours))
    return found


def _target(samples: Samples) -> Target:
    """Return the target scraped as one; an aggregator may give all exporters the same instance."""
    return *samples.target[:2], f"{samples.target[2]} {_host(samples.labels)}"


def _intervals(hours: dict[int, list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    """Yield a target's scrape interval by hour, from (minus the number of gaps, their median) of its series in each hour.

    All series of a target are scraped together: the one with the most samples counts, since others lost implausible samples.
    The longest interval of an hour and its neighbors counts: the hour in which scraping changed has samples of both intervals.
    """
    medians = {hour: min(series)[1] for hour, series in hours.items() if min(series)[0] <= -2}
    for hour in {h + near for h in medians for near in (-1, 0, 1)}:
        yield hour, max(medians[h] for h in (hour - 1, hour, hour + 1) if h in medians)


def _host(labels: dict[str, str]) -> str:
    named = next((labels[label] for label in HOSTS if label in labels), None)
    address, _, port = labels.get("instance", "").rpartition(":")
    return named if named is not None else address if port.isdigit() else labels.get("instance", "")


class Speech:
    """The validity and values of one device's samples, as cumulative sums of time up to any moment."""

    def __init__(self, series: list[DeviceSeries], threshold: Fraction) -> None:
        scale = SCALE[series[0].labels["__name__"]]
        values = {}
        intervals = {}
        for one in series:
            for time, value in zip(one.times, one.values, strict=True):
                values[time] = max(value, values.get(time, value))
            for hour, interval in one.intervals.items():
                intervals[hour] = min(interval, intervals.get(hour, interval))
        self.times = sorted(values)
        self.spoken: list[int] = []
        self.idle: list[bool] = []
        self.percent: list[Fraction] = []
        self.sums: list[tuple[int, int, Fraction]] = []
        idle_ms = measured_ms = 0
        activity = ZERO
        percents = {value: Fraction(str(value)) * scale for value in set(values.values())}
        idles = {value: percent < threshold for value, percent in percents.items()}
        for time, following in zip(self.times, [*self.times[1:], None], strict=True):
            interval = intervals[time // HOUR]
            speaks = (
                following - time
                if following is not None and 2 * (following - time) <= 5 * interval
                else interval
            )
            value = values[time]
            self.sums.append((idle_ms, measured_ms, activity))
            self.spoken.append(speaks)
            self.idle.append(idles[value])
            self.percent.append(percents[value])
            idle_ms += speaks if idles[value] else 0
            measured_ms += speaks
            activity += percents[value] * speaks

    def between(self, since: int, until: int) -> tuple[int, int, Fraction]:
        """Return idle and measured milliseconds, and percent x milliseconds, in [since, until)."""
        before, after = self._until(since), self._until(until)
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def _until(self, moment: int) -> tuple[int, int, Fraction]:
        i = bisect.bisect_right(self.times, moment) - 1
        if i < 0:
            return 0, 0, ZERO
        idle_ms, measured_ms, activity = self.sums[i]
        part = min(moment - self.times[i], self.spoken[i])
        return idle_ms + (part if self.idle[i] else 0), measured_ms + part, activity + self.percent[i] * part
