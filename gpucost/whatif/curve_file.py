"""Nodes in use, hour by hour: from a file, or as options describe them."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from gpucost.errors import DataError, UsageError
from gpucost.whatif.curve import Curve
from gpucost.whatif.described import days_counted, hours_needed
from gpucost.whatif.fleet import HOURS_PER_MONTH

_LONGEST_HOURS = 10 * 8784
_MONTH = float(HOURS_PER_MONTH)


def read_curve(path: Path) -> Curve:
    """The curve of a file: a number per line, or CSV with a column `nodes`; fractions are means of their hour.

    Raises DataError naming the line that cannot be read.
    """
    try:
        rows = [row for row in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if any(row)]
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}", "--curve takes a file with the nodes in use, a line per hour"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: is no text of lines: {error}", "save it as CSV in UTF-8") from None
    header = [name.strip().lower() for name in rows[0]] if rows else []
    column = header.index("nodes") if "nodes" in header else 0
    if "nodes" not in header and header and len(header) > 1:
        raise DataError(f"{path}: no column is called nodes; there are {', '.join(header)}", "call one of them nodes")
    levels = []
    for number, row in enumerate(rows, 1):
        if number == 1 and "nodes" in header:
            continue
        text = row[column].strip() if column < len(row) else ""
        try:
            level = float(text)
        except ValueError:
            level = math.nan
        if not 0 <= level <= 1e6:
            raise DataError(
                f"{path}: row {number}: {text!r} is no number of nodes", "each row is an hour; 0 where none was in use"
            )
        levels.append(level)
    if not any(levels):
        raise DataError(f"{path}: no node is in use in {len(levels)} hours", "each row is an hour: the nodes in use in it")
    if len(levels) > _LONGEST_HOURS:
        raise DataError(f"{path}: {len(levels):,} hours are over 10 years", "give the hours of a month or a year")
    return Curve.hourly(levels)


def described_curve(
    curve: Path | None, nodes: int | None, hours: float | None, active_hours_per_day: float | None, days: int | None
) -> tuple[Curve, str]:
    """The curve that options describe, and its name: a file's, else --nodes for --hours of a month or some hours of each day.

    Raises UsageError where several ways are mixed.
    """
    if curve is not None:
        others = {"--nodes": nodes, "--hours": hours, "--active-hours-per-day": active_hours_per_day, "--days": days}
        for name, value in others.items():
            if value is not None:
                raise UsageError(f"{name} and --curve both say how many nodes are in use when", f"leave out {name}")
        read = read_curve(curve)
        return read, f"{read.hours:,.0f} hours of {curve.name}"
    needed = hours_needed(hours, active_hours_per_day, days) or _MONTH
    if active_hours_per_day is not None:
        counted = days_counted(days, active_hours_per_day)
        return Curve.constant(nodes or 1, needed, 24.0 * counted), f"{counted} days"
    whole = max(needed, _MONTH)
    return Curve.constant(nodes or 1, needed, whole), "a month of 730 hours" if whole == _MONTH else f"{whole:,.0f} hours"
