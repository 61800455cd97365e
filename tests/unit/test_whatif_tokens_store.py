"""`gpucost whatif tokens` on tokens of a store: those of its servers and of its bills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.store.connection import Store
from gpucost.whatif.fleet import escaped_glob
from tests.replay import work
from tests.replay.cases.words import fleet, node, pod
from tests.replay.work import counter, put, stored
from tests.unit.bills import csv_text
from tests.unit.served import on_nodes
from tests.unit.test_api_cost_answers import focus
from tests.unit.test_whatif_tokens import MILLION, NODE, PRICES, REPLICA, TOKENS
from tests.unit.whatif_costs import ask, assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

# Deployment/llm holds two of the four L4s of a $4 node
COUNTED: dict[str, Sequence[tuple[float, float]]] = {
    "generation_token": [(0, 0), (1.5, 2 * MILLION), (2.5, 6 * MILLION), (20.5, 7 * MILLION)],
    "prompt_token": [(0, 0), (1.5, 8 * MILLION), (20.5, 12 * MILLION)],
    "cached_token": [(0, 0), (1.5, 1.2 * MILLION)],
}
POOLS = {
    ("prompt_token", "llm-prefill-0"): 8e6,
    ("prompt_token", "llm-decode-0"): 8e6,
    ("generation_token", "llm-decode-0"): 2e6,
    ("decode_second", "llm-decode-0"): 40_000,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """One model, and tokens of a pod that is not known."""
    config, store = stored(
        on_nodes({"serve": [("llm-0", [0, 1], 0, 24)]}, 24), tmp_path_factory.mktemp("model")
    )
    put(store, [(counter(unit, "llm-0", "chat", model="llama"), points) for unit, points in COUNTED.items()])
    away = counter("generation_token", "away-0", "edge", model="gpt-x", kind="event")
    put(store, [(away, [(2, 3 * MILLION), (4, MILLION)])], source="away")
    return config


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The pools of a model, and one on a node with a savings plan at $1 an hour."""
    described = on_nodes({"serve": [("llm-prefill-0", [0], 0, 24), ("llm-decode-0", [1, 2, 3], 0, 24)]}, 24)
    plan = pod("plan-0", "plan", [0], 0, 24, namespace="chat", owner=["Deployment", "plan"])
    nodes, pods = [*described["nodes"], node("plan", "g5.xlarge", 0, 24)], [*described["pods"], plan]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "BOOK", work.BOOK + ",,,g5.xlarge,savings_plan,1.00,USD,\n")
        config, store = stored(fleet(24, nodes, pods, {}, scrape=600), tmp_path_factory.mktemp("others"))
    put(
        store,
        [
            (counter(unit, pod, "chat", model="m"), [(0, 0), (1.5, count)])
            for (unit, pod), count in POOLS.items()
        ],
    )
    planned = {"prompt_token": 4 * MILLION, "generation_token": MILLION}
    series = [
        (counter(unit, "plan-0", "chat", model="p"), [(0.0, 0.0), (5.0, count)])
        for unit, count in planned.items()
    ]
    put(store, series, source="plan")
    assert config.path is not None
    with config.path.open("a") as text:
        text.write('[serving]\nprefill = ["*-prefill"]\ndecode = ["*-decode"]\n')
    return config


def copied(config: Config, folder: Path) -> Config:
    """The same with a store of its own, to be written to."""
    assert config.path is not None
    shutil.copyfile(config.store, folder / config.store.name)
    shutil.copyfile(config.path, folder / config.path.name)
    shutil.copyfile(config.path.with_name("prices.csv"), folder / "prices.csv")
    return load_config(folder / config.path.name, environ={}, cwd=folder)


WHEN = "--from 2026-03-10 --to 2026-03-11"


def of_store(config: Config, words: str) -> dict[str, Any]:
    return ask("tokens", f"--config {config.path} {WHEN} {words}")


def test_throughput_of_the_store_for_described_tokens(config: Config) -> None:
    replicas = "--throughput-of Deployment/llm --gpus-per-replica 2"
    words = f"{TOKENS} --peak-factor 1 {PRICES} {NODE} {replicas}"
    answer = of_store(config, words)
    # Deployment/llm made 2 + 8/4, 4, and 1 + 4/4 million with two GPUs: the busiest hours had 4 million
    assert answer["work_tokens_per_second_per_replica"] == pytest.approx(4e6 / 3600, abs=1e-6)
    # 3.5 million an hour, on replicas of two GPUs that do 2.4 million
    assert (answer["replicas_at_peak"], answer["nodes"], answer["hours"]) == (2, 1, 720)
    (full,) = [one for one in answer["assumptions"] if one["name"] == "a full replica"]
    assert full["source"].startswith("store: Deployment/llm, 3 active hours")


def test_throughput_of_pools_is_that_of_both(others: Config) -> None:
    replicas = "--throughput-of Deployment/llm-decode --gpus-per-replica 4"
    answer = of_store(others, f"{TOKENS} --peak-factor 1 {PRICES} {NODE} {replicas}")
    # 2 million by weight and 2 million generated in an hour of four GPUs
    assert answer["work_tokens_per_second_per_replica"] == pytest.approx(4e6 / 3600, abs=1e-6)


