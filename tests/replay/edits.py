"""Edits of what was scraped, for what no description of a fleet tells: exporters that change their mind, err or disagree."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tests.replay.cases.words import MORNING
from tests.replay.series import Recorder, Series

Labels = Mapping[str, str | None]
ALWAYS = (-math.inf, math.inf)


def relabel(
    series: list[Series],
    metrics: str,
    changes: Labels,
    where: Mapping[str, str] | None = None,
    hours: tuple[float, float] = ALWAYS,
) -> list[Series]:
    """Changes labels (None takes one away) of the samples in [from, to) hours of the series that are meant.

    Meant are those whose metric matches `metrics` and whose labels match `where`, both regular expressions.
    """
    return _edited(
        series, metrics, where, hours, lambda part: [replace(part, labels=_changed(part.labels, changes))]
    )


def move(series: list[Series], cluster: str, provider_ids: bool = True) -> list[Series]:
    """The same in a cluster of this name, on machines and GPUs of its own; machines of bills keep their provider ids."""
    devices = ("UUID", "uuid", "gpu_uuid", "device_uuid", "deviceuuid", "serial_number", "accelerator_id")
    own = (*devices, "instance_id", "system_uuid", *(("provider_id",) if provider_ids else ()))
    digest = hashlib.sha256(cluster.encode()).hexdigest()[:8]
    return [
        replace(
            one,
            labels={
                name: f"{value}{digest}" if name in own and value else value
                for name, value in one.labels.items()
            }
            | {"cluster": cluster},
        )
        for one in series
    ]


def revalue(
    series: list[Series],
    metrics: str,
    value: float,
    where: Mapping[str, str] | None = None,
    hours: tuple[float, float] = ALWAYS,
) -> list[Series]:
    """Gives the samples that are meant another value."""
    return _edited(
        series, metrics, where, hours, lambda part: [replace(part, values=np.full(len(part.times), value))]
    )


def scale(series: list[Series], metrics: str, factor: float) -> list[Series]:
    """Multiplies the values of a metric."""
    return _edited(series, metrics, None, ALWAYS, lambda part: [replace(part, values=part.values * factor)])


def drop(
    series: list[Series],
    metrics: str,
    where: Mapping[str, str] | None = None,
    hours: tuple[float, float] = ALWAYS,
) -> list[Series]:
    """Takes the samples that are meant away."""
    return _edited(series, metrics, where, hours, lambda _: [])


def duplicate(series: list[Series], metrics: str, changes: Labels) -> list[Series]:
    """Adds a copy with other labels of every series that is meant."""
    return _edited(
        series,
        metrics,
        None,
        ALWAYS,
        lambda part: [part, replace(part, labels=_changed(part.labels, changes))],
    )


def switch(before: list[Series], after: list[Series], hour: float) -> list[Series]:
    """What was scraped of one fleet until `hour`, and of another from there on."""
    return _merged([*drop(before, ".*", hours=(hour, math.inf)), *drop(after, ".*", hours=(-math.inf, hour))])


def _edited(
    series: list[Series],
    metrics: str,
    where: Mapping[str, str] | None,
    hours: tuple[float, float],
    edit: Callable[[Series], list[Series]],
) -> list[Series]:
    since, until = (1000 * (MORNING + 3600 * hour) for hour in hours)
    parts = []
    for one in series:
        tests = {"__name__": metrics, **(where or {})}
        if all(re.fullmatch(pattern, one.labels.get(label, "")) for label, pattern in tests.items()):
            inside = (one.times >= since) & (one.times < until)
            parts.append(Series(one.labels, one.times[~inside], one.values[~inside]))
            parts += edit(Series(one.labels, one.times[inside], one.values[inside]))
        else:
            parts.append(one)
    return _merged(parts)


def _changed(labels: dict[str, str], changes: Labels) -> dict[str, str]:
    return {label: value for label, value in {**labels, **changes}.items() if value is not None}


def _merged(parts: list[Series]) -> list[Series]:
    out = Recorder()
    for part in parts:
        labels: dict[str, object] = {
            label: part.labels[label] for label in sorted(part.labels) if label != "__name__"
        }
        out.add(part.labels["__name__"], labels, part.times, part.values)
    return out.series()


def thin(series: list[Series], seconds: int, hours: tuple[float, float]) -> list[Series]:
    """Leaves of the samples in [from, to) hours those that a scrape every so many seconds would have brought."""
    since, until = (1000 * (MORNING + 3600 * hour) for hour in hours)
    kept = [
        (one, (one.times < since) | (one.times >= until) | (one.times % (1000 * seconds) == 0))
        for one in series
    ]
    return [Series(one.labels, one.times[keep], one.values[keep]) for one, keep in kept if keep.any()]
