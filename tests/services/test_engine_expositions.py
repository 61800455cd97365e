"""What serving engines, and frontends before them, printed where they ran: the ready-made mappings count each piece of work once.

The files under tests/replay/engines hold lines of real expositions, with their sources: those that count, and near neighbors
that must not. What the mappings read that no exposition was found of is in test_collect_progress.py, with values made up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.collect.progress.mappings import ready_made
from gpucost.store.connection import Store
from tests.replay.server import prometheus_over_text, require_prometheus

pytestmark = pytest.mark.services

FILES = {
    path.stem: path for path in sorted((Path(__file__).parents[1] / "replay" / "engines").glob("*.prom"))
}
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp())
OPT, QWEN, LLAMA = "facebook/opt-125m", "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B-Instruct"
RAY = "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8"
STEPS = {"ensemble": 59, "preprocessing": 59, "postprocessing": 59, "tensorrt_llm": 0}

#: By file: of a model and a unit how much was done, and how much failed where failures are told of.
COUNTED: dict[str, dict[tuple[str | None, str], tuple[float, ...]]] = {
    "vllm-v0": {(OPT, "request"): (1,), (OPT, "prompt_token"): (5,), (OPT, "generation_token"): (7,)},
    "vllm-v1": {
        (OPT, "cached_token"): (64,),
        (OPT, "prefill_second"): (0.2140041133388877,),
        (OPT, "decode_second"): (0.6237391703762114,),
    },
    "dynamo-vllm": {
        (QWEN, "request"): (2, 0),
        (QWEN, "prompt_token"): (66,),
        (QWEN, "cached_token"): (0,),
        (QWEN, "generation_token"): (600,),
        (QWEN, "prefill_second"): (0.41180944442749023,),
        (QWEN, "decode_second"): (3.1598554495722055,),
    },
    "dynamo-sglang": {
        (QWEN, "request"): (1,),
        (QWEN, "prompt_token"): (33,),
        (QWEN, "generation_token"): (300,),
        (QWEN, "decode_second"): (0.6138594150543213,),
    },
    "dynamo-trtllm": {(QWEN, "request"): (2,)},
    "sglang": {(LLAMA, "prompt_token"): (8_128_902,), (LLAMA, "generation_token"): (7_557_572,)},
    "tgi": {(None, "request"): (109, 2), (None, "prompt_token"): (662,), (None, "generation_token"): (3423,)},
    "triton": {
        ("densenet_onnx", "request"): (3, 0),
        ("densenet_onnx", "batch_item"): (3,),
        ("simple", "request"): (0, 0),
        ("simple", "batch_item"): (0,),
    },
    "triton-ensemble": {
        **{(model, "request"): (count, 0) for model, count in STEPS.items()},
        **{(model, "batch_item"): (count,) for model, count in STEPS.items()},
    },
    "triton-vllm": {("vllm_model", "prompt_token"): (10,), ("vllm_model", "generation_token"): (16,)},
    "ray-vllm": {(RAY, "request"): (1,), (RAY, "prompt_token"): (58,), (RAY, "generation_token"): (300,)},
    "kserve": {("custom-server-test", "request"): (3,)},
}


def samples_of(name: str) -> list[Sample]:
    """A file's samples. Without their types, by which the parser would put _total behind the names of counters that lack it."""
    lines = [line for line in FILES[name].read_text().splitlines(keepends=True) if not line.startswith("#")]
    return [sample for family in text_string_to_metric_families("".join(lines)) for sample in family.samples]


def scrape(out: TextIO, samples: list[Sample], pod: str, **labels: str) -> None:
    """A pod's series at 0, and ten minutes later as they were printed."""
    for sample in samples:
        labels |= {"namespace": pod, "pod": f"{pod}-0", "instance": f"{pod}:8000"}
        shown = ",".join(f'{label}="{value}"' for label, value in {**sample.labels, **labels}.items())
        for value, minute in ((0.0, 0), (sample.value, 10)):
            out.write(f"{sample.name}{{{shown}}} {value!r} {START + 60 * minute}\n")


