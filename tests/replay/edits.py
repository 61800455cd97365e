"""Edits of scrapes beyond a fleet's description: exporters that change, err or disagree."""

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

#: Labels and their values, or text such as `pod=a node=`, in which the second has no value.
Labels = Mapping[str, str | None] | str
Hours = tuple[float, float]
ALWAYS = (-math.inf, math.inf)
#: Labels that differ on every machine and GPU.
_IDS = """
    UUID uuid gpu_uuid device_uuid deviceuuid serial_number accelerator_id instance_id system_uuid provider_id"""
_OWN = set(_IDS.split())


def relabel(
    series: list[Series], metrics: str, changes: Labels, where: Labels = "", hours: Hours = ALWAYS
) -> list[Series]:
    """Change labels (None removes one) of the selected series' samples in [from, to) hours.

    Selected series have a metric that matches `metrics` and labels that match `where`, both regular expressions.
    """
    return _edited(series, metrics, where, hours, lambda part: [_changed(part, changes)])


def move(series: list[Series], cluster: str, provider_ids: bool = True) -> list[Series]:
    """Return the same in a cluster of this name, on its own machines and GPUs; machines on bills keep their provider ids."""
    own = _OWN if provider_ids else _OWN - {"provider_id"}
    digest = hashlib.sha256(cluster.encode()).hexdigest()[:8]

    def moved(one: Series) -> Series:
        changes = {name: f"{value}{digest}" for name, value in one.labels.items() if name in own and value}
        return replace(one, labels={**one.labels, **changes, "cluster": cluster})

    return [moved(one) for one in series]


def revalue(
    series: list[Series], metrics: str, value: float, where: Labels = "", hours: Hours = ALWAYS
) -> list[Series]:
    """Give the selected samples another value."""
    return _edited(
        series, metrics, where, hours, lambda part: [replace(part, values=np.full(len(part.times), value))]
    )


def scale(series: list[Series], metrics: str, factor: float) -> list[Series]:
    """Multiply the values of a metric."""
    return _edited(series, metrics, "", ALWAYS, lambda part: [replace(part, values=part.values * factor)])


def drop(series: list[Series], metrics: str, where: Labels = "", hours: Hours = ALWAYS) -> list[Series]:
    """Remove the selected samples."""
    return _edited(series, metrics, where, hours, lambda _: [])


def duplicate(series: list[Series], metrics: str, changes: Labels) -> list[Series]:
    """Add a copy of every selected series with other labels."""
    return _edited(series, metrics, "", ALWAYS, lambda part: [part, _changed(part, changes)])


def switch(before: list[Series], after: list[Series], hour: float) -> list[Series]:
    """Return one fleet's scrapes until `hour`, and another's from then on."""
    return _merged([*drop(before, ".*", hours=(hour, math.inf)), *drop(after, ".*", hours=(-math.inf, hour))])


def thin(series: list[Series], seconds: int, hours: Hours) -> list[Series]:
    """Thin the samples in [from, to) hours to a scrape interval of so many seconds."""
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


def _labels(labels: Labels) -> Mapping[str, str | None]:
    return words(labels) if isinstance(labels, str) else labels


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
