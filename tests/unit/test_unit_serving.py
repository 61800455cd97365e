"""What requests and tokens cost: increases of counters, whatever their series went through, over the cost of who served."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.collect.progress.files import import_files
from gpucost.config.model import DEFAULT_PROMPT_WEIGHT, Serving, UnitSettings
from gpucost.errors import DataError, UsageError
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import UnitView
from gpucost.store.connection import Store
from tests.replay.cases.words import MORNING, at
from tests.replay.work import asked, put, stored
from tests.shared import shared
from tests.unit.served import CRASHES, GPUS, STARTS, WORKERS, Days, Served, odd_counts, served_at, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return served_at(tmp_path_factory.mktemp("served"))


def test_engines_and_replicas_add_up_and_failures_do_not_count(served: Served) -> None:
    (row,) = served.rows("engines", units.requests)
    assert (row["amount"], row["failed"], row["cost"], row["cost_per_1000"]) == (
        4 * 2 * 1500,
        4 * 14,
        Decimal(96),
        Decimal(8),
    )
    assert float(row["idle_cost"]) == pytest.approx(48, abs=1)


def test_copies_resets_new_pods_and_missing_samples(served: Served) -> None:
    (row,) = served.rows("copies", units.requests)
    assert (row["amount"], row["cost"]) == (400 + 200 + 130, Decimal(23 * 4))


def test_models_of_one_workload_share_its_cost_by_their_work(served: Served) -> None:
    ask = partial(units.requests, unit="batch_item")
    assert {row["model"]: row["cost"] for row in served.rows("triton", ask)} == {
        "a": Decimal(32),
        "b": Decimal(64),
    }
    assert served.ask(ask).notes


def test_days_without_work_cost_too(served: Served) -> None:
    assert [
        (row["day"], row["cost"], row["cost_per_million_tokens"])
        for row in served.rows("days", units.tokens, (0, 48))
    ] == [("2026-03-10", Decimal(96), Decimal(24)), ("2026-03-11", Decimal(96), None)]
    models = served.ask(units.tokens, (0, 48)).sections["models"]
    (model,) = [row for row in models if row["workload"] == "Deployment/days"]
    # three million at a quarter each, and one: 3/7 and 4/7 of $192; a night without tokens is split as the rest
    assert model["prompt_cost"] + model["generation_cost"] == model["cost"] == Decimal(192)
    assert float(model["cost_per_million_prompt_tokens"]) == pytest.approx(192 * 3 / 7 / 3)
    assert float(model["cost_per_million_generation_tokens"]) == pytest.approx(192 * 4 / 7)
    assert model["cost_per_million_tokens"] == Decimal(48) and not model["unserved_cost"]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        # of eight million prompt tokens four were computed: at a quarter each they weigh what the generated million does
        (
            "cached",
            {"cost": 96, "prompt_cost": 48, "generation_cost": 48, "cost_per_million_prompt_tokens": 6,
             "cost_per_million_generation_tokens": 48, "cached_tokens": 4_000_000, "cache_saved_cost": 48,
             "request_time_prompt_cost": 24, "request_time_generation_cost": 72},
        ),
        # seconds of one phase are no split
        ("phase", {"request_time_prompt_cost": None, "request_time_generation_cost": None}),
        # a mapping says what a prompt token weighs
        ("weighed", {"prompt_cost": 72, "generation_cost": 24}),
    ],
)  # fmt: skip
def test_what_kinds_of_tokens_cost(served: Served, workload: str, expected: dict[str, Any]) -> None:
    (row,) = served.rows(workload, units.tokens)
    assert {name: row[name] for name in expected} == expected


def test_pools_of_prefill_and_decode_are_one_and_each_phase_costs_its_pool(served: Served) -> None:
    both = ("pool-prefill", "pool-decode")
    apart = served.ask(units.tokens, workloads=both)
    assert [row["workload"] for row in apart.rows] == ["Deployment/pool-decode", "Deployment/pool-prefill"]
    assert (
        "Deployment/pool-prefill and Deployment/pool-decode look like the pools of one model"
        in apart.notes[-1]
    )
    pooled = served.config.model_copy(
        update={"serving": Serving(prefill=["*-prefill"], decode=["Deployment/pool-decode"])}
    )
    ask = partial(asked, pooled, served.store)
    view = ask(units.tokens, workloads=both)
    (row,) = view.rows
    expected = {
        "workload": "Deployment/pool-prefill + Deployment/pool-decode", "cost": 96, "prompt_cost": 24, "generation_cost": 72,
        "unserved_cost": 0, "prompt_tokens": 8_000_000, "cached_tokens": 2_000_000, "generation_tokens": 1_000_000,
        "cost_per_million_prompt_tokens": 3, "cost_per_million_generation_tokens": 72,
        "cache_saved_cost": 8,  # six million cost $24
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected and not [
        note for note in view.notes if "pools" in note
    ]
    used = partial(units.tokens, basis="used")
    for pool, each in ((view, apart), (ask(used, workloads=both), served.ask(used, workloads=both))):
        for name in ("cost", "idle_cost", "allocated_cost", "cost_without_work"):
            assert pool.totals[name] == each.totals[name]
        parts = sum(pool.totals[f"{name}_cost"] for name in ("prompt", "generation", "unserved"))
        assert parts == Decimal(96) - (0 if pool is view else pool.totals["idle_cost"])
    # one of the two alone is a workload as others
    assert ask(units.tokens, workloads=("pool-decode",)).rows[0]["workload"] == "Deployment/pool-decode"


def test_rows_by_what_was_asked_for_add_up(served: Served) -> None:
    ask = partial(asked, served.config, served.store, hours=(0, 48), workloads=("mixed", "big"))
    whole = ask(units.tokens)
    for by, rows in (("model",), 2), (("workload",), 2), (("day", "model"), 4), (("cluster", "namespace"), 1):
        view = ask(partial(units.tokens, by=by))
        assert view.totals == whole.totals and len(view.rows) == rows
        for name in ("cost", "prompt_cost", "generation_cost", "prompt_tokens", "idle_cost"):
            assert sum(row[name] for row in view.rows) == whole.totals[name]
        assert {name for name in units.DIMENSIONS if view.rows[0][name] is not None} == set(by)
        assert by != ("model",) or [row["model"] for row in view.rows] == ["small", "tiny"]


def test_models_that_served_nothing_have_a_cost_of_their_own(served: Served) -> None:
    (row,) = served.rows("idle", units.tokens, (24, 48))
    assert (row["cost"], row["unserved_cost"], row["prompt_cost"], row["generation_cost"]) == (
        Decimal(96),
        Decimal(96),
        0,
        0,
    )
    assert row["cost_per_million_tokens"] is None


def test_hours_of_nothing_are_the_models_however_they_were_collected(served: Served) -> None:
    """Only changes are stored: a model is there in hours of which no value is."""
    assert [
        (row["model"], row["cost"], row["unserved_cost"])
        for row in served.rows("quiet", units.tokens, (10, 14))
    ] == [("a", Decimal(8), Decimal(8)), ("b", Decimal(8), Decimal(8))]
    unworked = {row["workload"] for row in served.ask(units.tokens, (10, 14)).sections["cost_without_work"]}
    assert "Deployment/quiet" not in unworked and "Deployment/engines" in unworked


_COUNTS = st.integers(0, 10**12)
_MODELS = st.lists(st.tuples(_COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS), min_size=1, max_size=4)


def check_parts(view: UnitView) -> None:
    """Prompts, generated tokens and time without any are the whole, in both bases."""
    for row in (*view.rows, *view.sections["models"], view.totals):
        parts = row["prompt_cost"] + row["generation_cost"] + row["unserved_cost"]
        assert parts == row["cost"] - (row["idle_cost"] if view.facts["basis"] == "used" else 0)
        assert (
            min(
                row["prompt_cost"], row["generation_cost"], row["unserved_cost"], row["cache_saved_cost"] or 0
            )
            >= 0
        )
        times = [row[f"request_time_{name}_cost"] for name in ("prompt", "generation")]
        assert times == [None, None] or sum(times) == parts


def test_parts_of_tokens_are_the_whole_in_both_bases(served: Served) -> None:
    for build in (units.tokens, partial(units.tokens, basis="used")):
        check_parts(served.ask(build, (0, 48)))
    assert sum(row["cost"] for row in served.rows("odd", units.tokens, (0, 48))) == Decimal(48 * 4)


@pytest.mark.slow
@given(days=st.lists(_MODELS, min_size=1, max_size=3), weight=st.sampled_from([0.0, 0.1, 0.25, 1.0, 7.3]))
@settings(max_examples=20, deadline=None)
def test_parts_of_any_tokens_are_the_whole(days: Days, weight: float) -> None:
    with TemporaryDirectory() as folder:
        config, store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 70)], 72), Path(folder))
        mapped = [UnitSettings(name="llm", unit="prompt_token", metric="m", prompt_weight=weight)]
        put(store, odd_counts(days, "llm"), 72)
        for build in (units.tokens, partial(units.tokens, basis="used")):
            view = asked(config.model_copy(update={"units": mapped}), store, build, (0, 72))
            check_parts(view)
            assert view.totals["cost"] == Decimal(70 * 4)


def test_loading_again_changes_nothing_and_a_window_replaces(served: Served) -> None:
    assert [row["amount"] for row in served.rows("again", units.requests)] == [160]
    # values where they change, and the first and last
    sql = "SELECT count(*) FROM progress_values JOIN progress_series USING (series_id) WHERE pod = 'again-0'"
    assert served.store.query(sql)[1] == [(3,)]


def check_trace(served: Served, rows: list[tuple[datetime, int, int]]) -> None:
    lines = [
        f"Deployment/trace,{moment.isoformat()},{unit},{value},conv\n"
        for moment, prompt, generated in rows
        for unit, value in (("prompt_token", prompt), ("generation_token", generated), ("request", 1))
    ]
    for _ in range(2):
        served.load("trace.csv", "workload,time,unit,value,model\n" + "".join(lines))
    prompt, generated = sum(row[1] for row in rows), sum(row[2] for row in rows)
    totals = served.ask(units.tokens, (0, 2), workloads=("trace",)).totals
    assert (totals["prompt_tokens"], totals["generation_tokens"]) == (prompt, generated)
    # two hours of a $4 node
    assert float(totals["cost_per_million_tokens"]) == pytest.approx(8 / (prompt + generated) * 1e6)
    weighted = prompt * DEFAULT_PROMPT_WEIGHT + generated
    assert float(totals["cost_per_million_generation_tokens"]) == pytest.approx(8 / weighted * 1e6)
    assert totals["prompt_cost"] + totals["generation_cost"] == totals["cost"]
    asked_for = served.ask(units.requests, (0, 2), workloads=("trace",))
    assert float(asked_for.totals["cost_per_1000"]) == pytest.approx(8000 / len(rows))


def test_requests_with_token_counts_from_a_file(served: Served) -> None:
    start = datetime.fromtimestamp(MORNING, UTC)
    check_trace(
        served,
        [(start + timedelta(seconds=i * 0.7), 300 + i * 13 % 900, 20 + i * 7 % 300) for i in range(1000)],
    )


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("kind", ["code", "conv"])
def test_the_azure_trace_of_2023(kind: str, tmp_path: Path) -> None:
    """Columns TIMESTAMP, ContextTokens, GeneratedTokens; moved to the fleet's day."""
    with shared(f"data/gpu/inference-azure-2023/data/AzureLLMInferenceTrace_{kind}.csv").open() as file:
        told = [
            (
                datetime.fromisoformat(row["TIMESTAMP"]).replace(tzinfo=UTC),
                int(row["ContextTokens"]),
                int(row["GeneratedTokens"]),
            )
            for row in csv.DictReader(file)
        ]
    first = min(moment for moment, _, _ in told)
    start = datetime.fromtimestamp(at(0.1), UTC)
    trace = Served(*stored(serving([("trace-0", GPUS, 0, 2)], 2), tmp_path), tmp_path)
    check_trace(trace, [(start + (moment - first), prompt, generated) for moment, prompt, generated in told])


