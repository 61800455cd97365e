"""`gpucost export openmetrics`: the report's figures as metrics, for a file that node-exporter reads or for a Pushgateway."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note
from gpucost.cli._exports import OutputOption, deliver
from gpucost.cli._periods import MonthOption
from gpucost.errors import GpucostError, UsageError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.export.openmetrics import PeriodViews
    from gpucost.model import Period
    from gpucost.report import ReportView
    from gpucost.store import Store


@handle_errors
def export_openmetrics(
    month: MonthOption = None,
    output: OutputOption = None,
    pushgateway: Annotated[
        str | None,
        typer.Option("--pushgateway", metavar="URL", help="Send to this Pushgateway instead of printing.", show_default=False),
    ] = None,
    job: Annotated[str, typer.Option("--job", metavar="NAME", help="What the Pushgateway calls the metrics.")] = "gpucost",
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write what teams cost as metrics: the month so far, and the last day that was collected in full.

    The figures are those of `gpucost report`. The text is OpenMetrics, and Prometheus' own format, too: for node-exporter's
    textfile collector (-o, a file in its directory, replaced in one step) or for a Pushgateway. Without --month: this month.

    \b
    Examples:
      gpucost export openmetrics -o /var/lib/node_exporter/textfile/gpucost.prom
      gpucost export openmetrics --pushgateway http://pushgateway:9091
      gpucost export openmetrics --month 2026-10
    """
    from datetime import UTC

    from gpucost.cli._periods import parse_period
    from gpucost.export.openmetrics import openmetrics
    from gpucost.export.push import group_url, push
    from gpucost.timeline import month_period

    if pushgateway is not None and output is not None:
        raise UsageError("--pushgateway and -o exclude each other", "give one of them")
    group = None if pushgateway is None else group_url(pushgateway, job)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    chosen = parse_period(settings.tz, now, month=month)
    whole = chosen[0] if chosen else month_period(now.astimezone(settings.tz).date(), settings.tz)
    text = openmetrics(_periods(settings, opened, whole, now, is_wanted=chosen is not None, quiet=quiet))
    if group is None:
        deliver(text, output, "metrics", quiet=quiet)
        return
    push(text, group)
    note("metrics sent to the Pushgateway", quiet=quiet)


def _periods(config: Config, store: Store, month: Period, now: datetime, *, is_wanted: bool, quiet: bool) -> list[PeriodViews]:
    """The month so far and the last complete day; what holds no data is left out, which a note says.

    Raises GpucostError where neither holds data, or not the month that `is_wanted`.
    """
    from gpucost.model import Period
    from gpucost.timeline import local_midnight

    found = []
    end = min(now, month.end)
    try:
        found.append(_views(config, store, "month_to_date", month, now))
        end = min(end, found[0].end)
    except GpucostError as error:
        if is_wanted or not _has_no_data(error):
            raise
        note(f"the month is left out: {error.message}", quiet=quiet)
    last = local_midnight(end.astimezone(config.tz).date(), config.tz)
    first = local_midnight((last - timedelta(hours=1)).astimezone(config.tz).date(), config.tz)
    try:
        found.append(_views(config, store, "last_day", Period(first, last), now))
    except GpucostError as error:
        if not found or not _has_no_data(error):
            raise
        note(f"the last day is left out: {error.message}", quiet=quiet)
    return found


def _has_no_data(error: GpucostError) -> bool:
    # a period without data is a plain GpucostError; other failures have classes of their own
    return type(error) is GpucostError


def _views(config: Config, store: Store, name: str, period: Period, now: datetime) -> PeriodViews:
    from gpucost.export.openmetrics import PeriodViews

    by_team = _report(config, store, period, now, "team")
    reached = by_team.coverage.collected_to or period.end
    return PeriodViews(
        name, period, by_team, _report(config, store, period, now, "gpu_model", "capacity_type"), end=min(reached, period.end)
    )


def _report(config: Config, store: Store, period: Period, now: datetime, *by: str) -> ReportView:
    from gpucost import pipeline
    from gpucost.report import Query
    from gpucost.timeline import name_of

    query = Query(period=period, period_name=name_of(period, config.tz), by=by, now=now, with_sections=False, may_be_idle=True)
    return pipeline.report(config, store, query)
