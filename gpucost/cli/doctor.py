"""`gpucost doctor`: what is wrong, and the one command or setting that mends it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors

if TYPE_CHECKING:
    from gpucost.doctor import Check

MARKS = {"ok": ("✓", "32"), "warn": ("!", "33"), "fail": ("✗", "31")}


class DoctorFormat(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"


@handle_errors
def doctor(
    format: Annotated[DoctorFormat, typer.Option("--format", help="How to write it.")] = DoctorFormat.table,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Check the whole set-up, and say what mends it.

    Looks at config, store, each Prometheus, each metric and label that is needed, and prices, and gives one command or
    setting for each problem. Ends with 1 if anything failed; warnings alone end with 0. With -q only problems are shown.

    \b
    Examples:
      gpucost doctor
      gpucost doctor -q
      gpucost doctor --format json
    """
    from gpucost.doctor import Status, examine

    checks: list[Check] = []
    area = ""
    for check in examine(config, store, datetime.now(UTC)):
        checks.append(check)
        if format is DoctorFormat.table and not (quiet and check.status is Status.ok):
            if check.area != area:
                area = check.area
                typer.echo(("\n" if len(checks) > 1 else "") + area)
            _print(check)
    count = {status: sum(check.status is status for check in checks) for status in Status}
    if format is DoctorFormat.json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2, ensure_ascii=False))
    elif not quiet:
        typer.echo(f"\n{count[Status.ok]} ok, {count[Status.warn]} to look at, {count[Status.fail]} failed")
    if count[Status.fail]:
        raise typer.Exit(1)


def _print(check: Check) -> None:
    mark, color = MARKS[check.status]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        mark = f"\033[{color}m{mark}\033[0m"
    first, *rest = check.found.splitlines() or [""]
    typer.echo(f"  {mark} {check.status:<4}  {check.subject}: {first}")
    for line in rest:
        typer.echo(f"          {line}")
    if check.fix and check.status != "ok":
        typer.echo(f"          fix: {check.fix}")
