"""Devices: what exporters' series measure, whom they name, and from when to when each sample speaks."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tests.oracle.exact.states import DEVICE, HOUR, MIG, SCALE, USUAL_INTERVAL, Samples, hourly_gaps, lower_median

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
        named = next((self.labels[label] for label in HOSTS if label in self.labels), None)
        instance = self.labels.get("instance", "")
        return named if named is not None else instance.rpartition(":")[0] if instance.rpartition(":")[2].isdigit() else instance

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
        """How often it spoke in [since, until)."""
        return bisect.bisect_left(self.times, until) - bisect.bisect_left(self.times, since)

    def _named(self, *labels: str) -> str | None:
        return next((self.labels[label] or None for label in labels if label in self.labels), None)


def device_series(everything: Iterable[Samples]) -> list[DeviceSeries]:
    """The series of activity: of whole devices by one metric, of MIG instances by the other."""
    told = []
    for samples in everything:
        labels = samples.labels
        if labels["__name__"] == (MIG if labels.get("GPU_I_ID") else DEVICE) and (labels.get("UUID") or labels.get("uuid")):
            told.append(samples)
    own = [{hour: lower_median(gaps) or 0 for hour, gaps in hourly_gaps(s).items()} for s in told]
    usual = [lower_median(list(gaps.values())) if len(s.times) >= 3 else None for s, gaps in zip(told, own, strict=True)]
    jobs: dict[tuple[str, str], list[int]] = defaultdict(list)
    targets: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for samples, gap in zip(told, usual, strict=True):
        if gap:
            jobs[samples.target[:2]].append(gap)
            targets[samples.target].append(gap)
    found = []
    for samples, gap, gaps in zip(told, usual, own, strict=True):
        if gap:
            interval = min(gap, lower_median(targets[samples.target]) or gap)
        else:
            interval = lower_median(jobs[samples.target[:2]]) or lower_median(list(gaps.values())) or USUAL_INTERVAL
        hours = {time // HOUR: interval for time in samples.times}
        found.append(DeviceSeries(samples.labels, samples.cluster, samples.times, samples.values, hours))
    return found


class Speech:
    """When the samples of one device speak, and what they say: sums of time up to any moment."""

    def __init__(self, series: list[DeviceSeries], threshold: Fraction) -> None:
        scale = SCALE[series[0].labels["__name__"]]
        values: dict[int, float] = {}
        intervals: dict[int, int] = {}
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
        idle_ms, measured_ms, activity = 0, 0, Fraction(0)
        percents = {value: Fraction(str(value)) * scale for value in set(values.values())}
        for time, following in zip(self.times, [*self.times[1:], None], strict=True):
            interval = intervals[time // HOUR]
            speaks = following - time if following is not None and 2 * (following - time) <= 5 * interval else interval
            percent = percents[values[time]]
            self.sums.append((idle_ms, measured_ms, activity))
            self.spoken.append(speaks)
            self.idle.append(percent < threshold)
            self.percent.append(percent)
            idle_ms += speaks if percent < threshold else 0
            measured_ms += speaks
            activity += percent * speaks

    def between(self, since: int, until: int) -> tuple[int, int, Fraction]:
        """Milliseconds idle and measured, and percent x milliseconds, in [since, until)."""
        before, after = self._until(since), self._until(until)
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def _until(self, moment: int) -> tuple[int, int, Fraction]:
        i = bisect.bisect_right(self.times, moment) - 1
        if i < 0:
            return 0, 0, Fraction(0)
        idle_ms, measured_ms, activity = self.sums[i]
        part = min(moment - self.times[i], self.spoken[i])
        return idle_ms + (part if self.idle[i] else 0), measured_ms + part, activity + self.percent[i] * part
