"""`gpucost whatif selfhost` and `whatif api` on tokens of a store: what its servers did, cost and could do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.periods import Period, to_ms
from gpucost.questions.units import reading as units
from gpucost.questions.whatif import tokens as whatif_tokens
from gpucost.store.connection import Store
from gpucost.whatif.fleet import Scope, escaped_glob
from gpucost.whatif.tokens import Api
from tests.replay import work
from tests.replay.cases.words import fleet, node, pod
from tests.replay.work import asked, counter, put, stored
from tests.unit.served import on_nodes
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


def of_store(what_if: str, config: Config, words: str) -> dict[str, Any]:
    return ask(what_if, f"--config {config.path} --from 2026-03-10 --to 2026-03-11 {words}")


def test_hours_of_the_store_are_those_of_unit_tokens(config: Config) -> None:
    store = Store(config.store)
    view = asked(config, store, units.tokens)
    rows: list[dict[str, Any]] = []
    months: list[dict[str, Any]] = []

    def read(con: Any, ask: Any) -> Any:
        rows.extend(units.token_hours(con, ask))
        months.extend(units.token_hours(con, ask, "month"))
        return view

    asked(config, store, read)
    (month,) = months
    assert sum(row["cost"] for row in rows) == view.totals["cost"] == month["cost"] == 48
    for name in ("prompt_tokens", "cached_tokens", "generation_tokens"):
        assert sum(row[name] or 0 for row in rows) == view.totals[name] == month[name]
    assert len(rows) == 24 and {row["allocated_gpu_hours"] for row in rows} == {2}


def test_tokens_of_the_store_on_measured_replicas(config: Config) -> None:
    rest = "--throughput-of Deployment/llm --gpus 4 --on-demand-price 4 --spare-replicas 0 --target-utilization 0.5"
    answer = of_store("selfhost", config, f"{PRICES} --cached-input-price-per-million 0.5 {rest}")
    # a tenth of the prompts was cached
    assert (answer["hours"], answer["today"]["cost"]) == (24, pytest.approx(10.8 + 0.6 + 28))
    # Deployment/llm made 2 + 8/4, 4, and 1 + 4/4 million with two GPUs: the busiest hours had 4 million
    assert answer["work_tokens_per_second_per_replica"] == pytest.approx(4e6 / 3600, abs=1e-6)
    # two replicas for 4 million in an hour, two a node
    assert (answer["replicas_at_peak"], answer["nodes"], answer["scenario"]["cost"]) == (2, 1, 96)
    cost = answer["ranges"][0]
    # on the mean of three hours, 10/3 million: three replicas
    assert (cost["low"], cost["high"]) == (96, 192)
    assert answer["assumptions"][0]["value"] == "llama"
    listed = of_store("selfhost", config, f"--api-model gpt-4o {rest}")
    assert "for gpt-4o (openai)" in listed["title"]
    assert listed["today"]["cost"] == pytest.approx(10.8 * 2.5 + 1.2 * 1.25 + 7 * 10)


def test_throughput_of_the_store_for_described_tokens(config: Config) -> None:
    words = f"{TOKENS} --peak-factor 1 {PRICES} {NODE} --throughput-of Deployment/llm"
    answer = of_store("selfhost", config, words)
    # 3.5 million an hour, on replicas of two GPUs that do 2.4 million
    assert (answer["replicas_at_peak"], answer["nodes"], answer["hours"]) == (2, 1, 720)
    assert any("may never have been full" in text for text in answer["findings"])


def test_a_target_of_latency_is_held_against_the_hours_of_the_store(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    words = (
        f"{TOKENS} --peak-factor 1 {PRICES} {NODE} --throughput-of Deployment/llm --time-per-output-token-ms"
    )
    where = f"--config {config.path} --from 2026-03-10 --to 2026-03-11"
    assert_refused("selfhost", f"{where} {words} 30", "tells no time in decode")
    # 2 million tokens in 40,000 s, 4 million in 160,000 s, and a million in 20,000 s
    decoding = counter("decode_second", "llm-0", "chat", model="llama")
    put(
        Store(config.store),
        [(decoding, [(0, 0), (1.5, 40_000), (2.5, 200_000), (20.5, 220_000)])],
        source="decoding",
    )
    answer = of_store("selfhost", config, f"{words} 40.5")
    # the busiest hour did 4 million on two GPUs; 3.5 million an hour are needed
    assert (answer["replicas_at_peak"], answer["nodes"]) == (1, 1)
    stated = {one["name"]: one for one in answer["assumptions"]}
    assert (
        stated["time per generated token"]["value"] == 40.5 and stated["replicas are filled to"]["value"] == 1
    )
    assert "none missed the target" in stated["a full replica"]["source"]
    assert any("40.5 ms at most" in text for text in answer["time"])
    # the calmer two, of 2 million with prompts each, held it
    answer = of_store("selfhost", config, f"{words} 39.5")
    assert answer["work_tokens_per_second_per_replica"] == pytest.approx(4e6 / 3600, abs=1e-6)
    assert_refused("selfhost", f"{where} {words} 19", "took 20 ms")


def test_throughput_of_pools_is_that_of_both(others: Config) -> None:
    words = f"{TOKENS} --peak-factor 1 {PRICES} {NODE} --throughput-of Deployment/llm-decode"
    for more in ("", "--time-per-output-token-ms 21"):
        answer = of_store("selfhost", others, f"{words} --gpus-per-replica 4 {more}")
        # 2 million by weight and 2 million generated in an hour of four GPUs
        assert answer["work_tokens_per_second_per_replica"] == pytest.approx(4e6 / 3600, abs=1e-6)
    where = f"--config {others.path} --from 2026-03-10 --to 2026-03-11"
    assert_refused("selfhost", f"{where} {words}", "pods of prefill and of decode hold together")


def test_own_tokens_of_the_store_bought(config: Config) -> None:
    answer = of_store("api", config, f"--workload Deployment/llm {PRICES}")
    assert (answer["today"]["cost"], answer["scenario"]["cost"]) == (48, 12 + 28)
    assert (answer["today"]["gpu_hours"], answer["paid_anyway_cost"]) == (48, 0)
    other_way = of_store("selfhost", config, f"--model 'LLA*' {PRICES} {REPLICA} {NODE}")
    assert other_way["today"]["cost"] == 40 and "gpucost whatif api" in other_way["findings"][-1]


def test_own_cost_is_that_of_unit_tokens_and_committed_capacity_is_paid_anyway(others: Config) -> None:
    words = f"--config {others.path} --from 2026-03-10 --to 2026-03-11 --workload Deployment/plan"
    told = json.loads(CliRunner().invoke(app, ["unit", "tokens", *words.split(), "--format", "json"]).stdout)[
        "totals"
    ]
    answer = ask("api", f"{words} {PRICES}")
    assert (
        (answer["today"]["cost"], answer["today"]["gpu_hours"])
        == (told["cost"], told["allocated_gpu_hours"])
        == (24, 24)
    )
    assert (answer["paid_anyway_cost"], answer["saving"]) == (24, -8)
    for name in ("prompt_tokens", "generation_tokens"):
        assert answer[name] == told[name]
    for name in (
        "cost_per_million_tokens",
        "cost_per_million_prompt_tokens",
        "cost_per_million_generation_tokens",
    ):
        assert answer["ways"][0][name] == pytest.approx(told[name], rel=1e-6)


def test_hours_that_midnight_cuts_are_whole(config: Config, tmp_path: Path) -> None:
    config = copied(config, tmp_path)
    assert config.path
    text = config.path.read_text()
    config.path.write_text(
        'timezone = "Asia/Kolkata"\n' + "\n".join(row for row in text.splitlines() if "timezone" not in row)
    )
    answer = ask(
        "api", f"--config {config.path} --from 2026-03-10 --to 2026-03-12 --workload Deployment/llm {PRICES}"
    )
    # local days are half an hour off: the pod held its GPUs in 24 hours of UTC from 05:30 on
    assert (answer["today"]["cost"], answer["hours"], answer["prompt_tokens"]) == (48, 24, 12 * MILLION)


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]c", "a]b", "a\\b", "\\*["])
def test_a_name_is_a_glob_of_itself_alone(name: str) -> None:
    glob = escaped_glob(name)
    with duckdb.connect() as con:
        assert con.execute(
            "SELECT $1 GLOB $2, $3 GLOB $2", [name, glob, name.replace("*", "xx").replace("?", "x")]
        ).fetchall() == [(True, not set(name) & set("*?"))]


@pytest.mark.parametrize(
    ("millions", "percent"),
    [
        # in March they may have begun; April, May and June grow by a tenth each
        ((10, 100, 110, 121), 10),
        # in May there was none: from April to June twice as many in each month
        ((10, 100, 0, 400), 100),
        ((10, 100), None),
    ],
)
def test_growth_is_of_the_whole_months_of_the_store(
    millions: tuple[int, ...], percent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = {
        "cluster": "main",
        "namespace": "chat",
        "workload": "Deployment/llm-prefill + Deployment/llm-decode",
    }

    def hours(
        _run: Any, _model: str | None, scope: Scope, months: Period, bucket: str
    ) -> list[dict[str, Any]]:
        assert (scope, bucket) == (Scope(), "month")
        assert (months.start, months.end) == (
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 7, 1, tzinfo=UTC),
        )
        begins = [to_ms(datetime(2026, month, 1, tzinfo=UTC)) for month in range(3, 7)]
        counted = [
            {"from_ms": begin, **pools, "prompt_tokens": 0.4 * count, "generation_tokens": 0.6 * count}
            for begin, count in zip(begins, millions, strict=False)
        ]
        # the same names in another cluster are not meant
        return counted + [row | {"cluster": "other", "prompt_tokens": 1000.0} for row in counted]

    monkeypatch.setattr(whatif_tokens, "_hours", hours)
    period = SimpleNamespace(end=datetime(2026, 7, 1, tzinfo=UTC))
    run: Any = SimpleNamespace(today=date(2026, 11, 5), tz=UTC, period=period)
    growth = whatif_tokens._growth(run, Api(), [pools])
    assert growth.percent == (None if percent is None else pytest.approx(percent)) and growth.begins == date(
        2026, 7, 1
    )
    assert whatif_tokens._growth(run, Api(growth_percent_per_month=3.0), [pools]).percent == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"--model gpt-x {PRICES} {REPLICA} {NODE}", "no token of gpt-x is known"),
        pytest.param(
            f"{PRICES} {NODE} --throughput-of Deployment/none", "Deployment/none", marks=pytest.mark.slow
        ),
        (f"{PRICES} {NODE}", "what a replica does is not told"),
    ],
)
def test_what_the_store_does_not_know(config: Config, words: str, message: str) -> None:
    code = 2 if "not told" in message else 1
    period = f"--config {config.path} --from 2026-03-10 --to 2026-03-11"
    assert_refused("selfhost", f"{period} {words}", message, code)
