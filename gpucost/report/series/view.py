"""Figures over time, in numbers and before any format: what charts draw."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Step = Literal["hour", "day", "week", "month"]
LayerKind = Literal["named", "others", "unallocated", "not_collected", "active", "idle", "unmeasured"]


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of the time axis: `2026-10-05`, or `2026-10-05 to 2026-10-11`; weeks begin on Monday. `short` fits an axis."""

    name: str
    short: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One value per moment, and their sum. Of kind 'others' are those that are too small to stand alone, `name` says how many."""

    name: str
    kind: LayerKind
    values: tuple[Decimal, ...]
    total: Decimal


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers that add up, the largest first, then 'others', 'unallocated', 'not_collected'; `totals` are the sums by moment."""

    title: str
    unit: Literal["money", "hours"]
    layers: tuple[Layer, ...]
    totals: tuple[Decimal, ...]
    total: Decimal


@dataclass(frozen=True, slots=True)
class Heat:
    """A share (0-1) by weekday (Monday first) and local hour: `part_gpu_hours` of `gpu_hours`, both kept; None for 0/0."""

    title: str
    part: str
    whole: str
    shares: tuple[tuple[float | None, ...], ...]
    part_gpu_hours: tuple[tuple[float, ...], ...]
    gpu_hours: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A period by its moments. `stacks` of money each add up to the report's total; `hours` to capacity, or to what was held.

    `method` tells in words how the figures came to be, as (what, how).
    """

    step: Step
    moments: tuple[Moment, ...]
    timezone: str
    stacks: tuple[Stack, ...]
    hours: Stack
    heat: tuple[Heat, ...]
    method: tuple[tuple[str, str], ...]
