"""Azure's trace of 2023 through a real proxy of LiteLLM and a real Prometheus: tokens are the trace's, spend the proxy's."""

from __future__ import annotations

import csv
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.engine import dicts
from gpucost.periods import to_ms
from gpucost.report.units.gateways import gateway_usage
from gpucost.store.connection import Store
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.server import require_prometheus
from tests.replay.work import counter, put, stored
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


ENGINE = pod("llm-0", "serve", [0, 1, 2, 3], 0, 4, namespace="chat", owner=["Deployment", "llm"])
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
        good = [call for call in calls if not call.fails]
        due = {
            "requests": len(good),
            "input_tokens": sum(call.prompt for call in good),
            "output_tokens": sum(call.generated for call in good),
            "input_cached_tokens": sum(call.cached for call in good),
            "proxy_failed_requests": len(calls) - len(good),
        }
        for name, total in due.items():
            wait_until(lambda name=name, total=total: gateway.total(f"litellm_{name}_metric_total") == total, f"{total} {name}")
        wait_until(lambda: len(gateway.calls.read_text().splitlines()) == len(calls), "a line of each call")
        yield gateway, calls


@pytest.fixture
def configured(served: tuple[Proxy, list[Call]], tmp_path: Path) -> Path:
    """A configuration with that Prometheus. What is bought lies on loopback here, as own servers do: log files say so."""
    path = tmp_path / "gpucost.toml"
    server = f'[prometheus]\nurl = "{served[0].prometheus}"\ncluster = "main"\n'
    path.write_text(f'store = "gpucost.duckdb"\n{server}[gateway]\nbought = ["openai"]\n')
    return path


def _collect(config: Path, *words: str) -> None:
    result = CliRunner().invoke(app, ["collect", "progress", *words, "--config", str(config)])
    assert result.exit_code == 0, result.output


def _hours() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(hours=2), now + timedelta(hours=1)


def _usage(path: Path) -> tuple[Usage, Usage]:
    """What the store tells of these hours: work, and spend."""
    config = load_config(path, environ={}, cwd=path.parent)
    with Store(config.store).read() as con:
        gateway_usage(con, config.gateway, *(to_ms(moment) for moment in _hours()))
        rows = dicts(con.execute("FROM gateway_usage"))
    assert {row["gateway"] for row in rows} == {"litellm"}
    assert {row["tenant"] for row in rows} == {"search", "coders"}
    models = {(row["provider"], row["model"], row["is_own"]) for row in rows if row["amount"]}
    assert models == {("openai", "gpt-4o-mini", False), ("hosted_vllm", "qwen", True)}
    found: Usage = defaultdict(float)
    for row in rows:
        found[row["team"], row["model"], row["unit"]] += row["amount"]
        found[row["team"], row["model"], "failed"] += row["failed"]
    spend = {key: found.pop(key) for key in list(found) if key[2] == "spend"}
    return ({key: amount for key, amount in found.items() if amount}, {key: amount for key, amount in spend.items() if amount})


def _spent(proxy: Proxy) -> Usage:
    """What the proxy's own log says, call by call."""
    spent: Usage = defaultdict(float)
    for line in proxy.calls.read_text().splitlines():
        call = json.loads(line)
        if call["response_cost"]:
            spent[call["metadata"]["user_api_key_team_alias"], call["model"].partition("/")[2], "spend"] += call["response_cost"]
    return spent


def test_what_was_scraped_is_the_trace(served: tuple[Proxy, list[Call]], configured: Path) -> None:
    for _ in range(2):  # the second time replaces
        start, end = _hours()
        _collect(configured, "--from", start.isoformat(), "--to", end.isoformat())
    found, spend = _usage(configured)
    assert found == _due(served[1])
    assert spend == pytest.approx(_spent(served[0]), rel=1e-9) and len(spend) == 2


