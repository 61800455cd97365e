"""Plan files: what may stand in one, and what is wrong with one, by line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from gpucost.errors import DataError


class Change(StrEnum):
    """What a step does."""

    share = "share"
    spot = "spot"
    schedule = "schedule"
    rightsize = "rightsize"


@dataclass(frozen=True, slots=True)
class Group:
    """Workloads of one kind. Described: `price_per_gpu_hour` is there; else the store's, by the four filters.

    Described pods run `hours` (None: the whole period), or `runs_per_day` times a day `hours_per_run`.
    """

    name: str
    category: str
    pods: int = 1
    gpus_per_pod: int = 1
    hours: float | None = None
    runs_per_day: float | None = None
    hours_per_run: float | None = None
    price_per_gpu_hour: Decimal | None = None
    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    @property
    def filters(self) -> tuple[tuple[str, ...], ...]:
        return (self.teams, self.namespaces, self.workloads, self.clusters)


@dataclass(frozen=True, slots=True)
class Step:
    """A change of some groups; of the other fields those count that NEEDS and ALLOWS name for its `change`."""

    change: Change
    groups: tuple[str, ...]
    price_per_gpu_hour: Decimal | None = None
    interruptions_per_hour: float = 0.0
    checkpoint_minutes: float | None = None
    checkpoint_write_minutes: float = 0.0
    restart_minutes: float = 0.0
    ways: int | None = None
    utilization_percent: float | None = None
    margin_percent: float = 10.0
    headroom_percent: float = 20.0
    active_percent: float | None = None
    active_hours_per_day: float | None = None
    gpus_per_pod: int | None = None
    time_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as its file has it. `days` None: 30, or those of the period read from the store."""

    path: str
    name: str
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    days: float | None = None


