"""Real expositions of serving engines and their frontends: the shipped mappings count each piece of work once.

The files in tests/replay/engines contain lines of real expositions with their sources: lines that count, and similar ones
that must not. MADE_UP has the mapped series without a known exposition.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpucost.store.connection import Store
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.unit.command import call

pytestmark = pytest.mark.services

ENGINES = Path(__file__).parents[1] / "replay" / "engines"
FILES = {path.stem: path.read_text() for path in sorted(ENGINES.glob("*.prom"))}
Amounts = defaultdict[tuple[Any, ...], float]
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp())

#: File, model, unit, amount of work, and failed amount if failures are reported.
COUNTED = """
vllm-v0          facebook/opt-125m  request           1
vllm-v0          facebook/opt-125m  prompt_token      5
vllm-v0          facebook/opt-125m  generation_token  7
vllm-v1          facebook/opt-125m  cached_token      64
vllm-v1          facebook/opt-125m  prefill_second    0.2140041133388877
vllm-v1          facebook/opt-125m  decode_second     0.6237391703762114
dynamo-vllm      Qwen/Qwen3-0.6B    request           2    0
dynamo-vllm      Qwen/Qwen3-0.6B    prompt_token      66
dynamo-vllm      Qwen/Qwen3-0.6B    cached_token      0
dynamo-vllm      Qwen/Qwen3-0.6B    generation_token  600
dynamo-vllm      Qwen/Qwen3-0.6B    prefill_second    0.41180944442749023
dynamo-vllm      Qwen/Qwen3-0.6B    decode_second     3.1598554495722055
dynamo-sglang    Qwen/Qwen3-0.6B    request           1
dynamo-sglang    Qwen/Qwen3-0.6B    prompt_token      33
dynamo-sglang    Qwen/Qwen3-0.6B    generation_token  300
dynamo-sglang    Qwen/Qwen3-0.6B    decode_second     0.6138594150543213
dynamo-trtllm    Qwen/Qwen3-0.6B    request           2
sglang           meta-llama/Llama-3.1-8B-Instruct  prompt_token      8128902
sglang           meta-llama/Llama-3.1-8B-Instruct  generation_token  7557572
tgi              -                  request           109  2
tgi              -                  prompt_token      662
tgi              -                  generation_token  3423
triton           densenet_onnx      request           3    0
triton           densenet_onnx      batch_item        3
triton           simple             request           0    0
triton           simple             batch_item        0
triton-ensemble  ensemble           request           59   0
triton-ensemble  ensemble           batch_item        59
triton-ensemble  preprocessing      request           59   0
triton-ensemble  preprocessing      batch_item        59
triton-ensemble  postprocessing     request           59   0
triton-ensemble  postprocessing     batch_item        59
triton-ensemble  tensorrt_llm       request           0    0
triton-ensemble  tensorrt_llm       batch_item        0
triton-vllm      vllm_model         prompt_token      10
triton-vllm      vllm_model         generation_token  16
ray-vllm         neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8  request           1
ray-vllm         neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8  prompt_token      58
ray-vllm         neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8  generation_token  300
kserve           custom-server-test request           3
"""

#: Mapping, unit, and one of its series; - for a series that must not count.
MADE_UP = """
sglang-requests           request          sglang:num_requests_total{model_name="m",is_streaming="true"} 3
sglang-requests           request          sglang:num_requests_total{model_name="m",is_streaming="false"} 2
sglang-prompt-tokens      prompt_token     sglang:prompt_tokens_total{model_name="m",is_streaming="true"} 70
sglang-prompt-tokens      prompt_token     sglang:prompt_tokens_total{model_name="m",is_streaming="false"} 7
sglang-generation-tokens  generation_token sglang:generation_tokens_total{model_name="m",is_streaming="true"} 11
sglang-prefill-seconds    prefill_second   sglang:per_stage_req_latency_seconds_sum{model_name="m",tp_rank="0",pp_rank="0",stage="prefill_forward"} 2
-                         -                sglang:per_stage_req_latency_seconds_sum{model_name="m",tp_rank="0",pp_rank="1",stage="prefill_forward"} 2
-                         -                sglang:per_stage_req_latency_seconds_sum{model_name="m",tp_rank="0",pp_rank="0",stage="chunked_prefill"} 1
sglang-decode-seconds     decode_second    sglang:inter_token_latency_seconds_sum{model_name="m"} 9
sglang-cached-tokens      cached_token     sglang:cached_tokens_total{model_name="m",cache_source="device"} 20
sglang-cached-tokens      cached_token     sglang:cached_tokens_total{model_name="m",cache_source="host"} 5
trtllm-requests           request          trtllm_request_success_total{model_name="m",engine_type="trtllm",finished_reason="stop"} 3
trtllm-failed-requests    request          trtllm_request_error_total{model_name="m",engine_type="trtllm"} 1
trtllm-prompt-tokens      prompt_token     trtllm_prompt_tokens_total{model_name="m",engine_type="trtllm"} 60
trtllm-cached-tokens      cached_token     trtllm_prompt_cached_tokens_total{model_name="m",engine_type="trtllm"} 6
trtllm-generation-tokens  generation_token trtllm_generation_tokens_total{model_name="m",engine_type="trtllm"} 12
trtllm-prefill-seconds    prefill_second   trtllm_request_prefill_time_seconds_sum{model_name="m",engine_type="trtllm"} 2
trtllm-decode-seconds     decode_second    trtllm_request_decode_time_seconds_sum{model_name="m",engine_type="trtllm"} 8
triton-trtllm-prompt-tokens     prompt_token     nv_llm_input_token_len_sum{model="m",response_metric_type="total_input_tokens",version="1"} 30
triton-trtllm-generation-tokens generation_token nv_llm_output_token_len_sum{model="m",response_metric_type="total_output_tokens",version="1"} 13
kserve-vllm-requests          request          kserve_vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 5
kserve-vllm-prompt-tokens     prompt_token     kserve_vllm:prompt_tokens_total{model_name="m",engine="0"} 50
kserve-vllm-generation-tokens generation_token kserve_vllm:generation_tokens_total{model_name="m",engine="0"} 15
kserve-vllm-cached-tokens     cached_token     kserve_vllm:prefix_cache_hits_total{model_name="m",engine="0"} 8
kserve-vllm-prefill-seconds   prefill_second   kserve_vllm:request_prefill_time_seconds_sum{model_name="m",engine="0"} 3
kserve-vllm-decode-seconds    decode_second    kserve_vllm:request_decode_time_seconds_sum{model_name="m",engine="0"} 6
ray-vllm-requests          request          ray_vllm_request_success_total{model_name="m",WorkerId="w1",finished_reason="stop"} 4
ray-vllm-prompt-tokens     prompt_token     ray_vllm_prompt_tokens_total{model_name="m",WorkerId="w1"} 90
ray-vllm-generation-tokens generation_token ray_vllm_generation_tokens_total{model_name="m",WorkerId="w1"} 14
ray-vllm-cached-tokens     cached_token     ray_vllm_prefix_cache_hits_total{model_name="m",WorkerId="w1"} 9
ray-vllm-prefill-seconds   prefill_second   ray_vllm_request_prefill_time_seconds_sum{model_name="m",WorkerId="w1"} 1
ray-vllm-decode-seconds    decode_second    ray_vllm_request_decode_time_seconds_sum{model_name="m",WorkerId="w1"} 5
"""  # noqa: E501
PRINTED = [line.split(maxsplit=2) for line in MADE_UP.strip().splitlines()]


def samples_of(text: str) -> list[Sample]:
    """Return samples, parsed without types, since the parser would append _total to the names of counters."""
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    return [sample for family in text_string_to_metric_families("".join(lines)) for sample in family.samples]


def scrape(out: TextIO, samples: list[Sample], pod: str, **labels: str) -> None:
    """Write a pod's series at 0, and ten minutes later with the printed values."""
    for sample in samples:
        labels |= {"namespace": pod, "pod": f"{pod}-0", "instance": f"{pod}:8000"}
        shown = ",".join(f'{label}="{value}"' for label, value in {**sample.labels, **labels}.items())
        for value, minute in ((0.0, 0), (sample.value, 10)):
            out.write(f"{sample.name}{{{shown}}} {value!r} {START + 60 * minute}\n")


