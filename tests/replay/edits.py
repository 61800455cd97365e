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
from tests.text_tables import words

#: Labels and their values, or the words for them: `pod=a node=`, of which the second has no value.
Labels = Mapping[str, str | None] | str
Hours = tuple[float, float]
ALWAYS = (-math.inf, math.inf)
#: What is another on every machine and GPU.
_IDS = """
    UUID uuid gpu_uuid device_uuid deviceuuid serial_number accelerator_id instance_id system_uuid provider_id"""
_OWN = set(_IDS.split())


def relabel(
    series: list[Series], metrics: str, changes: Labels, where: Labels = "", hours: Hours = ALWAYS
) -> list[Series]:
    """Changes labels (None takes one away) of the samples in [from, to) hours of the series that are meant.

    Meant are those whose metric matches `metrics` and whose labels match `where`, both regular expressions.
    """
    return _edited(series, metrics, where, hours, lambda part: [_changed(part, changes)])


def move(series: list[Series], cluster: str, provider_ids: bool = True) -> list[Series]:
    """The same in a cluster of this name, on machines and GPUs of its own; machines of bills keep their provider ids."""
    own = _OWN if provider_ids else _OWN - {"provider_id"}
    digest = hashlib.sha256(cluster.encode()).hexdigest()[:8]

    def moved(one: Series) -> Series:
        changes = {name: f"{value}{digest}" for name, value in one.labels.items() if name in own and value}
        return replace(one, labels={**one.labels, **changes, "cluster": cluster})

    return [moved(one) for one in series]


def revalue(
    series: list[Series], metrics: str, value: float, where: Labels = "", hours: Hours = ALWAYS
) -> list[Series]:
    """Gives the samples that are meant another value."""
    return _edited(
        series, metrics, where, hours, lambda part: [replace(part, values=np.full(len(part.times), value))]
    )


def scale(series: list[Series], metrics: str, factor: float) -> list[Series]:
    """Multiplies the values of a metric."""
    return _edited(series, metrics, "", ALWAYS, lambda part: [replace(part, values=part.values * factor)])


def drop(series: list[Series], metrics: str, where: Labels = "", hours: Hours = ALWAYS) -> list[Series]:
    """Takes the samples that are meant away."""
    return _edited(series, metrics, where, hours, lambda _: [])


def duplicate(series: list[Series], metrics: str, changes: Labels) -> list[Series]:
    """Adds a copy with other labels of every series that is meant."""
    return _edited(series, metrics, "", ALWAYS, lambda part: [part, _changed(part, changes)])


def switch(before: list[Series], after: list[Series], hour: float) -> list[Series]:
    """What was scraped of one fleet until `hour`, and of another from there on."""
    return _merged([*drop(before, ".*", hours=(hour, math.inf)), *drop(after, ".*", hours=(-math.inf, hour))])


def thin(series: list[Series], seconds: int, hours: Hours) -> list[Series]:
    """Leaves of the samples in [from, to) hours those that a scrape every so many seconds would have brought."""
    return _edited(series, ".*", "", hours, lambda part: [part.where(part.times % (1000 * seconds) == 0)])


def _edited(
    series: list[Series], metrics: str, where: Labels, hours: Hours, edit: Callable[[Series], list[Series]]
) -> list[Series]:
    since, until = (1000 * (MORNING + 3600 * hour) for hour in hours)
    tests = {"__name__": metrics, **_labels(where)}
    parts = []
    for one in series:
        if all(re.fullmatch(pattern or "", one.labels.get(label, "")) for label, pattern in tests.items()):
            inside = (one.times >= since) & (one.times < until)
            parts += [one.where(~inside), *edit(one.where(inside))]
        else:
            parts.append(one)
    return _merged(parts)


def _labels(told: Labels) -> Mapping[str, str | None]:
    return words(told) if isinstance(told, str) else told


def _changed(one: Series, changes: Labels) -> Series:
    labels = {
        label: value for label, value in {**one.labels, **_labels(changes)}.items() if value is not None
    }
    return replace(one, labels=labels)


def _merged(parts: list[Series]) -> list[Series]:
    out = Recorder()
    for part in parts:
        labels = dict(sorted(part.labels.items()))
        out.add(str(labels.pop("__name__")), labels, part.times, part.values)
    return out.series()
