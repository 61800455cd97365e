"""Common behavior of all what-if commands: options, refused options, and today's cost, equal to the report's."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.questions.whatif.view import document
from gpucost.render.terminal import render as to_terminal
from gpucost.store.usage import read_cost, read_usage
from gpucost.whatif.answer import Answer, Position, Range
from tests.text_tables import table
from tests.unit.command import answer, check_end
from tests.unit.stage_tables import Tables
from tests.unit.whatif_costs import assert_refused

SCOPE = {"teams", "namespaces", "workloads", "clusters"}
TIME = {"month", "start", "end", "last"}
SHARED = SCOPE | TIME | {"format", "target", "config", "store", "quiet", "verbose", "profile"}
# a plan sets the scope of each of its groups
WITHOUT = {"plan": SCOPE}


def test_every_what_if_has_the_shared_options() -> None:
    program: Any = typer.main.get_command(app)
    for name, command in program.commands["whatif"].commands.items():
        taken = {parameter.name for parameter in command.params}
        assert taken & SHARED == SHARED - WITHOUT.get(name, set()), name


def test_zero_counts_as_given_and_an_omitted_flag_does_not() -> None:
    found = answer("whatif spot --on-demand-price 32 --spot-price 12 --restart-minutes 0")
    stated = {one["name"]: (one["value"], one["source"]) for one in found["assumptions"]}
    assert (stated["restart (provision, pull, load)"], stated["kept on demand"]) == (
        (0, "option"),
        (0, "default"),
    )


def test_today_of_a_fleet_or_cluster_includes_unallocated_cost(demo: Config) -> None:
    parts = ("cost", "unallocated_cost", "not_collected_cost")
    for where in ("", "--cluster hpc"):
        scope = f"--month 2026-10 --config {demo.path} {where}"
        totals = answer(f"report {scope}")["totals"]
        assert totals["unallocated_cost"] > 0
        today = answer(f"whatif schedule --idle-minutes 30 {scope}")["today"]
        assert today["cost"] == pytest.approx(sum(totals[part] or 0 for part in parts), abs=1e-9)


PRICES = "--input-price-per-million 1 --output-price-per-million 1"


TEAM = "--team research"


@pytest.mark.parametrize(
    ("what_if", "scope"),
    [
        *((name, TEAM) for name in ("spot", "schedule", "share", "rightsize", "move --wait-minutes 0")),
        (f"tokens {PRICES}", "--workload Deployment/chat-api"),
    ],
)
def test_today_of_a_team_or_workload_is_the_cost_of_its_pods(demo: Config, what_if: str, scope: str) -> None:
    scope = f"{scope} --month 2026-10 --config {demo.path}"
    cost = answer(f"report {scope}")["totals"]["cost"]
    assert answer(f"whatif {what_if} {scope}")["today"]["cost"] == cost


def test_unknown_team_is_named_with_the_period(demo: Config) -> None:
    check_end(
        f"whatif spot --team x --month 2026-10 --config {demo.path}", "1", "'x' held GPUs in October 2026"
    )


def test_plan_of_a_team_agrees_with_its_what_if(demo: Config, tmp_path: Path) -> None:
    scope, file = f"--month 2026-10 --config {demo.path}", tmp_path / "plan.toml"
    file.write_text("""
        groups = [{name = "research", teams = ["research"]}]
        steps = [{change = "spot", groups = ["research"], price_per_gpu_hour = 1}]
    """)
    plan = answer(f"whatif plan {file} {scope}")
    spot = answer(f"whatif spot {TEAM} --price-per gpu --spot-price 1 {scope}")
    assert plan["today"]["cost"] == spot["today"]["cost"]
    assert 1000 < plan["saving"] == pytest.approx(spot["saving"], rel=1e-8)


def test_usage_splits_a_node_at_its_stops(tables: Tables) -> None:
    tables.add("nodes: node_id, cluster, node, gpu_count, up_from_ms, up_to_ms", "1, 'c', 'n', 8, 0, 100")
    tables.add("collected: cluster, from_ms, to_ms", "'c', 10, 90")
    tables.add("node_stops: node_id, from_ms, to_ms", "1, 20, 30", "1, 50, 60")
    nodes = read_usage(tables.con, 0, 80, clusters=["c"]).nodes
    assert [(node["from_ms"], node["to_ms"]) for node in nodes] == [(10, 20), (30, 50), (60, 80)]
    assert read_usage(tables.con, 0, 80, clusters=["other"]).nodes == []
    assert read_usage(tables.con, 0, 80, teams=["other"]).nodes == []


def test_cost_of_a_period_counts_only_its_cells(tables: Tables) -> None:
    hour = 3_600_000
    tables.add("nodes: node_id, cluster, node", "1, 'c', 'n'")
    tables.add("allocations: allocation_id, node_id, namespace, workload", "5, 1, 'ns', 'Job/a'")
    tables.add(
        "cost_runs: kind, from_ms, to_ms, hours, node_id, allocation_id, team, cost",
        f"'allocated', 0, {hour}, 10, 1, 5, 't', 2",
        f"'unallocated', 0, {hour}, 10, 1, NULL, NULL, 1",
        f"'not_collected', {20 * hour}, {21 * hour}, 1, 1, NULL, NULL, 7",
    )
    assert read_cost(tables.con, 0, 30 * hour) == (20, 37)
    assert read_cost(tables.con, 2 * hour, 5 * hour) == (6, 9)
    assert read_cost(tables.con, 2 * hour, 5 * hour, teams=["t"], workloads=["a"]) == (6, 6)
    assert read_cost(tables.con, 2 * hour, 5 * hour, workloads=["b*"]) == (0, 0)


def test_workload_named_like_a_pattern_is_found_by_its_name(tables: Tables) -> None:
    """Slurm's job names may have brackets."""
    tables.add("nodes: node_id, cluster, node", "1, 'c', 'n'")
    tables.add("allocations: allocation_id, node_id, namespace, workload", "5, 1, 'ns', 'Job/a[1]'")
    tables.add(
        "cost_runs: kind, from_ms, to_ms, hours, node_id, allocation_id, team, cost",
        "'allocated', 0, 3600000, 1, 1, 5, 't', 2",
    )
    for name, cost in (("Job/a[1]", 2), ("a[1]", 2), ("a*", 2), ("a[2]", 0)):
        assert read_cost(tables.con, 0, 3_600_000, workloads=[name]) == (cost, cost), name


