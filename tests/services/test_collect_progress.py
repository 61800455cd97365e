"""vLLM's counters and a trainer's, scraped by a real Prometheus: figures equal a plain calculation.

GPUCOST_EXPOSITIONS names a folder with further scrapes: those of vLLM in it are collected the same way.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TextIO

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.collect.progress.mappings import mappings
from gpucost.collect.progress.prometheus import collect_progress
from gpucost.config.model import PrometheusSource, UnitSettings
from gpucost.periods import Period
from gpucost.questions.units import reading as units
from gpucost.store.connection import Store
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.replay.work import BOOK, asked

pytestmark = pytest.mark.services

HOURS = 12
DAY = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(HOURS), UTC))
REASONS = {"stop": 40, "length": 9, "abort": 3, "error": 1, "repetition": 2}
RESTART = 5.5  # hours; the container starts over in place


def described() -> Fleet:
    nodes = [node("train", "p4de.24xlarge", 0, HOURS), node("serve", "g6.12xlarge", 0, HOURS)]
    pods = [
        pod("run-a-0", "train", list(range(8)), 0, HOURS, owner=["Job", "run-a"]),
        pod("vllm-0", "serve", [0, 1, 2, 3], 0, HOURS, namespace="chat", owner=["Deployment", "vllm"]),
    ]
    util = {**busy("train", list(range(8)), 0, HOURS), **busy("serve", [0, 1, 2, 3], 0, HOURS / 2)}
    return fleet(HOURS, nodes, pods, util)


def counted(minute: int, rate: int) -> int:
    """A counter after so many minutes: it begins anew at the restart."""
    since = round(RESTART * 60)
    return (minute if minute < since else minute - since) * rate


def work_series() -> list[tuple[str, dict[str, str], int]]:
    """vLLM's series as (name, labels, rate a minute); two engines, two replicas of Prometheus."""
    series = []
    for engine in ("0", "1"):
        base = {
            "engine": engine,
            "model_name": "Qwen/Qwen2.5",
            "namespace": "chat",
            "pod": "vllm-0",
            "instance": "10.0.0.9:8000",
        }
        series += [
            ("vllm:request_success_total", {**base, "finished_reason": reason}, rate)
            for reason, rate in REASONS.items()
        ]
        series += [("vllm:prompt_tokens_total", base, 3000), ("vllm:generation_tokens_total", base, 700)]
    return [
        (name, {**labels, "prometheus_replica": replica}, rate)
        for name, labels, rate in series
        for replica in ("a", "b")
    ]


def write(out: TextIO) -> None:
    """The fleet's scrapes, and beside them what its pods count."""
    text = io.StringIO()
    write_openmetrics(scrape(described()), text)
    out.write(text.getvalue().replace("# EOF\n", ""))
    series = work_series()
    for name in dict.fromkeys(name for name, _, _ in series):
        out.write(f"# TYPE {name} unknown\n")
        for _, labels, rate in (one for one in series if one[0] == name):
            shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lag = 17 if labels["prometheus_replica"] == "b" else 0
            for minute in range(HOURS * 60):
                # the second replica fails for an hour, the first at the restart
                silent = 120 <= minute < 180 if lag else 325 <= minute < 335
                if not silent:
                    out.write(f"{name}{{{shown}}} {counted(minute, rate)} {at(0) + minute * 60 + lag}\n")
    out.write("# TYPE my_epochs unknown\n")
    for minute in range(HOURS * 60):
        out.write(
            f'my_epochs{{exported_namespace="train",exported_pod="run-a-0"}} {minute // 240} {at(0) + minute * 60}\n'
        )
    out.write("# EOF\n")


