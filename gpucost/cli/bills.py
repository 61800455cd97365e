"""`gpucost chargeback`: a month's bundle for finance and teams."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.command import Call, FocusVersion, RowsCall, command
from gpucost.cli.output import print_error
from gpucost.cli.runs import collect_list_prices, collect_metrics, collect_spot_prices, run_bills
from gpucost.errors import GpucostError, IncompleteError, StoreError, UsageError
from gpucost.inputs import JsonObject
from gpucost.options import LakeOption, MonthOption, Option
from gpucost.periods import Period, parse_period, previous_month
from gpucost.questions.report import Sharing
from gpucost.records import mixin_dataclass
from gpucost.render.formatting import figure_text

if TYPE_CHECKING:
    from datetime import datetime

    from gpucost.collect.prices import PriceResult
    from gpucost.collect.spot import SpotResult

    Run = Callable[[], None]


OutOption = Annotated[Path, Option("Directory of bundles; the month's bundle is DIR/YYYY-MM.", "DIR")]


@mixin_dataclass
class ChargebackCall(MonthOption, LakeOption, Call):
    """A command about the bundle of a month."""


@mixin_dataclass
class VerifyCall(MonthOption, LakeOption, RowsCall):
    """A command about the bundle of a month, which answers in rows."""


@command()
def chargeback(
    call: ChargebackCall,
    out: OutOption,
    collect: Annotated[bool, Option("First collect the month's missing metrics, bills and prices.")] = False,
    share_unallocated: Annotated[
        Sharing | None,
        Option("Also charge unallocated cost to the teams that used these GPUs: by cost, or evenly."),
    ] = None,
    focus_version: Annotated[FocusVersion, Option("FOCUS version of the file.", is_shown=True)] = "1.2",
) -> None:
    """Write a month's bundle: a report for every team, an index, the ledger and a FOCUS file.

    Made for cron: the default month is the last complete one; a bundle replaces the earlier one in one step; the same input
    gives the same bytes. The index states whether the figures are final or estimates and why, the coverage, the reconciliation
    with the bill, and any adjustments since an earlier bundle of the month.

    Exit codes: 0 done; 1 failed (the earlier bundle stays), or --collect failed in part; 2 wrong usage; 4 the month has ended
    but is incomplete: metrics or a bill are missing. An incomplete bundle is written and marked; a month without data gets no
    bundle.

    \b
    Examples:
      gpucost chargeback --out /srv/chargeback
      gpucost chargeback --month 2026-10 --out /srv/chargeback --collect
      gpucost chargeback --month 2026-10 --out . --share-unallocated proportional --focus-version 1.3
    """
    from gpucost.publish.chargeback import ChargebackQuery, manifest_of, read, read_bundle, replacing, write
    from gpucost.questions.findings import read_findings
    from gpucost.questions.report.page import bundle_blocks

    settings, now = call.settings, call.now.replace(minute=0, second=0, microsecond=0)
    name, period, title = _month(call)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out names a file: {out}", "--out takes a directory")
    if collect and call.lake:
        raise UsageError(
            "--collect and --lake exclude each other",
            "collect first, then gpucost lake export and lake attribute",
        )
    target = out.expanduser().resolve() / name
    previous = read(target)
    failed = collect_missing(call, name, period, now) if collect else 0
    query = ChargebackQuery(name, period, title, now, share_unallocated, focus_version)
    with call.status() as show_progress:
        show_progress("attributing every GPU-hour")
        with replacing(target, lambda old: _foreign(old, previous), settings.file_mode) as folder:
            bundle = read_bundle(settings, call.store, query, folder, show_progress)
            advice = read_findings(settings, call.store, query.period, show_progress)
            show_progress("writing the files")
            manifest = manifest_of(bundle, settings, previous)
            manifest = write(bundle, manifest, folder, bundle_blocks(settings, bundle, advice))
    _record(call, manifest, target)
    _print_result(call, manifest, target)
    if manifest["missing"]:
        # another run with --collect would not find the data either
        fix = (
            _command(call, "doctor")
            if collect
            else _command(
                call,
                "chargeback --collect",
                month=name,
                out=out,
                share_unallocated=share_unallocated,
                focus_version=None if focus_version == "1.2" else focus_version,
            )
        )
        print_error(f"{name} is incomplete: {'; '.join(manifest['missing'])}", fix)
        raise typer.Exit(IncompleteError.exit_code)
    if failed:
        raise typer.Exit(1)


def _record(call: Call, manifest: JsonObject, target: Path) -> None:
    """Record the seal in the store's log; a lake has no log."""
    from gpucost.publish.verify import digest_of
    from gpucost.store import log

    sealed = manifest["seal"]
    if sealed is None or call.lake:
        return
    record = log.SealRecord(
        manifest["month"],
        manifest["state"],
        Decimal(str(manifest["totals"]["charge"])),
        manifest["currency"],
        sealed["figures"],
        digest_of(target),
        manifest["share_unallocated"],
        manifest["replaces"]["reasons"] if manifest["replaces"] else (),
    )
    try:
        with call.store.read() as con:
            is_logged = record.digest in dict(log.seals(con, record.month))
        if not is_logged:
            with call.store.write() as con:
                log.add_seal(con, record)
    except StoreError as error:
        call.note(f"note: the seal of {record.month} is not in the store's log: {error.message}")