def test_lines_of_json_local_times_and_plurals(served: Served) -> None:
    served.load(
        "work.jsonl",
        '{"workload": "lines", "namespace": "chat", "time": 1773104400, "unit": "request", "value": 5}\n\n'
        '{"workload": "lines", "namespace": "chat", "time": "2026-03-10T01:30:00", "unit": "request", "value": 2, '
        '"failed": true}\n',
    )
    rows = ("requests,2000", "prompt_tokens,3000000", "generation_tokens,1000000", "frames,7")
    text = "workload,namespace,time,unit,value\n" + "".join(
        f"plurals,chat,2026-03-10T00:30Z,{row}\n" for row in rows
    )
    assert served.load("work.csv", text).own_units == ("frames",)
    (row,) = served.rows("lines", units.requests, (0, 2))
    assert (row["amount"], row["failed"]) == (5, 2)
    # two hours at $4
    assert [row["cost_per_1000"] for row in served.rows("plurals", units.requests, (0, 2))] == [Decimal(4)]
    assert [row["cost_per_million_tokens"] for row in served.rows("plurals", units.tokens, (0, 2))] == [
        Decimal(2)
    ]


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


def test_workers_behind_one_name_are_added_up_by_their_levels(served: Served) -> None:
    (row,) = served.rows("workers", units.requests)
    # of each worker what it added between its first scrape and its last; falls alone would make millions of it
    seen = [[value for _, value in WORKERS if start <= value < start + 1000] for start in STARTS]
    assert sum(map(len, seen)) == len(WORKERS)
    assert row["amount"] == sum(values[-1] - values[0] for values in seen) == 2363
    (note,) = [note for note in served.ask(units.requests).notes if "chat/workers-0" in note]
    assert "4 levels are added up" in note


def test_workers_with_levels_alike_are_left_out_and_named(served: Served) -> None:
    view = served.ask(units.requests)
    assert not served.rows("alike", units.requests)
    unworked = {row["workload"]: row["cost"] for row in view.sections["cost_without_work"]}
    assert unworked["Deployment/alike"] == Decimal(96)
    (note,) = [note for note in view.notes if "alike" in note]
    assert note.startswith(
        "test of chat/alike-0 counts several processes under one name; their levels cannot be told apart"
    )
    period = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))
    warnings = reading.report(
        served.config, served.store, Query(period, "the day", with_sections=False)
    ).coverage.warnings
    assert (
        next(one.message for one in warnings if one.code == "counter_of_processes" and "alike" in one.message)
        in note
    )


@pytest.mark.parametrize("name", CRASHES)
def test_restarts_are_no_processes(served: Served, name: str) -> None:
    points, amount = CRASHES[name]
    assert not [note for note in served.ask(units.requests).notes if f"chat/{name}" in note]
    # a fall is a restart from 0
    falls = sum(now - before if now >= before else now for (_, before), (_, now) in pairwise(points))
    assert [row["amount"] for row in served.rows(name, units.requests)] == [falls] == [amount or falls]
