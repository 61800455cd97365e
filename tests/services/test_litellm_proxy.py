"""Azure's trace of 2023 through a real proxy of LiteLLM and a real Prometheus: tokens are the trace's, spend the proxy's."""

from __future__ import annotations

import csv
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.engine import dicts
from gpucost.periods import to_ms
from gpucost.report.units.gateways import gateway_usage
from gpucost.store.connection import Store
from tests.replay.server import require_prometheus
from tests.services.litellm_proxy import Call, Proxy, proxy, wait_until
from tests.shared import shared

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.shared]

Usage = dict[tuple[str, str, str], float]  # by team, model and unit


def _trace(kind: str, count: int) -> list[tuple[int, int]]:
    path = shared(f"data/gpu/inference-azure-2023/data/AzureLLMInferenceTrace_{kind}.csv")
    with path.open() as file:
        return [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in itertools.islice(csv.DictReader(file), count)]


def _calls() -> list[Call]:
    """Two teams, each with a trace of its own: one buys a third of its calls, one two. Some prompts are in part cached."""
    calls = []
    for team, kind, bought in (("search", "conv", (0,)), ("coders", "code", (1, 2))):
        for number, (prompt, generated) in enumerate(_trace(kind, 120)):
            model = "gpt-4o-mini" if number % 3 in bought else "chat"
            calls.append(Call(team, model, prompt, generated, prompt // 4 if number % 2 else 0, number % 5 == 0))
    return [*calls, *[Call("search", "gpt-4o-mini", 100, -1)] * 3]


CALLED = {"gpt-4o-mini": ("openai", "gpt-4o-mini"), "chat": ("hosted_vllm", "qwen")}


def _due(calls: list[Call]) -> Usage:
    """What the trace says was used."""
    due: Usage = defaultdict(float)
    for call in calls:
        of = (call.team, CALLED[call.model][1])
        if call.fails:
            due[*of, "failed"] += 1
            continue
        amounts = {"request": 1, "prompt_token": call.prompt, "cached_token": call.cached, "generation_token": call.generated}
        for unit, amount in amounts.items():
            due[*of, unit] += amount
    return due


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, list[Call]]]:
    """A proxy that has passed on all calls, and a Prometheus that knows of them."""
    require_prometheus()
    calls = _calls()
    with proxy(tmp_path_factory.mktemp("litellm")) as gateway:
        statuses = gateway.send(calls)
        assert [status == 200 for status in statuses] == [not call.fails for call in calls]
        tokens = sum(call.prompt + call.generated for call in calls if not call.fails)
        wait_until(lambda: gateway.total("litellm_total_tokens_metric_total") == tokens, "a scrape of all calls")
        wait_until(lambda: gateway.total("litellm_proxy_failed_requests_metric_total") == 3, "a scrape of failed calls")
        yield gateway, calls


def test_what_was_collected_is_the_trace(served: tuple[Proxy, list[Call]], tmp_path: Path) -> None:
    gateway, calls = served
    config_path = tmp_path / "gpucost.toml"
    config_path.write_text(f'store = "gpucost.duckdb"\n[prometheus]\nurl = "{gateway.prometheus}"\ncluster = "main"\n')
    now = datetime.now(UTC)
    start, end = now - timedelta(hours=2), now + timedelta(seconds=1)
    period = ["--from", start.isoformat(), "--to", end.isoformat()]
    for _ in range(2):  # the second time replaces
        result = CliRunner().invoke(app, ["collect", "progress", "--config", str(config_path), *period])
        assert result.exit_code == 0, result.output
    config = load_config(config_path, environ={}, cwd=tmp_path)
    with Store(config.store).read() as con:
        gateway_usage(con, config, to_ms(start), to_ms(end))
        rows = dicts(con.execute("FROM gateway_usage"))
    assert {row["gateway"] for row in rows} == {"litellm"}
    assert {row["tenant"] for row in rows} == {"search", "coders"}
    models = {(row["provider"], row["model"], row["is_own"]) for row in rows if row["amount"]}
    assert models == {("openai", "gpt-4o-mini", False), ("hosted_vllm", "qwen", True)}
    found: Usage = defaultdict(float)
    for row in rows:
        found[row["team"], row["model"], row["unit"]] += row["amount"]
        found[row["team"], row["model"], "failed"] += row["failed"]
    spend = {key: amount for key, amount in found.items() if key[2] == "spend" and amount}
    assert {key: amount for key, amount in found.items() if amount and key not in spend} == _due(calls)
    # as the proxy's own log has it, call by call
    logged: Usage = defaultdict(float)
    for line in gateway.calls.read_text().splitlines():
        call = json.loads(line)
        if call["response_cost"]:
            logged[call["metadata"]["user_api_key_team_alias"], call["model"].partition("/")[2], "spend"] += call["response_cost"]
    assert spend == pytest.approx(logged, rel=1e-9) and len(spend) == 2


def test_its_log_says_the_same_call_by_call(served: tuple[Proxy, list[Call]]) -> None:
    """The lines that docs/units.md reads: one a call, with an id of its own."""
    gateway, calls = served
    lines = [json.loads(line) for line in gateway.calls.read_text().splitlines()]
    assert len({line["litellm_call_id"] for line in lines}) == len(lines) == len(calls)
    found: Usage = defaultdict(float)
    for line in lines:
        of = (line["metadata"]["user_api_key_team_alias"], line["model"].partition("/")[2])
        if line["status"] == "failure":
            found[*of, "failed"] += 1
            continue
        found[*of, "request"] += 1
        found[*of, "prompt_token"] += line["prompt_tokens"]
        found[*of, "generation_token"] += line["completion_tokens"]
        found[*of, "cached_token"] += line["metadata"]["usage_object"]["prompt_tokens_details"]["cached_tokens"] or 0
    assert found == _due(calls)