def _sealed(call: VerifyCall, month: str, out: Path) -> tuple[Path, JsonObject]:
    """The bundle of a month and its manifest. Raises GpucostError if it is missing or not sealed."""
    from gpucost.publish.chargeback import FILE, read
    from gpucost.publish.verify import is_whole

    target = out.expanduser().resolve() / month
    manifest = read(target)
    again = _command(call, "chargeback", month=month, out=out)
    if manifest is None:
        raise GpucostError(f"bundle not found: {month} in {out}", again)
    if not manifest.get("seal"):
        why = "the month had not ended" if not manifest["is_over"] else "an earlier gpucost wrote it"
        raise GpucostError(f"{target} was not sealed: {why}", again)
    if not is_whole(manifest):
        raise GpucostError(f"the bundle {target} differs from its seal: {FILE}", "restore it from a copy")
    return target, manifest


@command()
def chargeback_verify(call: VerifyCall, out: OutOption) -> None:
    """Verify that a closed month's figures can be reproduced to the last digit, or list the inputs that changed.

    Compares the bundle's files with their digests, its seal with the store's log, and the current store, configuration,
    catalog and program with the sealed ones; then computes the figures again and compares them. The bundle is not changed.
    Like a report, the command attributes new data first. Exit code 1 if figures differ or the bundle was changed.

    \b
    Examples:
      gpucost chargeback verify --out /srv/chargeback
      gpucost chargeback verify --month 2026-10 --out /srv/chargeback --format json
    """
    from gpucost.publish.chargeback import ChargebackQuery
    from gpucost.publish.verify import verify

    name, period, title = _month(call)
    target, manifest = _sealed(call, name, out)
    query = ChargebackQuery(
        name, period, title, call.now, manifest["share_unallocated"], manifest["focus"]["version"]
    )
    with call.status() as show_progress:
        found = verify(call.settings, call.store, query, target, manifest, show_progress)
    call.write_rows(("check", "result", "detail"), found.rows)
    if found.error:
        raise found.error
    moved = "; the changed inputs have no effect" if found.changed else ""
    call.note(f"{name} is verified: the figures agree to the last digit{moved}")


def _command(call: Call, name: str, **options: object) -> str:
    """A command line for the same configuration and store, with the options that have a value."""
    options |= {"config": call.config_file, "store": call.store_file}
    words = [name]
    for option, value in options.items():
        if value is not None:
            words += [f"--{option.replace('_', '-')}", shlex.quote(str(value))]
    return f"gpucost {' '.join(words)}"


def _month(call: ChargebackCall | VerifyCall) -> tuple[str, Period, str]:
    """The requested month, otherwise the last complete one: `2026-10`, its period and its name.

    Raises UsageError for a future month.
    """
    month = call.month
    if month is None:
        month = f"{previous_month(call.now, call.tz).start.astimezone(call.tz):%Y-%m}"
    chosen = parse_period(call.tz, call.now, month=month)
    if chosen is None or chosen[0].start > call.now:
        raise UsageError(f"{month} has not begun", "leave out --month to use the last complete month")
    return month, *chosen


def _foreign(old: Path, previous: JsonObject | None) -> list[Path]:
    """Files that someone added to the old bundle; they stay."""
    from gpucost.publish.chargeback import FILE

    bundle_files = {FILE, *(entry["file"] for entry in (previous or {}).get("files", []))}
    return [
        path
        for path in sorted(old.rglob("*"))
        if not path.is_dir() and path.relative_to(old).as_posix() not in bundle_files
    ]


def _print_result(call: Call, manifest: JsonObject, target: Path) -> None:
    """Print the month's sums and the path of the index."""
    totals, currency = manifest["totals"], manifest["currency"]
    charged, free = (
        figure_text(totals[name], "money", currency, 2) for name in ("charge", "unallocated_cost")
    )
    call.say("; ".join([f"GPU chargeback {manifest['month']}: {manifest['state']}", *manifest["reasons"]]))
    charged_to = "" if manifest["share_unallocated"] else ", charged to no team"
    call.say(f"charged to {len(manifest['teams']):,} teams: {charged}; unallocated: {free}{charged_to}")
    # on a line of its own, so that a terminal can open it
    call.say(f"Index: {target / 'index.html'}")


def collect_missing(call: Call, month: str, period: Period, now: datetime) -> int:
    """Collect the month's missing data; return the number of failed sources, each reported on stderr.

    A cloud without a login is skipped with one line and does not count as failed.
    """
    # prices last: metrics and bills decide which prices are needed
    runs: list[Run] = [
        *_metrics(call, period, now),
        *(partial(run_bills, call, section, months=[month]) for section in call.settings.bill_sections),
        partial(_prices, call, period, now),
    ]
    failed = 0
    for run in runs:
        try:
            run()
        except GpucostError as error:
            print_error(error.message, error.fix)
            failed += error.exit_code != IncompleteError.exit_code
        except typer.Exit as ended:
            # incomplete hours are not a failure of collection; every report lists them
            failed += ended.exit_code != IncompleteError.exit_code
    return failed


def _metrics(call: Call, period: Period, now: datetime) -> Iterator[Run]:
    from gpucost.collect.base import uncollected

    if period.start >= now:
        return
    due = Period(period.start, min(period.end, now))
    for source, gaps in uncollected(call.settings, call.store, due, now).items():
        for gap in gaps:
            yield partial(collect_metrics, call, [source], gap)


def _prices(call: Call, period: Period, now: datetime) -> None:
    """Collect missing spot prices and missing or old list prices, for nodes without a bill or price book."""
    from gpucost import pipeline, price

    if not call.store.exists:
        return
    days = call.settings.prices.stale_after_days
    wanting = pipeline.read_attributed(
        call.settings, call.store, lambda con: price.missing_price_sources(con, period, now, days), period
    )
    results: list[PriceResult | SpotResult] = []
    if spot := [provider for what, provider in wanting if what == "spot"]:
        results += collect_spot_prices(call, spot)
    if price_lists := [provider for what, provider in wanting if what == "prices"]:
        results += collect_list_prices(call, price_lists, ())
    if any(result.error for result in results):
        raise typer.Exit(1)