# Keys of each kind of step beside change and groups.
ALLOWS: Mapping[Change, tuple[str, ...]] = {
    Change.share: ("ways", "utilization_percent", "margin_percent", "headroom_percent"),
    Change.spot: (
        "price_per_gpu_hour", "interruptions_per_hour", "checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes",
    ),
    Change.schedule: ("active_percent", "active_hours_per_day"),
    Change.rightsize: ("price_per_gpu_hour", "gpus_per_pod", "time_factor"),
}  # fmt: skip
NEEDS: Mapping[Change, tuple[str, ...]] = {
    Change.share: ("ways",),
    Change.spot: ("price_per_gpu_hour",),
    Change.schedule: (),
    Change.rightsize: ("price_per_gpu_hour",),
}
_TOP = ("name", "days", "groups", "steps")
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_DESCRIBING = ("pods", "gpus_per_pod", "hours", "runs_per_day", "hours_per_run", "price_per_gpu_hour")
_COUNTS = ("pods", "gpus_per_pod", "ways")
_MAY_BE_ZERO = (
    "interruptions_per_hour",
    "checkpoint_write_minutes",
    "restart_minutes",
    "utilization_percent",
    "margin_percent",
    "headroom_percent",
)
_AT_MOST = {
    "active_percent": 100,
    "utilization_percent": 100,
    "headroom_percent": 90,
    "active_hours_per_day": 24,
    "pods": 100_000,
    "ways": 48,
}
_HINT = "gpucost whatif plan --example prints a plan with all that matters"


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError, naming file, line and key, and the nearest key that there is."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    try:
        return _Reader(str(path), text).plan(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML: {error}", _HINT) from None


class _Reader:
    """One file: checks what stands in it, and knows on which line."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def plan(self, raw: Mapping[str, Any]) -> Plan:
        self._known(raw, _TOP, "", 0)
        groups = tuple(self._group(item, number) for number, item in enumerate(self._tables(raw, "groups")))
        names = [group.name for group in groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                self._fail("groups", number, "name", f"there are two groups called {name!r}")
        steps = tuple(self._step(item, number, names) for number, item in enumerate(self._tables(raw, "steps")))
        days = self._number(raw, "days", "", 0)
        name = self._text(raw, "name", "", 0) or Path(self.path).stem
        return Plan(self.path, name, groups, steps, None if days is None else float(days))

    def _group(self, raw: Mapping[str, Any], number: int) -> Group:
        self._known(raw, tuple(field.name for field in fields(Group)), "groups", number)
        name = self._text(raw, "name", "groups", number)
        if not name:
            self._fail("groups", number, None, "a group without a name")
        given = [key for key in _FILTERS if key in raw]
        described = [key for key in _DESCRIBING if key in raw]
        if given and described:
            self._fail("groups", number, described[0], f"{given[0]} reads {name} from the store, {described[0]} describes it")
        if not given and "price_per_gpu_hour" not in raw:
            self._fail(
                "groups",
                number,
                None,
                f"{name} is neither described (price_per_gpu_hour) nor read from the store ({', '.join(_FILTERS)})",
            )
        if ("runs_per_day" in raw) != ("hours_per_run" in raw):
            self._fail("groups", number, None, f"{name} needs both runs_per_day and hours_per_run")
        if "runs_per_day" in raw and "hours" in raw:
            self._fail("groups", number, "hours", f"{name} tells its hours twice: by runs_per_day and by hours")
        numbers = {key: self._number(raw, key, "groups", number) for key in described}
        values: dict[str, Any] = {key: _typed(key, value) for key, value in numbers.items() if value is not None}
        values |= {key: self._names(raw, key, "groups", number) for key in given}
        return Group(name=name, category=self._text(raw, "category", "groups", number) or name, **values)

    def _step(self, raw: Mapping[str, Any], number: int, names: Sequence[str]) -> Step:
        text = self._text(raw, "change", "steps", number)
        if text not in list(Change):
            told = f"{text!r} is no change" if text else "a step without a change"
            self._fail("steps", number, "change", told, _nearest(text, [change.value for change in Change]))
        change = Change(text)
        allowed = ALLOWS[change]
        self._known(raw, ("change", "groups", *allowed), "steps", number)
        for key in NEEDS[change]:
            if key not in raw:
                self._fail("steps", number, None, f"{change} needs {key}")
        chosen = self._names(raw, "groups", "steps", number)
        if not chosen:
            self._fail("steps", number, None, f"{change} names no groups")
        for name in chosen:
            if name not in names:
                self._fail("steps", number, "groups", f"there is no group {name!r}", _nearest(name, names))
        if change is Change.schedule and ("active_percent" in raw) == ("active_hours_per_day" in raw):
            self._fail("steps", number, None, "schedule needs either active_percent or active_hours_per_day")
        numbers = {key: self._number(raw, key, "steps", number) for key in allowed}
        if numbers.get("interruptions_per_hour") and numbers.get("checkpoint_minutes") is None:
            self._fail("steps", number, "interruptions_per_hour", "with interruptions spot needs checkpoint_minutes")
        return Step(change, chosen, **{key: _typed(key, value) for key, value in numbers.items() if value is not None})

    def _tables(self, raw: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
        tables = raw.get(key)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise DataError(f"{self.path}: there is no [[{key}]]", _HINT)
        return tables

    def _known(self, raw: Mapping[str, Any], keys: Sequence[str], table: str, number: int) -> None:
        for key in raw:
            if key not in keys:
                self._fail(table, number, key, f"unknown key {key!r}", _nearest(key, keys))

    def _text(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> str:
        value = raw.get(key, "")
        if not isinstance(value, str):
            self._fail(table, number, key, f"{key} is no text: {value}")
        return str(value)

    def _names(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> tuple[str, ...]:
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            self._fail(table, number, key, f'{key} is no list of names: ["one", "another"]')
        return tuple(value)

    def _number(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> Decimal | None:
        if key not in raw:
            return None
        value, most = raw[key], _AT_MOST.get(key)
        try:
            exact = Decimal("NaN") if isinstance(value, bool | str) else Decimal(value)
        except (InvalidOperation, TypeError, ValueError):
            exact = Decimal("NaN")
        good = exact.is_finite() and (exact > 0 or (exact == 0 and key in _MAY_BE_ZERO)) and (most is None or exact <= most)
        if not good or (key in _COUNTS and exact != int(exact)):
            kind = "whole number" if key in _COUNTS else "number"
            end = "" if most is None else f" and at most {most}"
            self._fail(table, number, key, f"{key} is no {kind} {'from' if key in _MAY_BE_ZERO else 'above'} 0{end}: {value}")
        return exact

    def _fail(self, table: str, number: int, key: str | None, message: str, fix: str | None = None) -> NoReturn:
        line = self._line(table, number, key)
        where = f"{self.path}, line {line}" if line else self.path
        place = f" in [[{table}]] {number + 1}" if table else ""
        raise DataError(f"{where}{place}: {message}", fix or _HINT)

    def _line(self, table: str, number: int, key: str | None) -> int | None:
        """The line of a key of the n-th [[table]] (or of its header), counted from 1."""
        at, seen, current = None, -1, ""
        for count, line in enumerate(self.lines, start=1):
            if found := re.match(r"\s*\[+\s*([\w.-]+)\s*\]+", line):
                current = found.group(1)
                seen += current == table
                if current == table and seen == number:
                    at = count
            elif key and current == table and (not table or seen == number) and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line):
                return count
        return at


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _typed(key: str, value: Decimal) -> Any:
    if key in _COUNTS:
        return int(value)
    return value if key == "price_per_gpu_hour" else float(value)
