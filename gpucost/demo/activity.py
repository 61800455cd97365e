"""How busy a GPU of the sample fleet is: percent of utilization over time, by what runs on it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpucost.demo.model import Profile

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def percent(profile: Profile, times: Times, start: int, end: int, dice: np.random.Generator) -> Floats:
    """Whole percents of utilization at `times` (Unix seconds) for a pod that runs in [start, end)."""
    count = len(times)
    hour_of_day = times % 86_400 / 3600
    if profile in ("training", "narrow", "patchy"):
        stalls = 0.34 if profile == "patchy" else 0.14
        busy = np.clip(dice.normal(74 if profile == "patchy" else 91, 5, count), 6, 100)
        busy[_stretches(times, 3600, dice) < stalls] = 2
        busy[times < start + 600] = 0  # images, data, warm-up
    elif profile == "hung":
        busy = np.clip(dice.normal(88, 5, count), 6, 100)
        busy[times > start + (end - start) * 0.45] = 0
    elif profile in ("notebook", "forgotten"):
        weekday = (times // 86_400 + 3) % 7 < 5
        desk_hours = weekday & (hour_of_day > 9) & (hour_of_day < 19)
        busy = np.where(desk_hours & (_stretches(times, 5400, dice) < 0.42), dice.normal(46, 18, count), 0)
        busy = np.clip(busy, 0, 100)
        if profile == "forgotten":
            busy[times > start + (end - start) * 0.2] = 0
    elif profile == "sparse":
        busy = np.clip(9 + 3 * np.sin((hour_of_day - 9) / 24 * 2 * np.pi) + dice.normal(0, 1, count), 5, 100)
    elif profile == "serving":
        load = 34 + 30 * np.sin((hour_of_day - 9) / 24 * 2 * np.pi)
        busy = np.clip(load + dice.normal(0, 4, count), 0, 100)
        busy[(hour_of_day > 0) & (hour_of_day < 6.5)] *= 0.25
    elif profile == "tests":
        busy = np.where(_stretches(times, 600, dice) < 0.7, dice.normal(40, 15, count), 1)
        busy = np.clip(busy, 0, 100)
    else:
        busy = np.zeros(count)
    rounded: Floats = np.rint(busy)
    return rounded


def _stretches(times: Times, seconds: int, dice: np.random.Generator) -> Floats:
    """One number in [0, 1) per stretch of time, the same for all moments within it."""
    if not len(times):
        return np.zeros(0)
    stretch = (times - times[0]) // seconds
    chosen: Floats = dice.random(int(stretch[-1]) + 1)[stretch]
    return chosen