def test_counters_and_epochs_of_a_real_prometheus(tmp_path: Path) -> None:
    require_prometheus()
    prices = tmp_path / "prices.csv"
    prices.write_text(BOOK)
    with prometheus_over_text(write, tmp_path / "prometheus") as url:
        config = write_config(described(), tmp_path, prices, url, cluster="main")
        config = config.model_copy(
            update={"units": [UnitSettings(name="mine", unit="epoch", metric="my_epochs")]}
        )
        store = Store(config.store)
        pipeline.collect(config, store, DAY)
        for source in config.prometheus:
            for _ in range(2):  # the second time replaces
                result = collect_progress(source, store, mappings(config), DAY)
                assert result.ok
            assert set(result.metrics) == {
                "vllm-requests",
                "vllm-prompt-tokens",
                "vllm-generation-tokens",
                "mine",
            }
        with (tmp_path / "gpucost.toml").open("a") as file:
            file.write(
                '[[units]]\nname = "answers"\nunit = "answer"\nquery = \'sum by (namespace, pod) (vllm:prompt_tokens_total)\'\n'
                '[[units]]\nname = "mine"\nunit = "epoch"\nmetric = "my_epochs"\n'
                '[[units]]\nname = "nothing"\nunit = "answer"\nmetric = "my_epoch"\n'
            )
        words = [
            "--config",
            str(tmp_path / "gpucost.toml"),
            "-v",
            "--from",
            DAY.start.isoformat(),
            "--to",
            DAY.end.isoformat(),
        ]
        result = CliRunner().invoke(app, ["collect", "progress", *words])
        assert result.exit_code == 0, result.output
        assert "answers: " in result.stdout
        assert (
            "[[units]] 'nothing' matched no series in this period; the server has no metric my_epoch"
            in result.stderr
        )
        assert (
            "fix: did you mean my_epochs?" in result.stderr and result.stderr.count("matched no series") == 1
        )
    # each engine counted up to the last look before the restart, and from it to the end
    minutes = counted(round(RESTART * 60) - 1, 1) + counted(HOURS * 60 - 1, 1)
    good = sum(rate for reason, rate in REASONS.items() if reason not in ("abort", "error"))
    (row,) = asked(config, store, units.requests, (0, HOURS)).rows
    assert (row["amount"], row["failed"], row["model"]) == (
        2 * good * minutes,
        2 * 4 * minutes,
        "Qwen/Qwen2.5",
    )
    assert row["cost"] == Decimal(4 * HOURS)
    assert float(row["cost_per_1000"]) == pytest.approx(4 * HOURS / (2 * good * minutes) * 1000)
    (row,) = asked(config, store, units.tokens, (0, HOURS)).rows
    assert (row["prompt_tokens"], row["generation_tokens"]) == (2 * 3000 * minutes, 2 * 700 * minutes)
    assert float(row["idle_cost"]) == pytest.approx(4 * HOURS / 2, abs=0.1)
    assert [
        (row["epoch"], row["status"], row["cost"]) for row in asked(config, store, hours=(0, HOURS)).rows
    ] == [(1, "done", Decimal(96)), (2, "done", Decimal(96)), (3, "unfinished", Decimal(96))]


