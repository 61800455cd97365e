"""Collects what the store lacks of a month: metrics, bills, and prices that nothing else tells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from gpucost.cli._common import INTERRUPTED
from gpucost.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.store import Store

    Run = Callable[[], None]


def collect_missing(
    settings: Config,
    opened: Store,
    month: str,
    period: Period,
    now: datetime,
    *,
    config: Path | None,
    store: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Collect what the store lacks of the month; returns how many sources failed, each told on stderr.

    A cloud that nobody is logged in to is skipped, in one line, and is no failure.
    """
    shared: dict[str, Any] = {"config": config, "store": store, "quiet": quiet, "verbose": verbose}
    runs: list[Run] = [
        *_metrics(settings, opened, period, now, shared),
        *_bills(settings, month, shared),
        # last: metrics and bills say whose prices are wanting
        partial(_prices, settings, opened, period, now, quiet=quiet, verbose=verbose),
    ]
    failed = 0
    for run in runs:
        try:
            run()
        except typer.Exit as ended:
            if ended.exit_code >= INTERRUPTED:
                raise
            # what is incomplete, and not for want of asking, whoever reads the store will say
            failed += ended.exit_code != IncompleteError.exit_code
    return failed


def _metrics(settings: Config, opened: Store, period: Period, now: datetime, shared: dict[str, Any]) -> Iterator[Run]:
    from gpucost.cli.collect_prometheus import collect_prometheus
    from gpucost.collect.windows import uncollected
    from gpucost.model import Period, iso

    if period.start >= now:
        return
    due = Period(period.start, min(period.end, now))
    for source, gaps in uncollected(settings, opened, due, now).items():
        for gap in gaps:
            yield partial(collect_prometheus, start=iso(gap.start), end=iso(gap.end), source=[source], **shared)


def _bills(settings: Config, month: str, shared: dict[str, Any]) -> Iterator[Run]:
    from gpucost.cli.collect_aws import collect_aws
    from gpucost.cli.collect_azure import collect_azure
    from gpucost.cli.collect_focus import collect_focus
    from gpucost.cli.collect_gcp import collect_gcp

    if settings.aws.exports:
        yield partial(collect_aws, **shared)
    if settings.gcp.exports or settings.gcp.billing_table:
        yield partial(collect_gcp, month=[month], **shared)
    if settings.azure.exports or settings.azure.cost_scope:
        yield partial(collect_azure, month=[month], **shared)
    if settings.focus.exports:
        yield partial(collect_focus, **shared)


def _prices(settings: Config, opened: Store, period: Period, now: datetime, *, quiet: bool, verbose: bool) -> None:
    """Of clouds whose nodes no bill and no price book prices: the spot history, and list prices that are old or not there."""
    from gpucost import pipeline, price
    from gpucost.cli import collect_prices, collect_spot

    if not opened.exists:
        return
    days = settings.prices.stale_after_days
    wanting = pipeline.read_attributed(settings, opened, lambda con: price.wanting(con, period, now, days), period)
    failed = False
    if spot := [provider for what, provider in wanting if what == "spot"]:
        failed = not collect_spot.ask_clouds(settings, opened, spot, quiet=quiet, verbose=verbose)
    if listed := [provider for what, provider in wanting if what == "prices"]:
        results = collect_prices.ask_clouds(settings, opened, listed, (), quiet=quiet, verbose=verbose)
        failed = failed or any(result.error for result in results)
    if failed:
        raise typer.Exit(1)
