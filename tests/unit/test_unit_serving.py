"""What requests and tokens cost: increases of counters, whatever their series went through, over the cost of who served."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.collect.progress.files import import_files
from gpucost.config.model import DEFAULT_PROMPT_WEIGHT, Serving, UnitSettings
from gpucost.errors import DataError, UsageError
from gpucost.periods import Period
from gpucost.report import units
from gpucost.report.query import Query
from gpucost.report.units.query import UnitView
from gpucost.store.connection import Store
from tests.replay.cases.words import MORNING, at, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.work import asked, counter, put, stored
from tests.shared import shared


def serving(pods: list[tuple[str, list[int], float, float]], hours: float = 24) -> Fleet:
    """Pods of a Deployment on a $4 node of 4 L4s, busy for the first half of their time."""
    told = [
        pod(name, "serve", gpus, start, end, namespace="chat", owner=["Deployment", name.rsplit("-", 1)[0]])
        for name, gpus, start, end in pods
    ]
    util = {key: spans for _, gpus, start, end in pods for key, spans in busy("serve", gpus, start, (start + end) / 2).items()}
    return fleet(hours, [node("serve", "g6.12xlarge", 0, hours)], told, util, scrape=600)


def test_engines_and_replicas_add_up_and_failures_do_not_count(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1], 0, 24), ("llm-1", [2, 3], 0, 24)]), tmp_path)
    told = []
    for name in ("llm-0", "llm-1"):
        for engine in ("0", "1"):
            for reason, rate in (("stop", 1000), ("length", 500), ("abort", 7)):
                labels = {"engine": engine, "finished_reason": reason}
                series = counter("request", name, "chat", model="qwen", labels=labels, is_failure=reason == "abort")
                told.append((series, [(0, 10), (12, 10 + rate), (23, 10 + 2 * rate)]))
    put(store, told)
    view = asked(config, store, units.requests)
    (row,) = view.rows
    assert (row["amount"], row["failed"], row["cost"]) == (4 * 2 * 1500, 4 * 14, Decimal(96))
    assert row["cost_per_1000"] == Decimal(8)
    assert float(row["idle_cost"]) == pytest.approx(48, abs=1)


def test_copies_resets_new_pods_and_missing_samples(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 10), ("llm-1", [0, 1, 2, 3], 11, 24)]), tmp_path)
    copies = [
        (counter("request", "llm-0", "chat", labels={"prometheus_replica": name}), points)
        for name, points in (
            # the second replica is behind, misses the restart at 5 and comes back later
            ("a", [(0.0, 100), (2, 300), (4, 500), (5, 0), (6, 50), (9, 200)]),
            ("b", [(0.01, 100), (2.01, 290), (4.01, 500), (6.01, 49), (9.01, 200)]),
        )
    ]
    # scraped by two jobs; it began within the collected time, so it counted from 0
    twice = [(counter("request", "llm-1", "chat", labels={"job": job}), [(11.2, 30), (20, 130)]) for job in ("one", "two")]
    put(store, [*copies, *twice])
    view = asked(config, store, units.requests)
    assert view.totals["amount"] == 400 + 200 + 130
    assert view.totals["cost"] == Decimal(23 * 4)


def test_models_of_one_workload_share_its_cost_by_their_work(tmp_path: Path) -> None:
    config, store = stored(serving([("triton-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(
        store,
        [
            (counter("batch_item", "triton-0", "chat", model="a"), [(0, 0), (8, 100)]),
            (counter("batch_item", "triton-0", "chat", model="b"), [(0, 0), (8, 200)]),
            (counter("request", "triton-0", "chat", model="a"), [(0, 0), (8, 9)]),
        ],
    )
    view = asked(config, store, partial(units.requests, unit="batch_item"))
    assert {row["model"]: row["cost"] for row in view.rows} == {"a": Decimal(32), "b": Decimal(64)}
    assert view.notes


def test_days_without_work_cost_too(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 48)], 48), tmp_path)
    tokens = [
        (counter("prompt_token", "llm-0", "chat", model="m"), [(0, 0), (5, 3_000_000)]),
        (counter("generation_token", "llm-0", "chat", model="m"), [(0, 0), (5, 1_000_000)]),
    ]
    put(store, tokens, 48)
    view = asked(config, store, units.tokens, (0, 48))
    assert [(row["day"], row["cost"], row["cost_per_million_tokens"]) for row in view.rows] == [
        ("2026-03-10", Decimal(96), Decimal(24)),
        ("2026-03-11", Decimal(96), None),
    ]
    (model,) = view.sections["models"]
    # three million at a quarter each, and one: 3/7 and 4/7 of $192; a night without tokens is split as the rest
    assert model["prompt_cost"] + model["generation_cost"] == model["cost"] == Decimal(192)
    assert float(model["cost_per_million_prompt_tokens"]) == pytest.approx(192 * 3 / 7 / 3)
    assert float(model["cost_per_million_generation_tokens"]) == pytest.approx(192 * 4 / 7)
    assert model["cost_per_million_tokens"] == Decimal(48) and not model["unserved_cost"]


def test_cached_tokens_cost_nothing_and_say_what_they_saved(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    counts = {
        "prompt_token": 8_000_000,
        "cached_token": 4_000_000,
        "generation_token": 1_000_000,
        "prefill_second": 30,
        "decode_second": 90,
    }
    put(store, [(counter(unit, "llm-0", "chat", model="m"), [(0, 0), (5, count)]) for unit, count in counts.items()])
    (row,) = asked(config, store, units.tokens).rows
    # of eight million prompt tokens four were computed: at a quarter each they weigh what the generated million does
    assert (row["cost"], row["prompt_cost"], row["generation_cost"]) == (Decimal(96), Decimal(48), Decimal(48))
    assert (row["cost_per_million_prompt_tokens"], row["cost_per_million_generation_tokens"]) == (Decimal(6), Decimal(48))
    assert (row["cached_tokens"], row["cache_saved_cost"]) == (4_000_000, Decimal(48))
    assert (row["request_time_prompt_cost"], row["request_time_generation_cost"]) == (Decimal(24), Decimal(72))


def test_seconds_of_one_phase_are_no_split(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    counts = {"prompt_token": 8_000_000, "generation_token": 1_000_000, "decode_second": 90}
    put(store, [(counter(unit, "llm-0", "chat", model="m"), [(0, 0), (5, count)]) for unit, count in counts.items()])
    (row,) = asked(config, store, units.tokens).rows
    assert (row["request_time_prompt_cost"], row["request_time_generation_cost"]) == (None, None)


def test_a_mapping_says_what_a_prompt_token_weighs(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    mine = UnitSettings(name="mine", unit="prompt_token", metric="prompts", prompt_weight=1)
    config = config.model_copy(update={"units": [mine]})
    put(store, [(counter("prompt_token", "llm-0", "chat")._replace(mapping="mine"), [(0, 0), (5, 3)])])
    put(store, [(counter("generation_token", "llm-0", "chat"), [(0, 0), (5, 1)])], source="other")
    (row,) = asked(config, store, units.tokens).rows
    assert (row["prompt_cost"], row["generation_cost"]) == (Decimal(72), Decimal(24))


def test_pools_of_prefill_and_decode_are_one_and_each_phase_costs_its_pool(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-prefill-0", [0], 0, 24), ("llm-decode-0", [1, 2, 3], 0, 24)]), tmp_path)
    counts = {
        "llm-prefill-0": {"prompt_token": 8_000_000, "cached_token": 2_000_000, "generation_token": 100},
        # of the prompt, which it counts again, all came over from the other pod
        "llm-decode-0": {"prompt_token": 8_000_000, "cached_token": 8_000_000, "generation_token": 1_000_000},
    }
    told = [
        (counter(unit, name, "chat", model="m"), [(0, 0), (5, count)])
        for name, units_of in counts.items()
        for unit, count in units_of.items()
    ]
    put(store, told)
    apart = asked(config, store, units.tokens)
    assert [row["workload"] for row in apart.rows] == ["Deployment/llm-decode", "Deployment/llm-prefill"]
    assert "Deployment/llm-prefill and Deployment/llm-decode look like the pools of one model" in apart.notes[-1]
    pooled = config.model_copy(update={"serving": Serving(prefill=["*-prefill"], decode=["Deployment/llm-decode"])})
    view = asked(pooled, store, units.tokens)
    (row,) = view.rows
    assert row["workload"] == "Deployment/llm-prefill + Deployment/llm-decode" and not view.notes
    assert (row["cost"], row["prompt_cost"], row["generation_cost"], row["unserved_cost"]) == (
        Decimal(96),
        Decimal(24),
        Decimal(72),
        0,
    )
    assert (row["prompt_tokens"], row["cached_tokens"], row["generation_tokens"]) == (8_000_000, 2_000_000, 1_000_000)
    assert (row["cost_per_million_prompt_tokens"], row["cost_per_million_generation_tokens"]) == (Decimal(3), Decimal(72))
    # six million cost $24
    assert row["cache_saved_cost"] == Decimal(8)
    for basis in ("allocated", "used"):
        both = asked(pooled, store, partial(units.tokens, basis=basis)), asked(config, store, partial(units.tokens, basis=basis))
        for name in ("cost", "idle_cost", "allocated_cost", "cost_without_work"):
            assert both[0].totals[name] == both[1].totals[name]
        parts = sum(both[0].totals[f"{name}_cost"] for name in ("prompt", "generation", "unserved"))
        assert parts == Decimal(96) - (both[0].totals["idle_cost"] if basis == "used" else 0)
    # one of the two alone is a workload as others
    assert asked(pooled, store, units.tokens, workloads=("llm-decode",)).rows[0]["workload"] == "Deployment/llm-decode"


def test_rows_by_what_was_asked_for_add_up(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1], 0, 48), ("big-0", [2, 3], 0, 48)], 48), tmp_path)
    counts = {("llm-0", "small"): 5, ("llm-0", "tiny"): 2, ("big-0", "small"): 9}
    told = [
        (counter(unit, name, "chat", model=model), [(0, 0), (5, count * 1e6), (29, count * scale * 1e6)])
        for (name, model), count in counts.items()
        for unit, scale in (("prompt_token", 3), ("generation_token", 2))
    ]
    put(store, told, 48)
    whole = asked(config, store, units.tokens, (0, 48))
    for by, rows in (("model",), 2), (("workload",), 2), (("day", "model"), 4), (("team",), 1), (("cluster", "namespace"), 1):
        view = asked(config, store, partial(units.tokens, by=by), (0, 48))
        assert view.totals == whole.totals and len(view.rows) == rows
        for name in ("cost", "prompt_cost", "generation_cost", "prompt_tokens", "idle_cost"):
            assert sum(row[name] for row in view.rows) == whole.totals[name]
        assert {name for name in units.DIMENSIONS if view.rows[0][name] is not None} == set(by)
    by_model = asked(config, store, partial(units.tokens, by=("model",)), (0, 48)).rows
    assert [row["model"] for row in by_model] == ["small", "tiny"]


def test_models_that_served_nothing_have_a_cost_of_their_own(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 48)], 48), tmp_path)
    put(store, [(counter("prompt_token", "llm-0", "chat", model="m"), [(0, 0), (5, 100), (40, 100)])], 48)
    (row,) = asked(config, store, units.tokens, (24, 48)).rows
    assert (row["cost"], row["unserved_cost"], row["prompt_cost"], row["generation_cost"]) == (Decimal(96), Decimal(96), 0, 0)
    assert row["cost_per_million_tokens"] is None


def test_hours_of_nothing_are_the_models_however_they_were_collected(tmp_path: Path) -> None:
    """Only changes are stored: a model is there in hours of which no value is."""
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(
        store,
        [
            (
                counter("prompt_token", "llm-0", "chat", model=model),
                [(0, 0), (5, 100), (12, 100), (20, 100 + more), (23, 100 + more)],
            )
            for model, more in (("a", 7), ("b", 0))
        ],
    )
    view = asked(config, store, units.tokens, (10, 14))
    assert [(row["model"], row["cost"], row["unserved_cost"]) for row in view.rows] == [
        ("a", Decimal(8), Decimal(8)),
        ("b", Decimal(8), Decimal(8)),
    ]
    assert not view.sections["cost_without_work"]
    assert asked(config, store, units.tokens, (6, 7)).totals["cost"] == Decimal(4)


_COUNTS = st.integers(0, 10**12)
_MODELS = st.lists(st.tuples(_COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS), min_size=1, max_size=4)


@given(days=st.lists(_MODELS, min_size=1, max_size=3), weight=st.sampled_from([0.0, 0.1, 0.25, 1.0, 7.3]))
@settings(max_examples=6, deadline=None)
def test_parts_of_tokens_are_the_whole_in_both_bases(days: list[list[tuple[int, ...]]], weight: float) -> None:
    names = ("prompt_token", "cached_token", "generation_token", "prefill_second", "decode_second")
    with TemporaryDirectory() as folder:
        config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 70)], 72), Path(folder))
        config = config.model_copy(
            update={"units": [UnitSettings(name="w", unit="prompt_token", metric="m", prompt_weight=weight)]}
        )
        told = []
        for model in range(max(map(len, days))):
            for at, name in enumerate(names):
                level, points = 0, [(0.0, 0.0)]
                for day, models in enumerate(days):
                    level += models[model][at] if model < len(models) else 0
                    points.append((day * 24 + 9.0, float(level)))
                mapping = "w" if name == "prompt_token" else name
                told.append((counter(name, "llm-0", "chat", model=f"m{model}")._replace(mapping=mapping), points))
        put(store, told, 72)
        for build in (units.tokens, partial(units.tokens, basis="used")):
            view = asked(config, store, build, (0, 72))
            for row in (*view.rows, *view.sections["models"], view.totals):
                parts = row["prompt_cost"] + row["generation_cost"] + row["unserved_cost"]
                assert parts == row["cost"] - (row["idle_cost"] if view.facts["basis"] == "used" else 0)
                assert min(row["prompt_cost"], row["generation_cost"], row["unserved_cost"], row["cache_saved_cost"] or 0) >= 0
                times = [row[f"request_time_{name}_cost"] for name in ("prompt", "generation")]
                assert times == [None, None] or sum(times) == parts
            assert view.totals["cost"] == Decimal(70 * 4)


@pytest.mark.slow
def test_loading_again_changes_nothing_and_a_window_replaces(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    for last in (100, 100, 160):
        put(store, [(counter("request", "llm-0", "chat"), [(1, 0), (2, 40), (3, 40), (4, 40), (9, last)])])
    assert asked(config, store, units.requests).totals["amount"] == 160
    with store.read() as con:  # values where they change, and the first and last
        assert con.execute("SELECT count(*) FROM progress_values").fetchall() == [(3,)]


def _trace(path: Path, rows: list[tuple[datetime, int, int]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["workload", "time", "unit", "value", "model"])
        for moment, prompt, generated in rows:
            for unit, value in (("prompt_token", prompt), ("generation_token", generated), ("request", 1)):
                writer.writerow(["Deployment/llm", moment.isoformat(), unit, value, "conv"])


def check_trace(rows: list[tuple[datetime, int, int]], folder: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 2)], 2), folder)
    _trace(folder / "trace.csv", rows)
    for _ in range(2):
        import_files(store, [folder / "trace.csv"], config.tz)
    prompt, generated = sum(row[1] for row in rows), sum(row[2] for row in rows)
    view = asked(config, store, units.tokens, (0, 2))
    assert (view.totals["prompt_tokens"], view.totals["generation_tokens"]) == (prompt, generated)
    # two hours of a $4 node
    assert float(view.totals["cost_per_million_tokens"]) == pytest.approx(8 / (prompt + generated) * 1e6)
    weighted = prompt * DEFAULT_PROMPT_WEIGHT + generated
    assert float(view.totals["cost_per_million_generation_tokens"]) == pytest.approx(8 / weighted * 1e6)
    assert view.totals["prompt_cost"] + view.totals["generation_cost"] == view.totals["cost"]
    assert float(asked(config, store, units.requests, (0, 2)).totals["cost_per_1000"]) == pytest.approx(8000 / len(rows))


def test_requests_with_token_counts_from_a_file(tmp_path: Path) -> None:
    start = datetime.fromtimestamp(MORNING, UTC)
    check_trace([(start + timedelta(seconds=i * 0.7), 300 + i * 13 % 900, 20 + i * 7 % 300) for i in range(1000)], tmp_path)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("kind", ["code", "conv"])
def test_the_azure_trace_of_2023(kind: str, tmp_path: Path) -> None:
    """Columns TIMESTAMP, ContextTokens, GeneratedTokens; moved to the fleet's day."""
    with shared(f"data/gpu/inference-azure-2023/data/AzureLLMInferenceTrace_{kind}.csv").open() as file:
        told = [
            (datetime.fromisoformat(row["TIMESTAMP"]).replace(tzinfo=UTC), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(file)
        ]
    first = min(moment for moment, _, _ in told)
    start = datetime.fromtimestamp(at(0.1), UTC)
    check_trace([(start + (moment - first), prompt, generated) for moment, prompt, generated in told], tmp_path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("llm,yesterday,request,1", "line 3: time 'yesterday'"),
        ("llm,2026-03-10T00:00Z,request,-1", "line 3: value '-1'"),
        ("llm,2026-03-10T00:00Z,request,nan", "line 3: value 'nan'"),
        ("llm,2026-03-10T00:00Z,epoch,-1", "line 3: value '-1'"),
        ("llm,2026-03-10T00:00Z,,1", "line 3: unit ''"),
        (",2026-03-10T00:00Z,request,1", "line 3: workload ''"),
        ("llm,2026-03-10T00:00Z,request", "line 3: as many fields"),
    ],
)
def test_a_broken_row_is_named_and_nothing_is_loaded(row: str, said: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.duckdb")
    good, bad = tmp_path / "a.csv", tmp_path / "b.csv"
    good.write_text("workload,time,unit,value\nllm,2026-03-10T00:00Z,request,1\n")
    bad.write_text(f"workload,time,unit,value\nllm,2026-03-10T00:00Z,request,1\n{row}\n")
    with pytest.raises(DataError, match=said):
        import_files(store, [good, bad], UTC)  # type: ignore[arg-type]
    assert not store.exists
    with pytest.raises(UsageError, match="there is no"):
        import_files(store, [tmp_path / "c.csv"], UTC)  # type: ignore[arg-type]


def test_jsonl_and_local_times(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 2)], 2), tmp_path)
    path = tmp_path / "work.jsonl"
    path.write_text(
        '{"workload": "llm", "namespace": "chat", "time": 1773104400, "unit": "request", "value": 5}\n\n'
        '{"workload": "llm", "namespace": "chat", "time": "2026-03-10T01:30:00", "unit": "request", "value": 2, "failed": true}\n'
    )
    import_files(store, [path], config.tz)
    (row,) = asked(config, store, units.requests, (0, 2)).rows
    assert (row["amount"], row["failed"]) == (5, 2)


