"""`gpucost export alerts`: alerting rules with the user's own thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpucost.cli.command import Call, TargetCall, command
from gpucost.cli.output import made_folder
from gpucost.disk import write_text
from gpucost.errors import NoDataError, UsageError
from gpucost.options import MonthOption, Option
from gpucost.periods import Period, local_midnight, month_period, name_of

if TYPE_CHECKING:
    from gpucost.publish.openmetrics import PeriodViews
    from gpucost.render.view import ReportView


@command(without="store")
def export_alerts(call: TargetCall) -> None:
    """Print alerting rules for Prometheus, with the thresholds of [alerts], [idle] and [targets] and the amounts of [[budgets]].

    On-demand GPUs that idle or that nobody holds, Kueue queues that make people wait, a low spot ratio, a budget that will not
    last, and metrics that are missing. They need the rules of `gpucost export recording-rules`, which hold the prices; those
    that know month to date need `gpucost export openmetrics`.

    \b
    Examples:
      gpucost export alerts -o gpucost-alerts.yml
      gpucost export alerts --config prod.toml -o gpucost-alerts.yml
    """
    from gpucost.publish.rules import alerting_rules

    call.deliver(alerting_rules(call.settings, call.now.astimezone(call.tz).date()), "alerting rules")


@command(without="store")
def export_chart(
    call: Call,
    image: Annotated[str, Option("Image that the Dockerfile of gpucost makes.", "IMAGE", is_shown=True)],
    out: Annotated[Path, Option("Directory of the chart; an earlier chart in it is written anew.", "DIR")],
) -> None:
    """Write a Helm chart: CronJobs that collect each night and charge each month, their config, the claim for their store.

    The jobs run without root and capabilities, and write to the store and /tmp only. What differs from cluster to cluster stands
    in values.yaml: schedules and commands, gpucost.toml, a secret, a service account, rules for the Prometheus Operator. Keep
    your own values in a file beside the chart, for `helm install -f`. Without Helm in the cluster: `helm template … | kubectl
    apply -f -`.

    \b
    Examples:
      gpucost export chart --image registry.example.com/gpucost:1.0 --out gpucost-chart
      helm install gpucost ./gpucost-chart --namespace gpucost --create-namespace --set-file config=gpucost.toml
    """
    from gpucost.publish.kubernetes import chart

    files = chart(image, call.settings.timezone)
    out = out.expanduser()
    earlier = out / "Chart.yaml"
    is_ours = (
        earlier.is_file()
        and "name: gpucost" in earlier.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    if out.exists() and not is_ours and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(
            f"--out {out} is there already and holds no chart of gpucost", "--out names another directory"
        )
    for name, text in files.items():
        target = out / name
        made_folder(target.parent, "--out names another directory")
        write_text(text, target)
    call.note(f"chart written to {out}")
    others = [
        path.name for path in sorted((out / "templates").glob("*")) if f"templates/{path.name}" not in files
    ]
    if others:
        call.note(f"note: helm also installs what else lies in {out / 'templates'}: {', '.join(others)}")


@command(without="store")
def export_dashboard(call: TargetCall) -> None:
    """Print a Grafana dashboard: cost by team, GPUs by state, idle cost an hour, queues, devices.

    JSON to import, or to provision from a file. It reads the rules of `gpucost export recording-rules`, the metrics of
    `gpucost export openmetrics`, Kueue's and dcgm-exporter's. Currency and targets are those of the configuration.

    \b
    Examples:
      gpucost export dashboard -o gpucost-dashboard.json
      gpucost export dashboard --config prod.toml
    """
    from gpucost.publish.rules import dashboard

    call.deliver(dashboard(call.settings), "dashboard")


@dataclass(frozen=True, kw_only=True)
class MonthCall(MonthOption, TargetCall):
    """A command about a month."""


@command()
def export_openmetrics(
    call: MonthCall,
    pushgateway: Annotated[str | None, Option("Send to this Pushgateway instead of printing.", "URL")] = None,
    job: Annotated[str, Option("What the Pushgateway calls the metrics.", "NAME", is_shown=True)] = "gpucost",
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
    from gpucost.publish.openmetrics import group_url, openmetrics, push

    if pushgateway is not None and call.target is not None:
        raise UsageError("--pushgateway and -o exclude each other", "give one of them")
    group = None if pushgateway is None else group_url(pushgateway, job)
    text = openmetrics(_periods(call))
    if group is None:
        call.deliver(text, "metrics")
        return
    push(text, group)
    call.note("metrics sent to the Pushgateway")


def _periods(call: Call) -> list[PeriodViews]:
    """The month so far and the last complete day; a note names the one without data.

    Raises NoDataError if neither has data, or if the month of --month has none.
    """
    tz = call.tz
    month = call.given_period or month_period(call.now.astimezone(tz).date(), tz)
    views = _views(call, "month_to_date", month, must_have_data=call.given_period is not None)
    end = min(call.now, month.end, *(view.end for view in views))
    last = local_midnight(end.astimezone(tz).date(), tz)
    first = local_midnight((last - timedelta(hours=1)).astimezone(tz).date(), tz)
    return views + _views(call, "last_day", Period(first, last), must_have_data=not views)


def _views(call: Call, name: str, period: Period, *, must_have_data: bool) -> list[PeriodViews]:
    """The reports of a period; none, and a note, if it has no data and may have none."""
    from gpucost.publish.openmetrics import PeriodViews

    def report(*by: str) -> ReportView:
        return call.report(
            period=period, period_name=name_of(period, call.tz), by=by, with_sections=False, may_be_idle=True
        )

    try:
        by_team = report("team")
    except NoDataError as error:
        if must_have_data:
            raise
        call.note(f"{name} is left out: {error.message}")
        return []
    reached = by_team.coverage.collected_to or period.end
    return [
        PeriodViews(name, period, by_team, report("gpu_model", "capacity_type"), end=min(reached, period.end))
    ]


@command()
def export_recording_rules(call: TargetCall) -> None:
    """Print recording rules for Prometheus: GPUs by namespace and state, unallocated GPUs by node, and what they cost an hour.

    Prices are those that the nodes in the store had last; with an empty store, or none, the catalog's. Print them again when
    prices change. `gpucost export alerts` and the dashboard read what these rules record.

    \b
    Examples:
      gpucost export recording-rules -o gpucost-recording.yml
      gpucost export recording-rules --store gpucost.duckdb
    """
    from gpucost.publish.rules import recording_rules, rule_prices

    call.deliver(recording_rules(call.settings, rule_prices(call.settings, call.store)), "recording rules")