def test_its_log_tells_the_same_and_counts_once(served: tuple[Proxy, list[Call]], configured: Path) -> None:
    """Beside what was scraped, in two halves that share calls."""
    start, end = _hours()
    _collect(configured, "--from", start.isoformat(), "--to", end.isoformat())
    lines = served[0].calls.read_text().splitlines(keepends=True)
    for name, some in (("first", lines[:180]), ("second", lines[100:])):
        (configured.parent / f"{name}.jsonl").write_text("".join(some))
        _collect(configured, str(configured.parent / f"{name}.jsonl"))
    found, spend = _usage(configured)
    assert found == _due(served[1])
    assert spend == pytest.approx(_spent(served[0]), rel=1e-9)


def test_own_models_cost_tenants_what_they_used(served: tuple[Proxy, list[Call]], tmp_path: Path) -> None:
    """The calls, moved to the first hours of a fleet whose engine counted the same tokens: `unit tokens --by tenant`."""
    _, store = stored(fleet(4, [node("serve", "g6.12xlarge", 0, 4)], [ENGINE], {}, scrape=600), tmp_path)
    lines = [json.loads(line) for line in served[0].calls.read_text().splitlines()]
    later = at(1) - min(line["endTime"] for line in lines)
    moved = [line | {name: line[name] + later for name in ("startTime", "endTime")} for line in lines]
    (tmp_path / "calls.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in moved))
    with (tmp_path / "gpucost.toml").open("a") as file:
        file.write('[gateway]\nbought = ["openai"]\n')
    _collect(tmp_path / "gpucost.toml", str(tmp_path / "calls.jsonl"))
    due = {key: amount for key, amount in _due(served[1]).items() if key[1] == "qwen"}
    units = {"prompt_token": "prompt_tokens", "cached_token": "cached_tokens", "generation_token": "generation_tokens"}
    total = {unit: sum(amount for key, amount in due.items() if key[2] == unit) for unit in units}
    put(store, [(counter(unit, "llm-0", "chat", model="qwen"), [(0, 0), (2, amount)]) for unit, amount in total.items()], 4)
    period = ["--from", "2026-03-10T00:00Z", "--to", "2026-03-10T04:00Z"]
    answers = []
    for by in ("tenant", "model"):
        words = ["unit", "tokens", "--config", str(tmp_path / "gpucost.toml"), "--by", by, *period, "--format", "json"]
        answers.append(json.loads(CliRunner().invoke(app, words).stdout, parse_float=Decimal))
    tenants, (model,) = {row["tenant"]: row for row in answers[0]["rows"]}, answers[1]["rows"]
    assert tenants.keys() == {"search", "coders"}
    for tenant, row in tenants.items():
        assert {unit: row[column] for unit, column in units.items()} == {unit: due[tenant, "qwen", unit] for unit in units}
        computed = due[tenant, "qwen", "prompt_token"] - due[tenant, "qwen", "cached_token"]
        of_all = total["prompt_token"] - total["cached_token"]
        assert float(row["prompt_cost"]) == pytest.approx(float(model["prompt_cost"]) * computed / of_all)
    assert model["cost"] == 16
    for column in ("cost", "prompt_cost", "generation_cost", "unserved_cost", "idle_cost"):
        assert sum(row[column] for row in tenants.values()) == model[column]
    # beside the GPUs' cost, and in none of it, what was bought: at the proxy's prices, while no bill tells of it
    words = ["report", "--config", str(tmp_path / "gpucost.toml"), *period, "--format", "json"]
    report = json.loads(CliRunner().invoke(app, words).stdout, parse_float=Decimal)
    bought = {(row["team"], row["model"], row["source"]): row for row in report["bought"]}
    spent = {(team, model, "gateway"): cost for (team, model, _), cost in _spent(served[0]).items()}
    assert {key: float(row["api_cost"]) for key, row in bought.items()} == pytest.approx(spent, abs=1e-6)
    for (team, name, _), row in bought.items():
        assert row["prompt_tokens"] == _due(served[1])[team, name, "prompt_token"]
    assert report["totals"]["api_cost"] == sum(row["api_cost"] for row in bought.values())
    assert report["totals"]["node_cost"] == 16