def write(out: TextIO) -> None:
    """Write each file as a pod, and one pod scraped by two monitors of KServe: with and without the prefix kserve_."""
    for name, text in FILES.items():
        scrape(out, samples_of(text), name)
    scrape(out, samples_of("\n".join(series for *_, series in PRINTED)), "made-up")
    for prefix in ("", "kserve_"):
        vllm = [sample for sample in samples_of(FILES["dynamo-vllm"]) if "vllm:" in sample.name]
        renamed = [sample._replace(name=prefix + sample.name) for sample in vllm]
        scrape(out, renamed, "kserve-llm", job=f"{prefix}vllm")
    out.write("# EOF\n")


def run(*words: str) -> str:
    return call(*words, "--from", "2026-10-01T00:00:00Z", "--to", "2026-10-01T01:00:00Z")[0]


def test_each_piece_of_work_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These pods hold no GPU, so all work is without cost. A series scraped under two names counts once."""
    require_prometheus()
    monkeypatch.chdir(tmp_path)
    with prometheus_over_text(write, tmp_path / "prometheus") as url:
        (tmp_path / "gpucost.toml").write_text(f'store = "gpucost.duckdb"\n[[prometheus]]\nurl = "{url}"\n')
        run("collect", "progress")
    counted: list[tuple[Any, ...]] = Store(tmp_path / "gpucost.duckdb").query(
        "SELECT namespace, mapping, model, unit, is_failure, sum(rise) FROM progress_series JOIN (SELECT series_id, max(value) - "
        "min(value) AS rise FROM progress_values GROUP BY ALL) USING (series_id) WHERE pod = namespace || '-0' GROUP BY ALL"
    )[1]
    due = Amounts(float)
    for mapping, unit, series in PRINTED:
        if mapping != "-":
            due[mapping, unit] += float(series.split()[-1])
    made_up = {row[1:] for row in counted if row[0] == "made-up"}
    assert made_up == {
        (mapping, "m", unit, mapping == "trtllm-failed-requests", amount)
        for (mapping, unit), amount in due.items()
    }

    expected, work, sums, listed = (Amounts(float) for _ in range(4))
    for pod, model, unit, *amounts in map(str.split, COUNTED.strip().splitlines()):
        for failed, amount in enumerate(map(float, amounts)):
            expected[pod, None if model == "-" else model, unit, bool(failed)] = amount
        for name in (pod, "kserve-llm") if pod == "dynamo-vllm" else (pod,):
            work[f"{name}/{name}-0", model.strip("-"), unit] = float(amounts[0])
    for pod, _, model, unit, failed, amount in counted:
        sums[pod, model, unit, failed] += amount
    assert {key: amount for key, amount in sums.items() if key[0] in FILES} == expected

    answers = [json.loads(run("unit", name, "--format", "json")) for name in ("requests", "tokens")]
    for row in (*answers[0]["work_without_cost"], *answers[1]["work_without_cost"]):
        if not row["workload"].startswith("made-up"):
            listed[row["workload"], row["model"] or "", row["unit"]] += row["amount"]
    units = ("request", "prompt_token", "cached_token", "generation_token")
    assert listed == {key: amount for key, amount in work.items() if key[2] in units and amount}