pytestmark = pytest.mark.usefixtures("nowhere")

NAMES = {
    "ON": "--on-demand-price 32",
    "BOTH": "--on-demand-price 32 --spot-price 12",
    "OWN": "--purchase-price 280000 --gpu-watts 700 --years 4 --price-per-kwh 0.12",
    "TOKENS": "--prompt-tokens-per-day 4B --generation-tokens-per-day 800M",
    "PRICES": "--input-price-per-million 2.5 --output-price-per-million 10",
    "REPLICA": "--gpus-per-replica 2 --replica-tokens-per-second 9000",
}
NAMES["PRICED"] = "{TOKENS} {PRICES}".format(**NAMES)
NAMES["SERVED"] = "{PRICED} --peak-factor 3 {REPLICA}".format(**NAMES)
# code 2: wrong options; code 1: missing data
REFUSED = table("""
    command   | code | options                                              | message
    reserve   | 2    | --nodes 4                                            | --on-demand-price is missing
    reserve   | 2    | {ON} --commitment-discount 2=1                       | YEARS is 1 or 3
    reserve   | 2    | {ON} --commitment-discount gift:1=1                  | invalid: 'gift:1=1'
    reserve   | 2    | {ON} --commitment-discount 1                         | invalid: '1'
    reserve   | 2    | {ON} --commitment-discount 1=100                     | at most 99
    reserve   | 2    | --nodes 1 --instance-type a2-highgpu-8g              | --region of a place whose price is known
    reserve   | 2    | --instance-type a2-highgpu-8g {ON}                   | --region names one: asia
    reserve   | 2    | --nodes 1 --instance-type a2-highgpu-9g              | did you mean a2-highgpu-
    reserve   | 2    | --nodes 1 {ON} --region us-east-1                    | --region is of an --instance-type
    reserve   | 2    | --hours 731 {ON}                                     | at most 730
    reserve   | 2    | --month 2026-10 --nodes 1 {ON}                       | describes usage by options
    reserve   | 1    | --nodes 4 {ON}                                       | prices of commitments are missing
    reserve   | 1    |                                                      | store not found
    buy       | 2    | --nodes 2 --on-demand-price 3                        | purchase_price
    buy       | 2    | {OWN} --nodes 2                                      | --on-demand-price is missing
    buy       | 2    | {OWN} --residual-percent 120 --nodes 1 {ON}          | --residual-percent is 120
    buy       | 1    | none.toml --nodes 2                                  | cannot read none.toml
    buy       | 1    | {OWN}                                                | store not found
    move      | 2    | --namespace ci                                       | --wait-minutes is missing
    move      | 2    | --wait-minutes 5 --egress-gb 10                      | --egress-price-per-gb is missing
    move      | 2    | --starts-per-day 3                                   | the data or the number of starts is missing
    move      | 2    | --gb-per-start 1 --wait-minutes 5                    | --wait-minutes has no meaning with --gb-per-start
    move      | 2    | --gb-per-start 1                                     | the number of starts is missing
    move      | 2    | --gb-per-start 1 --starts-per-day 3 --team x         | leave out --team
    move      | 1    | --wait-minutes 0                                     | store not found
    move      | 2    | --gb-per-start 1 --month 2026-10                     | --month has no meaning with --gb-per-start
    share     | 2    | --method mig --ways 3                                | --ways
    schedule  | 2    | --nodes 2                                            | --on-demand-price
    schedule  | 2    | {ON}                                                 | --active-hours-per-day
    schedule  | 2    | {ON} --active-hours-per-day 5 --month 2026-10        | --month
    schedule  | 2    | {ON} --active-hours-per-day 5 --office-hours 08:00-18:00 | --office-hours has no meaning
    schedule  | 2    | {ON} --active-hours-per-day 5 --idle-minutes 5       | --idle-minutes
    schedule  | 2    | --office-hours early                                 | 08:00-18:00
    schedule  | 2    | --office-hours 08:00-18:00 --weekdays mo-fr          | mon-fri
    spot      | 2    | {BOTH} --interruptions-per-hour -1                   | of at least 0
    spot      | 2    | {BOTH} --hours 0.25                                  | longer than the job
    spot      | 2    | {ON}                                                 | --spot-price is missing
    spot      | 2    | --instance-type p4d.25xlarge                         | p4d.24xlarge
    spot      | 2    | --instance-type p4d.24xlarge                         | --region
    spot      | 2    | --instance-type p4d.24xlarge --region us-east-1 --gpus 4 | has 8 GPUs
    spot      | 2    | {BOTH} --region us-east-1                            | --instance-type
    spot      | 2    | {BOTH} --team research                               | --team
    spot      | 2    | {BOTH} --interruptions-per-hour 9999                 | never end
    spot      | 2    | {BOTH} --hours 9e9                                   | at most 87,840
    spot      | 2    | --on-demand-price 1e30 --spot-price 12               | at most 10,000,000
    spot      | 1    | --team research                                      | store not found
    tokens    | 2    | --prompt-tokens-per-day 4B {PRICES} {REPLICA} {ON} | --generation-tokens-per-day are not both given
    tokens    | 2    | --prompt-tokens-per-day 0 --generation-tokens-per-day 0 {REPLICA} {ON} | are not both given, or are 0
    tokens    | 2    | {TOKENS} --peak-factor 3 {REPLICA} {ON}              | the API's prices are missing
    tokens    | 2    | --prompt-tokens-per-day many --generation-tokens-per-day 1 | 'many' is not a number of at least 0
    tokens    | 2    | {PRICED} {REPLICA} {ON}                              | a number of the replicas is missing
    tokens    | 2    | {PRICED} --peak-factor 25                            | at most 24
    tokens    | 2    | --on-demand-price 3                                  | the replicas are missing
    tokens    | 2    | {PRICED} {ON}                                        | the replicas are missing
    tokens    | 2    | {PRICED} --peak-factor 3 --gpus-per-replica 2 {ON}   | a number of the replicas is missing
    tokens    | 2    | {PRICED} --peak-factor 3 --replica-tokens-per-second 9 {ON} | a number of the replicas is missing
    tokens    | 2    | {SERVED}                                             | --on-demand-price is missing
    tokens    | 2    | {SERVED} {ON} --team x                               | leave out --team
    tokens    | 2    | {SERVED} {ON} --region us-east-1                     | --region is of an --instance-type
    tokens    | 1    |                                                      | store not found
    plan      | 2    |                                                      | FILE is missing
    plan      | 2    | plan.toml --example                                  | --example prints a plan
    plan      | 1    | none.toml                                            | cannot read none.toml""")


@pytest.mark.parametrize("command", dict.fromkeys(row["command"] for row in REFUSED))
def test_unusable_options_are_refused(command: str) -> None:
    for row in REFUSED:
        if row["command"] == command:
            words = row.get("options", "").format(**NAMES)
            assert_refused(command, words, row["message"], int(row["code"]))


def test_range_has_the_unit_of_its_figure() -> None:
    cost = Position(Decimal(5), "USD")
    ranges = (
        Range("cost", 1.0, 2.5, "USD", "low to high"),
        Range("time", 3.5, 18.0, "% longer", "low to high"),
    )
    page = document(Answer("spot", "", "", cost, cost, {}, (), ranges))
    shown = to_terminal(page, None, color=False)
    assert re.findall(r"(\S+ to .+?)  ", shown) == ["$1.00 to $2.50", "3.5 to 18 % longer"]
