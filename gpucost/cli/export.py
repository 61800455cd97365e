"""`gpucost export`: files for Prometheus, Grafana and Kubernetes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpucost.cli.command import Call, TargetCall, command
from gpucost.cli.output import made_folder
from gpucost.disk import write_text
from gpucost.errors import NoDataError, UsageError
from gpucost.options import MonthOption, Option
from gpucost.periods import Period, local_midnight, month_period, name_of
from gpucost.records import mixin_dataclass

if TYPE_CHECKING:
    from gpucost.publish.openmetrics import PeriodViews
    from gpucost.render.view import ReportView


@command(without="store")
def export_alerts(call: TargetCall) -> None:
    """Print alerting rules for Prometheus, with your thresholds ([alerts], [idle], [targets]) and [[budgets]].

    Alerts: idle or unallocated on-demand GPUs, long waits in Kueue queues, a low spot ratio, a budget that will not last, and
    missing metrics. They need the rules of `gpucost export recording-rules`, which contain the prices. Alerts on the month to
    date also need `gpucost export openmetrics`.

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
    image: Annotated[str, Option("Container image built from gpucost's Dockerfile.", "IMAGE", is_shown=True)],
    out: Annotated[Path, Option("Directory of the chart; an earlier chart is replaced.", "DIR")],
) -> None:
    """Write a Helm chart: CronJobs for nightly collection and monthly chargeback, their config, and a volume claim.

    The jobs run without root or capabilities, and write only to the store and /tmp. values.yaml contains the settings of a
    cluster: schedules and commands, gpucost.toml, a secret, a service account, rules for the Prometheus Operator. Keep your
    values in a separate file for `helm install -f`. Without Helm in the cluster: `helm template … | kubectl apply -f -`.

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
        raise UsageError(f"--out {out} already exists and is not a gpucost chart", "use another directory")
    for name, text in files.items():
        target = out / name
        made_folder(target.parent, "use another directory for --out")
        write_text(text, target)
    call.note(f"chart written to {out}")
    others = [
        path.name for path in sorted((out / "templates").glob("*")) if f"templates/{path.name}" not in files
    ]
    if others:
        call.note(f"note: helm also installs the other files in {out / 'templates'}: {', '.join(others)}")


@command(without="store")
def export_dashboard(call: TargetCall) -> None:
    """Print a Grafana dashboard: cost by team, GPUs by state, idle cost per hour, queues, devices.

    The JSON can be imported or provisioned from a file. The dashboard reads the rules of `gpucost export recording-rules`, the
    metrics of `gpucost export openmetrics`, and those of Kueue and dcgm-exporter. The configuration sets currency and targets.

    \b
    Examples:
      gpucost export dashboard -o gpucost-dashboard.json
      gpucost export dashboard --config prod.toml
    """
    from gpucost.publish.rules import dashboard

    call.deliver(dashboard(call.settings), "dashboard")


@mixin_dataclass
class MonthCall(MonthOption, TargetCall):
    """A command for one month."""


@command()
def export_openmetrics(
    call: MonthCall,
    pushgateway: Annotated[
        str | None, Option("Address of a Pushgateway to send to, instead of printing.", "URL")
    ] = None,
    job: Annotated[
        str, Option("Job name of the metrics in the Pushgateway.", "NAME", is_shown=True)
    ] = "gpucost",
) -> None:
    """Write the cost of teams as metrics: the month to date, and the last fully collected day.

    The figures equal those of `gpucost report`. The text is valid in OpenMetrics and in Prometheus' own format: for
    node-exporter's textfile collector (use -o with a file in its directory) or for a Pushgateway. Default: this month.

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
    """The month to date and the last complete day; a note names the one without data.

    Raises NoDataError if both have no data, or if the month of --month has none.
    """
    tz = call.tz
    month = call.explicit_period or month_period(call.now.astimezone(tz).date(), tz)
    views = _views(call, "month_to_date", month, must_have_data=call.explicit_period is not None)
    end = min(call.now, month.end, *(view.end for view in views))
    last = local_midnight(end.astimezone(tz).date(), tz)
    first = local_midnight((last - timedelta(hours=1)).astimezone(tz).date(), tz)
    return views + _views(call, "last_day", Period(first, last), must_have_data=not views)


def _views(call: Call, name: str, period: Period, *, must_have_data: bool) -> list[PeriodViews]:
    """The reports of a period; without data an empty list and a note, or NoDataError if `must_have_data`."""
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
        call.note(f"skipped {name}: {error.message}")
        return []
    reached = by_team.coverage.collected_to or period.end
    return [
        PeriodViews(name, period, by_team, report("gpu_model", "capacity_type"), end=min(reached, period.end))
    ]


@command()
def export_recording_rules(call: TargetCall) -> None:
    """Print recording rules for Prometheus: GPUs by namespace and state, unallocated GPUs by node, and their cost per hour.

    The rules contain the latest prices of the nodes in the store, or catalog prices if the store is empty or missing. Print
    them again after prices change. `gpucost export alerts` and the dashboard use these rules.

    \b
    Examples:
      gpucost export recording-rules -o gpucost-recording.yml
      gpucost export recording-rules --store gpucost.duckdb
    """
    from gpucost.publish.rules import recording_rules, rule_prices

    call.deliver(recording_rules(call.settings, rule_prices(call.settings, call.store)), "recording rules")
