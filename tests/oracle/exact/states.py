"""What samples say: which can be true, which run of equal ones was so from when to when, and how often they came."""

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
#: A gap up to this long is no gap (DESIGN, "Collected is what was seen"): what was so before and after it was so in it.
COVERED = 10 * 60_000
#: DCGM's ways to say that there is no value.
SENTINELS = (
    {2147483632.0 + i for i in range(4)}
    | {140737488355328.0 + i for i in range(4)}
    | {4294967295.0, 9.223372036854776e18}
)
#: Activity metrics, with what makes them a percentage; the first is that of whole devices, the second that of MIG instances.
DEVICE, MIG = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
SCALE = {DEVICE: 1, MIG: 100}
USUAL_INTERVAL = 60_000
LARGEST = sys.float_info.max

#: Cluster, job and instance.
Target = tuple[str, str, str]


class Samples(NamedTuple):
    """The valid samples of one series, in order of time."""

    labels: dict[str, str]
    cluster: str
    times: list[int]
    values: list[float]

    @property
    def target(self) -> Target:
        return self.cluster, self.labels.get("job", ""), self.labels.get("instance", "")


@dataclass(frozen=True, slots=True)
class State:
    """That a series of kube-state-metrics had a value, from its first sample to its last (milliseconds).

    It was so until `end`, one scrape interval after; `begin` is one before.
    """

    labels: dict[str, str]
    cluster: str
    value: float
    first: int
    last: int
    end: int
    begin: int

    def get(self, label: str) -> str | None:
        """The object's label: where the scraped target's own won, it stands under exported_*."""
        return self.labels.get(f"exported_{label}", self.labels.get(label))

    @property
    def metric(self) -> str:
        return self.labels["__name__"]

    @property
    def resource(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.labels.get("resource", "").lower())


def valid(series: Iterable[Series], cluster: str) -> Iterator[Samples]:
    """The samples that can be true; series without a cluster are of `cluster`."""
    for one in series:
        scale = SCALE.get(one.labels["__name__"])
        lowest, highest = (-LARGEST, LARGEST) if scale is None else (0, 100 / scale)
        times, values = one.times.tolist(), one.values.tolist()
        # what is not a number compares with none
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
    """The middle one, the lower of the two where there are two."""
    return sorted(values)[(len(values) - 1) // 2] if values else None


def hourly_gaps(samples: Samples) -> dict[int, list[int]]:
    """The distances between samples of one hour, by hour."""
    gaps = defaultdict(list)
    for time, following in itertools.pairwise(samples.times):
        if time // HOUR == following // HOUR:
            gaps[time // HOUR].append(following - time)
    return gaps


class Intervals:
    """How often targets of kube-state-metrics were scraped, hour by hour: what scraping does later changes nothing about it."""

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
        """One scrape interval of a target, in milliseconds: that of the hour, else of the one before, else of the one after.

        A target of which one scrape alone is known is scraped as the others of its job.
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
    """The runs of equal values of all series of kube-state-metrics, without a long silence inside."""
    told = [s for s in everything if s.labels["__name__"].startswith("kube_")]
    intervals = Intervals(told)
    found = []
    for samples in told:
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