# What else counts tokens, with the labels that it prints; those of a pod are the scrape's. By mapping, what a minute adds.
# Values are made up: what engines printed where they ran is in test_engine_expositions.py.
_STAGE = 'model_name="qwen",engine_type="unified",tp_rank="0"'
PRINTED = {
    'sglang:num_requests_total{model_name="qwen",is_streaming="true"}': ("sglang-requests", 3),
    'sglang:num_requests_total{model_name="qwen",is_streaming="false"}': ("sglang-requests", 2),
    'sglang:prompt_tokens_total{model_name="qwen",is_streaming="true"}': ("sglang-prompt-tokens", 70),
    'sglang:prompt_tokens_total{model_name="qwen",is_streaming="false"}': ("sglang-prompt-tokens", 7),
    'sglang:generation_tokens_total{model_name="qwen",is_streaming="true"}': ("sglang-generation-tokens", 11),
    f'sglang:per_stage_req_latency_seconds_sum{{{_STAGE},pp_rank="0",stage="prefill_forward"}}': ("sglang-prefill-seconds", 2),
    f'sglang:per_stage_req_latency_seconds_sum{{{_STAGE},pp_rank="1",stage="prefill_forward"}}': (None, 2),
    f'sglang:per_stage_req_latency_seconds_sum{{{_STAGE},pp_rank="0",stage="chunked_prefill"}}': (None, 1),
    'sglang:inter_token_latency_seconds_sum{model_name="qwen"}': ("sglang-decode-seconds", 9),
    'sglang:cached_tokens_total{model_name="qwen",cache_source="device"}': ("sglang-cached-tokens", 20),
    'sglang:cached_tokens_total{model_name="qwen",cache_source="host"}': ("sglang-cached-tokens", 5),
    'trtllm_request_success_total{model_name="qwen",engine_type="trtllm",finished_reason="stop"}': ("trtllm-requests", 3),
    'trtllm_request_error_total{model_name="qwen",engine_type="trtllm"}': ("trtllm-failed-requests", 1),
    'trtllm_prompt_tokens_total{model_name="qwen",engine_type="trtllm"}': ("trtllm-prompt-tokens", 60),
    'trtllm_prompt_cached_tokens_total{model_name="qwen",engine_type="trtllm"}': ("trtllm-cached-tokens", 6),
    'trtllm_generation_tokens_total{model_name="qwen",engine_type="trtllm"}': ("trtllm-generation-tokens", 12),
    'trtllm_request_prefill_time_seconds_sum{model_name="qwen",engine_type="trtllm"}': ("trtllm-prefill-seconds", 2),
    'trtllm_request_decode_time_seconds_sum{model_name="qwen",engine_type="trtllm"}': ("trtllm-decode-seconds", 8),
    'nv_llm_input_token_len_sum{model="qwen",response_metric_type="total_input_tokens",version="1"}': (
        "triton-trtllm-prompt-tokens", 30,
    ),
    'nv_llm_output_token_len_sum{model="qwen",response_metric_type="total_output_tokens",version="1"}': (
        "triton-trtllm-generation-tokens", 13,
    ),
    'kserve_vllm:request_success_total{model_name="qwen",engine="0",finished_reason="stop"}': ("kserve-vllm-requests", 5),
    'kserve_vllm:prompt_tokens_total{model_name="qwen",engine="0"}': ("kserve-vllm-prompt-tokens", 50),
    'kserve_vllm:generation_tokens_total{model_name="qwen",engine="0"}': ("kserve-vllm-generation-tokens", 15),
    'kserve_vllm:prefix_cache_hits_total{model_name="qwen",engine="0"}': ("kserve-vllm-cached-tokens", 8),
    'kserve_vllm:request_prefill_time_seconds_sum{model_name="qwen",engine="0"}': ("kserve-vllm-prefill-seconds", 3),
    'kserve_vllm:request_decode_time_seconds_sum{model_name="qwen",engine="0"}': ("kserve-vllm-decode-seconds", 6),
    'ray_vllm_request_success_total{model_name="qwen",WorkerId="w1",finished_reason="stop"}': ("ray-vllm-requests", 4),
    'ray_vllm_prompt_tokens_total{model_name="qwen",WorkerId="w1"}': ("ray-vllm-prompt-tokens", 90),
    'ray_vllm_generation_tokens_total{model_name="qwen",WorkerId="w1"}': ("ray-vllm-generation-tokens", 14),
    'ray_vllm_prefix_cache_hits_total{model_name="qwen",WorkerId="w1"}': ("ray-vllm-cached-tokens", 9),
    'ray_vllm_request_prefill_time_seconds_sum{model_name="qwen",WorkerId="w1"}': ("ray-vllm-prefill-seconds", 1),
    'ray_vllm_request_decode_time_seconds_sum{model_name="qwen",WorkerId="w1"}': ("ray-vllm-decode-seconds", 5),
}  # fmt: skip


def test_what_other_engines_print(tmp_path: Path) -> None:
    require_prometheus()
    config = write_config(described(), tmp_path, tmp_path / "no.csv")

    def scraped(out: TextIO) -> None:
        for series, (_, rate) in PRINTED.items():
            for minute in range(30):
                labels = series.replace("}", ',namespace="chat",pod="llm-0"}')
                out.write(f"{labels} {100 + minute * rate} {at(0) + minute * 60}\n")
        out.write("# EOF\n")

    with prometheus_over_text(scraped, tmp_path / "prometheus") as url:
        store = Store(tmp_path / "store.duckdb")
        collect_progress(PrometheusSource(url=url), store, mappings(config), DAY)
    with store.read() as con:
        rows = con.execute(
            "SELECT s.mapping, s.unit, s.is_failure, sum(v.high - 100) FROM progress_series AS s "
            "JOIN (SELECT series_id, max(value) AS high FROM progress_values GROUP BY series_id) AS v USING (series_id) "
            "WHERE s.model = 'qwen' AND s.pod = 'llm-0' GROUP BY ALL"
        ).fetchall()
    due: dict[str, int] = {}
    for mapping, rate in PRINTED.values():
        if mapping:
            due[mapping] = due.get(mapping, 0) + 29 * rate
    assert {mapping: counted for mapping, _, _, counted in rows} == due
    units_of = {
        f"{name}s": name.replace("-", "_")
        for name in ("prompt-token", "generation-token", "cached-token", "request")
    }
    units_of |= {"prefill-seconds": "prefill_second", "decode-seconds": "decode_second"}
    for mapping, unit, is_failure, _ in rows:
        assert unit == next((of for name, of in units_of.items() if mapping.endswith(name)), unit)
        assert is_failure == mapping.endswith("failed-requests")
