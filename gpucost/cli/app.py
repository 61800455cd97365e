"""The program: every command, and nothing that a command does."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from gpucost import __version__
from gpucost.cli._groups import DEFAULT, DefaultCommandGroup
from gpucost.cli.anomalies import anomalies
from gpucost.cli.budget_check import budget_check
from gpucost.cli.chargeback import chargeback
from gpucost.cli.collect_aws import collect_aws
from gpucost.cli.collect_azure import collect_azure
from gpucost.cli.collect_focus import collect_focus
from gpucost.cli.collect_gcp import collect_gcp
from gpucost.cli.collect_prices import collect_prices
from gpucost.cli.collect_progress import collect_progress
from gpucost.cli.collect_prometheus import collect_prometheus
from gpucost.cli.collect_spot import collect_spot
from gpucost.cli.config_show import config_show
from gpucost.cli.demo import demo
from gpucost.cli.diff import diff
from gpucost.cli.doctor import doctor
from gpucost.cli.explain_namespace import explain_namespace
from gpucost.cli.explain_node import explain_node
from gpucost.cli.explain_team import explain_team
from gpucost.cli.explain_workload import explain_workload
from gpucost.cli.export_alerts import export_alerts
from gpucost.cli.export_cronjob import export_cronjob
from gpucost.cli.export_dashboard import export_dashboard
from gpucost.cli.export_openmetrics import export_openmetrics
from gpucost.cli.export_recording_rules import export_recording_rules
from gpucost.cli.findings import findings
from gpucost.cli.forecast import forecast
from gpucost.cli.init import init
from gpucost.cli.notify_email import notify_email
from gpucost.cli.notify_slack import notify_slack
from gpucost.cli.notify_webhook import notify_webhook
from gpucost.cli.prices import prices
from gpucost.cli.prices_history import prices_history
from gpucost.cli.prices_tco import prices_tco
from gpucost.cli.queue import queue
from gpucost.cli.reconcile import reconcile
from gpucost.cli.report import report
from gpucost.cli.schema import schema
from gpucost.cli.sql import sql
from gpucost.cli.store_info import store_info
from gpucost.cli.unit_epoch import unit_epoch
from gpucost.cli.unit_experiment import unit_experiment
from gpucost.cli.unit_requests import unit_requests
from gpucost.cli.unit_tokens import unit_tokens
from gpucost.cli.waste import waste
from gpucost.cli.whatif_burst import whatif_burst
from gpucost.cli.whatif_buy import whatif_buy
from gpucost.cli.whatif_compare import whatif_compare
from gpucost.cli.whatif_egress import whatif_egress
from gpucost.cli.whatif_plan import whatif_plan
from gpucost.cli.whatif_reserve import whatif_reserve
from gpucost.cli.whatif_rightsize import whatif_rightsize
from gpucost.cli.whatif_schedule import whatif_schedule
from gpucost.cli.whatif_share import whatif_share
from gpucost.cli.whatif_spot import whatif_spot


def _group(help: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(
        help=help,
        cls=kind,
        no_args_is_help=True,
        # Plain help comes up in a third of the time that boxes take, and reads the same in a pipe.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpucost {__version__}")
        raise typer.Exit


app = _group("What your GPUs cost, who used them, and what you could do about it.")


@app.callback(
    epilog="Start with: gpucost demo. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a budget or target is missed, "
    "4 the period asked for is incomplete, 130 interrupted.",
)
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """What your GPUs cost, who used them, and what you could do about it."""


config_group = _group("The configuration in force.")
config_group.command("show")(config_show)

collect_group = _group("Pull data from a source into the store.")
collect_group.command("prometheus")(collect_prometheus)
collect_group.command("aws")(collect_aws)
collect_group.command("gcp")(collect_gcp)
collect_group.command("azure")(collect_azure)
collect_group.command("focus")(collect_focus)
collect_group.command("spot")(collect_spot)
collect_group.command("prices")(collect_prices)
collect_group.command("progress")(collect_progress)

explain_group = _group("Where a figure comes from.")
explain_group.command("node")(explain_node)
explain_group.command("team")(explain_team)
explain_group.command("namespace")(explain_namespace)
explain_group.command("workload")(explain_workload)

prices_group = _group("What a GPU costs where, and where that is known from.", DefaultCommandGroup)
prices_group.command(DEFAULT, hidden=True)(prices)
prices_group.command("tco")(prices_tco)
prices_group.command("history")(prices_history)

store_group = _group("The store: one DuckDB file.")
store_group.command("info")(store_info)

unit_group = _group("What a unit of work costs: an epoch, an experiment, 1,000 requests, a million tokens.")
unit_group.command("epoch")(unit_epoch)
unit_group.command("experiment")(unit_experiment)
unit_group.command("requests")(unit_requests)
unit_group.command("tokens")(unit_tokens)

whatif_group = _group("What a change would save: the same stages run on edited usage, prices or both.")
whatif_group.command("spot")(whatif_spot)
whatif_group.command("schedule")(whatif_schedule)
whatif_group.command("share")(whatif_share)
whatif_group.command("rightsize")(whatif_rightsize)
whatif_group.command("plan")(whatif_plan)
whatif_group.command("compare")(whatif_compare)
whatif_group.command("reserve")(whatif_reserve)
whatif_group.command("buy")(whatif_buy)
whatif_group.command("egress")(whatif_egress)
whatif_group.command("burst")(whatif_burst)

export_group = _group("What other tools read: Prometheus, Grafana, Kubernetes.")
export_group.command("alerts")(export_alerts)
export_group.command("recording-rules")(export_recording_rules)
export_group.command("dashboard")(export_dashboard)
export_group.command("openmetrics")(export_openmetrics)
export_group.command("cronjob")(export_cronjob)

budget_group = _group("Budgets and targets of teams and of the fleet.")
budget_group.command("check")(budget_check)

notify_group = _group("Send the summary of a report.")
notify_group.command("slack")(notify_slack)
notify_group.command("webhook")(notify_webhook)
notify_group.command("email")(notify_email)

app.command("demo")(demo)
app.command("init")(init)
app.command("doctor")(doctor)
app.add_typer(config_group, name="config")
app.add_typer(collect_group, name="collect")
app.command("report")(report)
app.command("waste")(waste)
app.command("findings")(findings)
app.command("queue")(queue)
app.command("chargeback")(chargeback)
app.command("reconcile")(reconcile)
app.command("diff")(diff)
app.add_typer(budget_group, name="budget")
app.command("forecast")(forecast)
app.command("anomalies")(anomalies)
app.add_typer(explain_group, name="explain")
app.add_typer(prices_group, name="prices")
app.add_typer(store_group, name="store")
app.add_typer(unit_group, name="unit")
app.add_typer(whatif_group, name="whatif")
app.add_typer(export_group, name="export")
app.add_typer(notify_group, name="notify")
app.command("schema")(schema)
app.command("sql")(sql)