def test_own_tokens_of_the_store_bought(config: Config) -> None:
    answer = of_store(config, f"--workload Deployment/llm {PRICES}")
    assert (answer["today"]["cost"], answer["scenario"]["cost"]) == (48, 12 + 28)
    assert (answer["today"]["gpu_hours"], answer["paid_anyway_cost"]) == (48, 0)
    assert (answer["hours"], answer["assumptions"][0]["value"]) == (24, "llama")
    listed = of_store(config, "--model 'LLA*' --api-model gpt-4o --cached-share 0.1")
    assert "for gpt-4o (openai)" in listed["title"]
    assert listed["scenario"]["cost"] == pytest.approx(10.8 * 2.5 + 1.2 * 1.25 + 7 * 10)


def test_own_cost_is_that_of_the_report_and_committed_capacity_is_paid_anyway(others: Config) -> None:
    words = f"--config {others.path} {WHEN} --workload Deployment/plan"

    def totals(command: str) -> dict[str, Any]:
        told = CliRunner().invoke(app, [*command.split(), *words.split(), "--format", "json"])
        found: dict[str, Any] = json.loads(told.stdout)["totals"]
        return found

    tokens, reported = totals("unit tokens"), totals("report")
    answer = ask("tokens", f"{words} {PRICES}")
    assert answer["today"]["cost"] == tokens["cost"] == reported["cost"] == 24
    assert answer["today"]["gpu_hours"] == tokens["allocated_gpu_hours"] == reported["allocated_gpu_hours"]
    assert (answer["paid_anyway_cost"], answer["saving"]) == (24, -8)
    for name in ("prompt_tokens", "generation_tokens"):
        assert answer[name] == tokens[name]
    assert answer["own_cost_per_million_tokens"] == pytest.approx(tokens["cost_per_million_tokens"], rel=1e-6)


def test_hours_that_midnight_cuts_are_whole(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    assert config.path
    text = config.path.read_text()
    config.path.write_text(
        'timezone = "Asia/Kolkata"\n' + "\n".join(row for row in text.splitlines() if "timezone" not in row)
    )
    words = f"--config {config.path} --from 2026-03-10 --to 2026-03-12 --workload Deployment/llm {PRICES}"
    answer = ask("tokens", words)
    # local days are half an hour off: the pod held its GPUs in 24 hours of UTC from 05:30 on
    assert (answer["today"]["cost"], answer["hours"], answer["prompt_tokens"]) == (48, 24, 12 * MILLION)


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]c", "a]b", "a\\b", "\\*["])
def test_a_name_is_a_glob_of_itself_alone(name: str) -> None:
    glob = escaped_glob(name)
    other = name.replace("*", "xx").replace("?", "x")
    with duckdb.connect() as con:
        found = con.execute("SELECT $1 GLOB $2, $3 GLOB $2", [name, glob, other]).fetchone()
    assert found == (True, name == other)


def test_bought_tokens_of_bills_on_own_replicas(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    rows = [focus(*row) for row in (("input", "11.2345"), ("cached input", "4"), ("output", "2.5"))]
    # money without a number of tokens is not of them
    images = focus("input", "1", "images") | dict.fromkeys(("ConsumedQuantity", "ConsumedUnit"), "")
    images |= dict.fromkeys(("SkuMeter", "SkuId"), "images")
    (tmp_path / "openai.csv").write_text(csv_text([*rows, images]))
    assert not collect_bills(Store(config.store), [LocalTree(tmp_path / "openai.csv")], None).errors
    answer = of_store(config, f"--peak-factor 2 {REPLICA} {NODE}")
    words = f"report --config {config.path} {WHEN} --by team --format json".split()
    reported = json.loads(CliRunner().invoke(app, words).stdout)["rows"]
    # $2.50, cached $1.25, and $10 a million
    cost = 11.2345 * 2.5 + 4 * 1.25 + 2.5 * 10
    assert answer["today"]["cost"] == cost
    assert sum(row["api_cost"] for row in reported if row["kind"] == "api") == cost + 2.5
    assert (answer["prompt_tokens"], answer["cached_tokens"]) == (15_234_500, 4 * MILLION)
    assert (answer["generation_tokens"], answer["hours"]) == (2_500_000, 24)
    assert answer["scenario"]["cost"] == 240 and "for gpt-4o" in answer["title"]
    # bills name no part of the fleet
    where = f"--config {config.path} {WHEN} --namespace chat --peak-factor 2 {REPLICA} {NODE}"
    assert_refused("tokens", where, "--namespace does not narrow bought tokens")


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (f"--model gpt-x {PRICES}", "no token of gpt-x is known", 1),
        (
            f"{TOKENS} --peak-factor 1 {PRICES} {NODE} --throughput-of Deployment/none --gpus-per-replica 1",
            "Deployment/none",
            1,
        ),
        (f"{REPLICA} {NODE} --peak-factor 1", "no bill of 2026-03-10 contains tokens", 1),
        (f"{REPLICA} {NODE} --peak-factor 1 {PRICES}", "bills have prices of tokens", 2),
    ],
)
def test_what_the_store_does_not_know(config: Config, words: str, message: str, code: int) -> None:
    assert_refused("tokens", f"--config {config.path} {WHEN} {words}", message, code)
