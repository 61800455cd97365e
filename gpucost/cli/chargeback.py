"""`gpucost chargeback`: a month's bundle for finance and teams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    put,
    tell_error,
)
from gpucost.cli._periods import MonthOption, parse_period
from gpucost.cli.report import FocusVersion, Sharing
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gpucost.config import Config
    from gpucost.model import Period

_INCOMPLETE = 4


FocusVersionOption = Annotated[FocusVersion, typer.Option("--focus-version", help="Version of FOCUS that the file follows.")]


@handle_errors
def chargeback(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where bundles lie: the month's goes to DIR/YYYY-MM.", show_default=False)
    ],
    month: MonthOption = None,
    collect: Annotated[
        bool,
        typer.Option("--collect", help="First collect what the store lacks of the month: metrics, configured bills, prices."),
    ] = False,
    share_unallocated: Annotated[
        Sharing | None,
        typer.Option(
            "--share-unallocated",
            help="Also charge teams what nobody held of the GPUs they used: by cost, or evenly.",
            show_default=False,
        ),
    ] = None,
    focus_version: FocusVersionOption = FocusVersion.v1_2,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write a month's bundle: a report for every team, an index over all, the ledger and a FOCUS file.

    Made for cron: without --month it takes the last month that is over; the bundle takes the place of the one before whole or not
    at all; the same input gives the same bytes. The index says whether the figures are final or an estimate and why, what was
    collected, how the bill is reconciled, and, over an earlier bundle of the month, what was adjusted.

    Exit codes: 0 done; 1 failed, and what was there is kept, or --collect failed in part; 2 wrong usage; 4 the month is over and
    incomplete: a part was never collected, or a bill is missing. The bundle is written all the same and says so; of a month
    without any data none is.

    \b
    Examples:
      gpucost chargeback --out /srv/chargeback
      gpucost chargeback --month 2026-10 --out /srv/chargeback --collect
      gpucost chargeback --month 2026-10 --out . --share-unallocated proportional --focus-version 1.3
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.chargeback import Ask, write
    from gpucost.chargeback.manifest import read
    from gpucost.chargeback.swap import replacing
    from gpucost.cli._findings import found
    from gpucost.cli._page import bundle_blocks
    from gpucost.cli._status import status

    settings, opened = load(config, store)
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    name, period, title = _month(settings, now, month)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out names a file: {out}", "--out takes the directory that bundles lie in")
    target = out.expanduser().resolve() / name
    previous = read(target)
    failed = 0
    if collect:
        from gpucost.cli._missing import collect_missing

        failed = collect_missing(settings, opened, name, period, now, config=config, store=store, quiet=quiet, verbose=verbose)
    ask = Ask(
        month=name,
        period=period,
        period_name=title,
        now=now,
        share_unallocated=share_unallocated.value if share_unallocated else None,
        focus_version=focus_version.value,
    )
    with status(quiet=quiet, verbose=verbose) as tell:
        tell("attributing every GPU-hour")
        with replacing(target, lambda old: _foreign(old, previous)) as folder:
            bundle = pipeline.chargeback(settings, opened, ask, folder, tell)
            tell("what would save money")
            advice = found(settings, opened, ask.period)
            tell("writing the files")
            manifest = write(bundle, folder, previous, bundle_blocks(settings, bundle, advice))
    _tell(manifest, target, quiet=quiet)
    if manifest["missing"]:
        places = {"--config": config, "--store": store}
        asked = {"--month": name, "--out": out, "--share-unallocated": share_unallocated, "--focus-version": focus_version}
        # what --collect did not bring, it does not bring again
        fix = _command("doctor", places) if collect else _command("chargeback --collect", asked | places)
        tell_error(f"{name} is incomplete: {'; '.join(manifest['missing'])}", fix)
        raise typer.Exit(_INCOMPLETE)
    if failed:
        raise typer.Exit(1)


def _command(name: str, options: Mapping[str, object]) -> str:
    """A command as it is typed, with those options that have a value."""
    import shlex

    given = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return f"gpucost {name} {shlex.join(given)}".rstrip()


def _month(settings: Config, now: datetime, month: str | None) -> tuple[str, Period, str]:
    """The month asked for, else the last one that is over: `2026-10`, its period and its name.

    Raises UsageError for a month to come.
    """
    from datetime import timedelta

    if month is None:
        first = now.astimezone(settings.tz).date().replace(day=1)
        month = f"{first - timedelta(days=1):%Y-%m}"
    chosen = parse_period(settings.tz, now, month=month)
    if chosen is None:
        raise AssertionError("a month was given")
    if chosen[0].start > now:
        raise UsageError(f"{month} has not begun", "without --month it is the last month that is over")
    return month, *chosen


def _foreign(old: Path, previous: dict[str, Any] | None) -> list[Path]:
    """Files in the old bundle that it did not write: somebody put them there, and they stay."""
    from gpucost.chargeback.manifest import FILE

    own = {FILE, *(one["file"] for one in (previous or {}).get("files", []))}
    return [path for path in sorted(old.rglob("*")) if not path.is_dir() and path.relative_to(old).as_posix() not in own]


def _tell(manifest: dict[str, Any], target: Path, *, quiet: bool) -> None:
    totals, currency = manifest["totals"], manifest["currency"]
    if not quiet:
        put(
            f"{manifest['month']}: {manifest['state']}, {len(manifest['teams']):,} teams charged {totals['charge']:,.2f} "
            f"{currency}, written to {target}"
        )
    for reason in manifest["reasons"]:
        note(f"  an estimate: {reason}", quiet=quiet)
    if manifest["replaces"]:
        adjustment = manifest["replaces"]["totals"]["charge"]["adjustment"]
        note(f"  adjusts what was there by {adjustment:+,.2f} {currency}", quiet=quiet)
