"""Samples: which are plausible, the start and end of runs of equal values, and the scrape interval."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.replay.series import Series

ZERO, ONE = Fraction(0), Fraction(1)
HOUR = 3_600_000
#: A gap up to this long is bridged (DESIGN, "Coverage"): a state before and after it holds within it.
COVERED = 10 * 60_000
#: DCGM's markers of a missing value.
SENTINELS = (
    {2147483632.0 + i for i in range(4)}
    | {140737488355328.0 + i for i in range(4)}
    | {4294967295.0, 9.223372036854776e18}
)
#: Activity metrics with their factor to percent: the first for whole devices, the second for MIG instances.
DEVICE, MIG = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
SCALE = {DEVICE: 1, MIG: 100}
USUAL_INTERVAL = 60_000
LARGEST = sys.float_info.max

#: Cluster, job and instance.
Target = tuple[str, str, str]


class Samples(NamedTuple):
    """The valid samples of one series, by time."""

    labels: dict[str, str]
    cluster: str
    times: list[int]
    values: list[float]

    @property
    def target(self) -> Target:
        return self.cluster, self.labels.get("job", ""), self.labels.get("instance", "")


@dataclass(frozen=True, slots=True)
class State:
    """A run of one value of a kube-state-metrics series, from its first sample to its last (milliseconds).

    `begin` is one scrape interval before the first sample, `end` one after the last; the value holds until `end`.
    """

    labels: dict[str, str]
    cluster: str
    value: float
    first: int
    last: int
    end: int
    begin: int

    def get(self, label: str) -> str | None:
        """Return the object's label; if the scrape target's own label won, it is under exported_*."""
        return self.labels.get(f"exported_{label}", self.labels.get(label))

    @property
    def metric(self) -> str:
        return self.labels["__name__"]

    @property
    def resource(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.labels.get("resource", "").lower())


def valid(series: Iterable[Series], cluster: str) -> Iterator[Samples]:
    """Yield the plausible samples; series without a cluster label belong to `cluster`."""
    for one in series:
        scale = SCALE.get(one.labels["__name__"])
        lowest, highest = (-LARGEST, LARGEST) if scale is None else (0, 100 / scale)
        times, values = one.times.tolist(), one.values.tolist()
        # NaN compares false with every number
        kept = [
            (t, v)
            for t, v in zip(times, values, strict=True)
            if lowest <= v <= highest and v not in SENTINELS
        ]
        if kept:
            yield Samples(
                one.labels, one.labels.get("cluster") or cluster, [t for t, _ in kept], [v for _, v in kept]
            )


def lower_median(values: list[int]) -> int | None:
    """Return the median, the lower one of an even count."""
    return sorted(values)[(len(values) - 1) // 2] if values else None


def hourly_gaps(samples: Samples) -> dict[int, list[int]]:
    """Return the distances between the samples of each hour."""
    gaps = defaultdict(list)
    for time, following in itertools.pairwise(samples.times):
        if time // HOUR == following // HOUR:
            gaps[time // HOUR].append(following - time)
    return gaps


class Intervals:
    """The scrape interval of kube-state-metrics targets by hour; later scrapes do not change it."""

    def __init__(self, everything: list[Samples]) -> None:
        pooled = defaultdict(lambda: defaultdict(list))
        for samples in everything:
            for hour, gaps in hourly_gaps(samples).items():
                pooled[samples.target][hour] += gaps
        self._hourly = {
            target: {hour: lower_median(gaps) or USUAL_INTERVAL for hour, gaps in hours.items()}
            for target, hours in pooled.items()
        }

    def at(self, target: Target, time: int) -> int:
        """Return a target's scrape interval in milliseconds: of the hour, otherwise of the previous, otherwise of the next hour.

        A target with a single known scrape gets the interval of the others in its job.
        """
        hour = time // HOUR
        own = self._of(target, hour)
        if own is None:
            others = [self._of(other, hour) for other in self._hourly if other[:2] == target[:2]]
            own = lower_median([interval for interval in others if interval is not None])
        return own or USUAL_INTERVAL

    def _of(self, target: Target, hour: int) -> int | None:
        hours = self._hourly.get(target, {})
        return next((hours[h] for h in (hour, hour - 1, hour + 1) if h in hours), None)


def states(everything: list[Samples]) -> list[State]:
    """Return the runs of equal values of all kube-state-metrics series, split at long gaps."""
    kube_series = [s for s in everything if s.labels["__name__"].startswith("kube_")]
    intervals = Intervals(kube_series)
    found = []
    for samples in kube_series:
        start = 0
        for i, time in enumerate(samples.times):
            following = samples.times[i + 1] if i + 1 < len(samples.times) else None
            if following is None or samples.values[i + 1] != samples.values[i] or following - time > COVERED:
                end = time + intervals.at(samples.target, time)
                first = samples.times[start]
                begin = first - intervals.at(samples.target, first)
                found.append(
                    State(samples.labels, samples.cluster, samples.values[i], first, time, end, begin)
                )
                start = i + 1
    return found
