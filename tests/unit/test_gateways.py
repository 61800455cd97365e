"""What gateways passed on: by whom, to whom, and whether own pods served it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest

from gpucost.collect.progress.mappings import ready_made, series_of
from gpucost.config.model import Config, GatewaySettings
from gpucost.engine import dicts
from gpucost.report.units.gateways import gateway_usage
from gpucost.store.connection import scratch_store
from gpucost.store.progress import ALWAYS, ProgressBatch, ProgressSeries, load_values

HOUR = 3_600_000


def passed_on(con: duckdb.DuckDBPyConnection, series: Sequence[ProgressSeries], source: str = "prom", begin: int = 0) -> None:
    """Counters of a gateway that rise by 100 in the hour from `begin`, and by 1 in the hour after."""
    batch = ProgressBatch()
    for one in series:
        batch.add(one, np.array([0, 1, 2]) * HOUR + begin, np.array([7.0, 107.0, 108.0]))
    load_values(con, source, ALWAYS, batch)


def usage(
    con: duckdb.DuckDBPyConnection, from_ms: int = 0, to_ms: int = 10 * HOUR, **settings: list[str]
) -> list[dict[str, Any]]:
    """The rows of the table that `gateway_usage` makes."""
    config = Config().model_copy(update={"gateway": GatewaySettings(**settings)})
    gateway_usage(con, config.gateway, from_ms, to_ms)
    return dicts(con.execute("FROM gateway_usage ORDER BY at_ms, provider, model, tenant, unit"))


def gateway_series(**more: Any) -> ProgressSeries:
    return ProgressSeries("mine", "prompt_token", "counter", (), gateway="gw", **more)


def test_a_store_without_gateways_has_an_empty_table() -> None:
    with scratch_store() as con:
        assert usage(con) == []
        assert [column[0] for column in con.execute("FROM gateway_usage").description or []] == [
            "at_ms", "gateway", "provider", "is_own", "model", "team", "tenant", "unit", "currency", "amount", "failed",
        ]  # fmt: skip


def test_litellm_labels() -> None:
    """As LiteLLM 1.110.2 prints them: what it does not know is the word None."""
    labels = {
        "api_key_alias": "search-key", "api_provider": "openai", "end_user": "None", "model": "gpt-4o-mini", "namespace": "ai",
        "org_id": "None", "pod": "litellm-7d9", "requested_model": "fast", "team": "id-search", "team_alias": "search",
    }  # fmt: skip
    units = {unit.name: unit for unit in ready_made()}
    series = series_of(units["litellm-prompt-tokens"], labels, "main")
    assert (series.gateway, series.provider, series.model) == ("litellm", "openai", "gpt-4o-mini")
    assert (series.team, series.tenant, series.currency) == ("search", "search", "")
    assert (series.pod, series.namespace, series.workload) == ("", "", ""), "the gateway's pod did not do the work"
    nobody = labels | {"team": "None", "team_alias": "None"}
    assert series_of(units["litellm-spend"], nobody, "main")[13:] == ("search-key", "litellm", "", "openai", "", "USD")
    failed = series_of(units["litellm-failed-requests"], labels, "main")
    assert (failed.model, failed.is_failure, failed.unit) == ("fast", True, "request")


def test_envoy_labels() -> None:
    labels = {"gen_ai_provider_name": "aws.bedrock", "gen_ai_request_model": "nova-lite", "gen_ai_original_model": "chat"}
    units = {unit.name: unit for unit in ready_made()}
    for error, is_failure in (("", False), ("_OTHER", True)):
        series = series_of(units["envoy-ai-gateway-requests"], labels | {"error_type": error}, "main")
        assert (series.provider, series.model, series.is_failure) == ("aws.bedrock", "nova-lite", is_failure)


@pytest.mark.parametrize(
    ("provider", "model", "base", "expected"),
    [
        ("openai", "gpt-4o", "", ("openai", "gpt-4o", False)),
        ("openai", "openai/gpt-4o", "https://api.openai.com/v1", ("openai", "gpt-4o", False)),
        ("", "openai/gpt-4o", "", ("openai", "gpt-4o", False)),
        ("bedrock", "bedrock/converse/anthropic.claude-3-haiku", "", ("aws", "anthropic.claude-3-haiku", False)),
        ("bedrock_converse", "anthropic.claude-3-haiku", "", ("aws", "anthropic.claude-3-haiku", False)),
        ("aws.bedrock", "nova-lite", "", ("aws", "nova-lite", False)),
        ("vertex_ai_beta", "vertex_ai/gemini-2.5-pro", "", ("gcp", "gemini-2.5-pro", False)),
        ("gemini", "gemini/gemini-2.5-pro", "", ("gcp", "gemini-2.5-pro", False)),
        ("azure_ai", "azure_ai/deepseek-r1", "https://private.internal", ("azure", "deepseek-r1", False)),
        ("az.ai.openai", "gpt-4o", "", ("azure", "gpt-4o", False)),
        ("text-completion-openai", "gpt-3.5", "", ("openai", "gpt-3.5", False)),
        ("openrouter", "anthropic/claude-sonnet-4", "", ("openrouter", "anthropic/claude-sonnet-4", False)),
        ("groq", "groq/llama-3", "", ("groq", "llama-3", False)),
        ("", "meta-llama/Llama-3", "", (None, "meta-llama/Llama-3", False)),
        ("hosted_vllm", "hosted_vllm/Qwen/Qwen3", "", ("hosted_vllm", "Qwen/Qwen3", True)),
        ("ollama", "llama3", "", ("ollama", "llama3", True)),
        # own pods serve it: what speaks OpenAI's API, or says nothing of itself
        ("openai", "openai/Qwen/Qwen2.5", "", ("openai", "Qwen/Qwen2.5", True)),
        ("", "qwen/qwen2.5", "", (None, "qwen/qwen2.5", True)),
        ("default/own/rule/0", "Qwen/Qwen2.5", "", ("default/own/rule/0", "Qwen/Qwen2.5", True)),
        ("groq", "Qwen/Qwen2.5", "", ("groq", "Qwen/Qwen2.5", False)),
        ("openai", "Qwen/Qwen2.5", "https://api.openai.com/v1", ("openai", "Qwen/Qwen2.5", False)),
        *(
            ("openai", "m", base, ("openai", "m", is_own))
            for base, is_own in (
                ("http://vllm:8000/v1", True),
                ("http://vllm.chat.svc:8000/v1", True),
                ("http://vllm.chat.svc.cluster.local/v1", True),
                ("https://llm.corp.internal", True),
                ("http://10.1.2.3:8000", True),
                ("http://172.31.2.3:8000", True),
                ("http://172.32.2.3:8000", False),
                ("http://user:pass@192.168.0.9/v1", True),
                ("http://[fd00::1]:8000/v1", True),
                ("http://[2606:4700::1]/v1", False),
                ("http://8.8.8.8/v1", False),
                ("https://10.example.com/v1", False),
                ("https://llm.example.com/v1", False),
            )
        ),
    ],
)  # fmt: skip
def test_who_sells_a_model_and_whether_it_is_bought(provider: str, model: str, base: str, expected: tuple[Any, ...]) -> None:
    with scratch_store() as con:
        served = ProgressSeries("vllm", "prompt_token", "counter", (), pod="llm-0", model="Qwen/Qwen2.5")
        passed_on(con, [served, gateway_series(provider=provider, model=model, api_base=base)])
        rows = usage(con)
    assert {(row["provider"], row["model"], row["is_own"]) for row in rows} == {expected}
    assert [(row["at_ms"], row["amount"], row["failed"]) for row in rows] == [(HOUR, 100, 0), (2 * HOUR, 1, 0)]


@pytest.mark.parametrize(
    ("word", "is_known"), [("None", False), ("NULL", False), ("-", False), ("unknown", False), ("acme", True)]
)
def test_labels_and_logs_have_the_same_words_for_what_is_not_known(word: str, is_known: bool) -> None:
    labels = {"api_provider": word, "model": "m", "team_alias": word, "end_user": word}
    series = series_of(next(unit for unit in ready_made() if unit.name == "litellm-prompt-tokens"), labels, "main")
    assert (series.provider, series.team) == ((word, word) if is_known else ("", ""))


def test_globs_say_what_is_own_and_what_is_bought_all_the_same() -> None:
    with scratch_store() as con:
        models = [
            ("openai", "gpt-4o", "http://egress:80"),
            ("together_ai", "acme/Tuned", ""),
            ("openai", "m", "https://x.gpu.example.com/v1"),
        ]
        passed_on(con, [gateway_series(provider=provider, model=model, api_base=base) for provider, model, base in models])
        rows = usage(con, own=["ACME/*", "*.gpu.example.com"], bought=["gpt-*"])
    assert {row["model"]: row["is_own"] for row in rows} == {"gpt-4o": False, "acme/Tuned": True, "m": True}


def test_a_period_and_copies_of_a_prometheus() -> None:
    with scratch_store() as con:
        for replica in ("a", "b"):
            labels = (("prometheus_replica", replica), ("team", "x"))
            passed_on(con, [gateway_series(model="m", tenant="x", team="x")._replace(labels=labels)], replica)
        assert [row["amount"] for row in usage(con)] == [100, 1]
        (row,) = usage(con, HOUR + 1, 2 * HOUR + 1)
        assert (row["amount"], row["tenant"], row["team"], row["gateway"]) == (1, "x", "x", "gw")


def test_where_a_log_tells_of_the_time_counters_do_not() -> None:
    with scratch_store() as con:
        passed_on(con, [gateway_series(model="m"), gateway_series(model="m")._replace(gateway="other")])
        batch = ProgressBatch()
        batch.add(gateway_series(model="m")._replace(kind="event"), np.array([HOUR - 60_000, HOUR - 1]), np.array([90.0, 5.0]))
        load_values(con, "calls.jsonl", ALWAYS, batch)
        rows = usage(con)
    # the counter's look at the end of the hour shows what the log tells of
    of = {name: sum(row["amount"] for row in rows if row["gateway"] == name) for name in ("gw", "other")}
    assert of == {"gw": 95 + 1, "other": 101}


def test_a_log_leaves_out_counters_in_its_own_quarters_and_the_next_alone() -> None:
    """A stray old call, or a log of a week ago and one of today, say nothing of the time between."""
    with scratch_store() as con:
        batch, quarter = ProgressBatch(), HOUR // 4
        calls = np.array([60_000, 240 * HOUR])
        batch.add(gateway_series(model="m")._replace(kind="event"), calls, np.array([1.0, 2.0]))
        moments = np.array([0, quarter - 1, quarter + 1, 2 * quarter, 120 * HOUR, 240 * HOUR + 2 * quarter - 1])
        batch.add(gateway_series(model="m", team="x"), moments, np.array([0, 10, 110, 1110, 11110, 111110.0]))
        load_values(con, "both", ALWAYS, batch)
        of_team = [(row["at_ms"], row["amount"]) for row in usage(con, to_ms=250 * HOUR) if row["team"] == "x"]
        # the last call of the former period's last quarter shows in a counter of this one
        first = [row["amount"] for row in usage(con, quarter, 2 * quarter)]
    assert of_team == [(2 * quarter, 1000), (120 * HOUR, 10_000)]
    assert first == []


def test_an_engine_that_ever_served_a_model_makes_it_own_whatever_period_is_asked_for() -> None:
    with scratch_store() as con:
        served = ProgressSeries("vllm", "prompt_token", "counter", (), pod="llm-0", model="qwen3")
        passed_on(con, [served], "engine", begin=100 * HOUR)
        passed_on(con, [gateway_series(provider="openai", model="qwen3")])
        assert [row["is_own"] for row in usage(con)] == [True, True]


@pytest.mark.parametrize("copies", [1, 2])
def test_what_was_stored_long_before_changes_nothing(copies: int) -> None:
    """Copies of a counter that falls, also just where reading begins, and one that ended before."""
    days = 4
    moments = np.arange(0, days * 24 * HOUR, 300_000)
    # less each day: a value from before a fall would stay the highest
    grown = np.random.default_rng(7).integers(1, np.repeat([48, 12, 3, 3], len(moments) // days))
    # of the third day it is read from 24 hours on, just after the fall, of the fourth from 48, while one copy has seen the fall
    falls = {24 * 12 - 1, 90 * 12, *([48 * 12] if copies == 2 else [])}
    values, value = [], 0
    for number, more in enumerate(grown):
        value = 3 if number in falls else value + int(more)
        values.append(value)
    counted = np.array(values, dtype=float)
    with scratch_store() as con:
        batch = ProgressBatch()
        for copy in range(copies):
            one = gateway_series(model="m")._replace(labels=(("prometheus_replica", str(copy)),))
            batch.add(one, moments - copy * 7_000, counted)
        ended = slice(0, 24 * 12 - 1)
        one = gateway_series(model="m")._replace(labels=(("prometheus_replica", "ended"),))
        batch.add(one, moments[ended] + 20_000, counted[ended])
        load_values(con, "prom", ALWAYS, batch)
        whole = usage(con, 0, days * 24 * HOUR)
        for day in range(days):
            span = (day * 24 * HOUR, (day + 1) * 24 * HOUR)
            assert usage(con, *span) == [row for row in whole if span[0] <= row["at_ms"] < span[1]], day
        expected = sum(after - before if after >= before else after for before, after in pairwise(values))
        assert sum(row["amount"] for row in whole) == expected
        # two days of each copy, and of one and the ended one the last value before
        assert con.execute("SELECT count(*) FROM unit_increases").fetchall() == [(copies * 2 * 288 + 2,)]
        # a counter that stood still for long, and one whose first value was of the period
        batch = ProgressBatch()
        batch.add(gateway_series(model="still"), np.array([0, 10 * HOUR, 90 * HOUR]), np.array([1.0, 5.0, 7.0]))
        batch.add(gateway_series(model="new"), np.array([80, 90]) * HOUR, np.array([50.0, 51.0]))
        load_values(con, "other", ALWAYS, batch)
        late = {row["model"]: row["amount"] for row in usage(con, 72 * HOUR, 96 * HOUR) if row["model"] != "m"}
    assert late == {"still": 2, "new": 1}