def test_plurals_are_the_units_that_commands_know_and_other_words_are_told(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 2)], 2), tmp_path)
    path = tmp_path / "work.csv"
    rows = ("requests,2000", "prompt_tokens,3000000", "generation_tokens,1000000", "frames,7")
    path.write_text("workload,namespace,time,unit,value\n" + "".join(f"llm,chat,2026-03-10T00:30Z,{row}\n" for row in rows))
    (result,) = import_files(store, [path], config.tz)
    assert result.own_units == ("frames",)
    # two hours at $4
    assert asked(config, store, units.requests, (0, 2)).totals["cost_per_1000"] == Decimal(4)
    assert asked(config, store, units.tokens, (0, 2)).totals["cost_per_million_tokens"] == Decimal(2)


def _processes(starts: list[int], rates: list[int]) -> list[tuple[float, int]]:
    """What scrapes find, a minute apart: each the counter of one of the workers, which add their rate a minute."""
    picked = random.Random(4)
    chosen = [(minute, picked.randrange(len(starts))) for minute in range(240)]
    return [(minute / 60, starts[worker] + rates[worker] * minute) for minute, worker in chosen]


def _requests(points: list[tuple[float, int]], folder: Path) -> UnitView:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), folder)
    put(store, [(counter("request", "llm-0", "chat"), points)])
    return asked(config, store, units.requests)