def write(out: TextIO) -> None:
    """Every file as a pod of its own, and one pod that two monitors of KServe scrape: as it prints, and with kserve_ before."""
    for name in FILES:
        scrape(out, samples_of(name), name)
    for prefix in ("", "kserve_"):
        samples = [
            sample._replace(name=prefix + sample.name)
            for sample in samples_of("dynamo-vllm")
            if "vllm:" in sample.name
        ]
        scrape(out, samples, "kserve-llm", job=f"{prefix}vllm")
    out.write("# EOF\n")


@dataclass(frozen=True)
class Collected:
    """A store that `gpucost collect progress` filled from one Prometheus that scraped all files."""

    folder: Path

    def run(self, *words: str) -> Result:
        period = ("--from", "2026-10-01T00:00:00Z", "--to", "2026-10-01T01:00:00Z")
        result = CliRunner().invoke(app, [*words, "--config", str(self.folder / "gpucost.toml"), *period])
        assert result.exit_code == 0, result.output
        return result


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    require_prometheus()
    folder = tmp_path_factory.mktemp("engines")
    with prometheus_over_text(write, folder / "prometheus") as url:
        (folder / "gpucost.toml").write_text(f'store = "gpucost.duckdb"\n[[prometheus]]\nurl = "{url}"\n')
        collected = Collected(folder)
        collected.run("collect", "progress")
        yield collected


def test_every_exposition_is_known() -> None:
    assert FILES.keys() == COUNTED.keys()
    read = {unit.metric for unit in ready_made()}
    for name, path in FILES.items():
        first = path.read_text().splitlines()[0]
        assert re.match(r"# [\w-]+/[\w-]+, .* at [0-9a-f]{40}|# [\w-]+/[\w-]+, issue \d+", first), name
        others = [sample for sample in samples_of(name) if sample.name not in read]
        assert len(others) >= 2 or name == "triton-ensemble", f"{name}: no neighbors that must not count"


@pytest.mark.parametrize("name", FILES)
def test_each_engine_is_counted_as_it_printed(name: str, collected: Collected) -> None:
    with Store(collected.folder / "gpucost.duckdb").read() as con:
        rows = con.execute(
            "SELECT model, unit, is_failure, sum(rise) FROM (SELECT s.model, s.unit, s.is_failure, max(v.value) - min(v.value) "
            "AS rise FROM progress_series AS s JOIN progress_values AS v USING (series_id) WHERE s.pod = $1 AND s.namespace = $2 "
            "GROUP BY s.series_id, s.model, s.unit, s.is_failure) GROUP BY ALL",
            [f"{name}-0", name],
        ).fetchall()
    due = {
        (*about, is_failure): amount
        for about, amounts in COUNTED[name].items()
        for is_failure, amount in enumerate(amounts)
    }
    assert {(model, unit, int(failed)): amount for model, unit, failed, amount in rows} == due


ANSWERS = {"requests": ("request",), "tokens": ("prompt_token", "cached_token", "generation_token")}


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_count_each_piece_of_work_once(answer: str, collected: Collected) -> None:
    """No pod of these holds a GPU: all of it is work without cost. What is scraped under two names counts once."""
    due: Counter[tuple[str, str, str]] = Counter()
    for name, counts in {**COUNTED, "kserve-llm": COUNTED["dynamo-vllm"]}.items():
        for (model, unit), amounts in counts.items():
            if unit in ANSWERS[answer] and any(amounts):
                due[f"{name}/{name}-0", model or "", unit] += amounts[0]
    found: Counter[tuple[str, str, str]] = Counter()
    for row in json.loads(collected.run("unit", answer, "--format", "json").stdout)["work_without_cost"]:
        found[row["workload"], row["model"] or "", row["unit"]] += row["amount"]
    assert found == due
