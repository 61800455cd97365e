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
        gateway_usage(con, config, *(to_ms(moment) for moment in _hours()))
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