def test_workers_behind_one_name_are_added_up_by_their_levels(tmp_path: Path) -> None:
    starts, rates = [10_000, 20_000, 40_000, 90_000], [1, 2, 3, 4]
    points = _processes(starts, rates)
    view = _requests(points, tmp_path)
    # of each worker what it added between its first scrape and its last; falls alone would make millions of it
    seen = [[value for _, value in points if start <= value < start + 1000] for start in starts]
    assert sum(map(len, seen)) == len(points)
    assert view.totals["amount"] == sum(values[-1] - values[0] for values in seen) == 2363
    assert ["4 levels are added up" in note for note in view.notes] == [True]


def test_workers_with_levels_alike_are_left_out_and_named(tmp_path: Path) -> None:
    config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), tmp_path)
    put(store, [(counter("request", "llm-0", "chat"), _processes([0, 0, 0, 0], [60, 61, 59, 60]))])
    view = asked(config, store, units.requests)
    assert view.totals["amount"] == 0 and view.totals["cost_without_work"] == Decimal(96)
    (note,) = view.notes[:1]
    assert note.startswith("test of chat/llm-0 counts several processes under one name; their levels cannot be told apart")
    period = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))
    warnings = pipeline.report(config, store, Query(period, "the day")).coverage.warnings
    assert [notice.message in note for notice in warnings if notice.code == "counter_of_processes"] == [True]


@pytest.mark.parametrize(
    ("points", "amount"),
    [
        # one restart at 2 h: what was counted since; then a crash every five scrapes, alike or not
        ([(minute / 60, minute % 120 * 10) for minute in range(240)], 1190 + 1190),
        ([(minute / 60, minute % 5 * 100) for minute in range(240)], 48 * 400),
        ([(minute / 60, minute % 3 * 100) for minute in range(240)], 80 * 200),
        ([(minute / 60, minute % 5 * (100 + minute % 7) + 3) for minute in range(240)], None),
    ],
)
def test_restarts_are_no_processes(points: list[tuple[float, int]], amount: int | None, tmp_path: Path) -> None:
    view = _requests(points, tmp_path)
    assert not [note for note in view.notes if "processes" in note]
    # a fall is a restart from 0
    falls = sum(now - before if now >= before else now for (_, before), (_, now) in pairwise(points))
    assert view.totals["amount"] == falls == (amount or falls)
