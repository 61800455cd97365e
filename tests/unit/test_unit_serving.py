"""The cost of requests and tokens: cost of the serving pods per increase of their counters, through resets and copies."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.progress.files import import_files
from gpucost.config.model import DEFAULT_PROMPT_WEIGHT, Serving
from gpucost.errors import DataError, UsageError
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.questions.units import reading as units
from gpucost.store.connection import Store
from tests.replay.cases.words import MORNING, at
from tests.replay.work import asked
from tests.text_tables import text_rows
from tests.unit.served import CRASHES, Served, served_at
from tests.unit.whatif_costs import figures, listed, shown as figure_text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return served_at(tmp_path_factory.mktemp("served"))


# Rows of a workload in some hours. Four of the eight million prompt tokens of `cached` were computed: at a quarter each they
# weigh as much as the generated million. A mapping sets the weight of a prompt token (`weighed`).
# Days without work have a cost too (`days`), as do models that served no requests at all (`idle`) or at that time (`quiet`).
ROWS = """
engines  requests    0-24   amount=12000 failed=56 cost=96 cost_per_1000=8 idle_cost=48
copies   requests    0-24   amount=730 cost=92
again    requests    0-24   amount=160
triton   batch_item  0-24   model=a cost=32
triton   batch_item  0-24   model=b cost=64
days     tokens      0-48   day=2026-03-10 cost=96 cost_per_million_tokens=24
days     tokens      0-48   day=2026-03-11 cost=96 cost_per_million_tokens=None
cached   tokens      0-24   cost=96 prompt_cost=48 generation_cost=48 cost_per_million_prompt_tokens=6 \
cost_per_million_generation_tokens=48 cached_tokens=4000000 cache_saved_cost=48
weighed  tokens      0-24   prompt_cost=72 generation_cost=24
idle     tokens      24-48  cost=96 unserved_cost=96 prompt_cost=0 generation_cost=0 cost_per_million_tokens=None
quiet    tokens      10-14  model=a cost=8 unserved_cost=8
quiet    tokens      10-14  model=b cost=8 unserved_cost=8"""
EXPECTED = [line.split(None, 3) for line in ROWS.strip().splitlines()]
BATCHES = partial(units.requests, unit="batch_item")
BUILDS = {"requests": units.requests, "batch_item": BATCHES, "tokens": units.tokens}


def shown(row: dict[str, Any], names: str) -> str:
    """The named columns of a row, with their values to the last digit."""
    found = []
    for name in re.findall(r"(\w+)=", names):
        value = row[name]
        is_number = value is not None and not isinstance(value, str)
        found.append(f"{name}={f'{Decimal(str(value)).normalize():f}' if is_number else value}")
    return " ".join(found)


@pytest.mark.parametrize("workload", dict.fromkeys(line[0] for line in EXPECTED))
def test_cost_of_served_work(served: Served, workload: str) -> None:
    lines = [line for line in EXPECTED if line[0] == workload]
    _, build, hours, columns = lines[0]
    start, end = map(int, hours.split("-"))
    rows = served.rows(workload, BUILDS[build], (start, end))
    assert [shown(row, columns) for row in rows] == [line[3] for line in lines]


def test_batches_have_a_note(served: Served) -> None:
    assert served.ask(BATCHES).notes


def test_request_totals_have_no_token_cost(served: Served) -> None:
    assert "prompt_cost" not in served.ask(units.requests, workloads=("days",)).totals
    assert served.ask(units.tokens, workloads=("engines",)).totals["prompt_cost"] == 0


def test_cost_of_a_model_over_several_days_is_complete(served: Served) -> None:
    models = served.ask(units.tokens, (0, 48)).sections["models"]
    (model,) = [row for row in models if row["workload"] == "Deployment/days"]
    # three million at a quarter each, and one: 3/7 and 4/7 of $192; a night without tokens is split like the rest
    assert model["prompt_cost"] + model["generation_cost"] == model["cost"]
    millions = "cost_per_million_prompt_tokens cost_per_million_generation_tokens cost_per_million_tokens"
    assert figures(model, f"cost unserved_cost {millions}") == figure_text(192, 0, 192 / 7, 192 * 4 / 7, 48)


POOLED = (
    "cost=96 prompt_cost=24 generation_cost=72 unserved_cost=0 prompt_tokens=8000000 cached_tokens=2000000 "
    "generation_tokens=1000000 cost_per_million_prompt_tokens=3 cost_per_million_generation_tokens=72 cache_saved_cost=8"
)


def test_prefill_and_decode_pools_form_one_row_and_each_phase_costs_its_pool(served: Served) -> None:
    both = ("pool-prefill", "pool-decode")
    apart = served.ask(units.tokens, workloads=both)
    assert [row["workload"] for row in apart.rows] == ["Deployment/pool-decode", "Deployment/pool-prefill"]
    hint = "Deployment/pool-prefill and Deployment/pool-decode look like pools of one model"
    assert hint in apart.notes[-1]
    setting = Serving(prefill=["*-prefill"], decode=["Deployment/pool-decode"])
    ask = partial(asked, served.config.model_copy(update={"serving": setting}), served.store)
    view = ask(units.tokens, workloads=both)
    (row,) = view.rows
    assert row["workload"] == "Deployment/pool-prefill + Deployment/pool-decode"
    assert shown(row, POOLED) == POOLED and "pools" not in "".join(view.notes)
    used = partial(units.tokens, basis="used")
    for pool, each in ((view, apart), (ask(used, workloads=both), served.ask(used, workloads=both))):
        for name in ("cost", "idle_cost", "allocated_cost", "cost_without_work"):
            assert pool.totals[name] == each.totals[name]
        parts = sum(pool.totals[f"{name}_cost"] for name in ("prompt", "generation", "unserved"))
        assert parts == Decimal(96) - (0 if pool is view else pool.totals["idle_cost"])
    # one of the two alone is an ordinary workload
    assert ask(units.tokens, workloads=("pool-decode",)).rows[0]["workload"] == "Deployment/pool-decode"


@pytest.mark.parametrize(
    ("by", "rows"),
    [(("model",), 2), (("workload",), 2), (("day", "model"), 4), (("cluster", "namespace"), 1)],
)
def test_rows_by_dimension_add_up(served: Served, by: tuple[str, ...], rows: int) -> None:
    ask = partial(served.ask, hours=(0, 48), workloads=("mixed", "big"))
    whole, view = ask(units.tokens), ask(partial(units.tokens, by=by))
    assert view.totals == whole.totals and len(view.rows) == rows
    for name in ("cost", "prompt_cost", "generation_cost", "prompt_tokens", "idle_cost"):
        assert sum(row[name] for row in view.rows) == whole.totals[name]
    assert {name for name in units.DIMENSIONS if view.rows[0][name] is not None} == set(by)
    assert by != ("model",) or [row["model"] for row in view.rows] == ["small", "tiny"]


def test_requests_by_gpu_model_and_partition_add_up(served: Served) -> None:
    ask = partial(served.ask, workloads=("engines", "copies"))
    whole, view = ask(units.requests), ask(partial(units.requests, by=("gpu_model", "partition")))
    (row,) = view.rows
    assert shown(row, "gpu_model= partition= amount= cost= cost_per_1000=") == (
        "gpu_model=L4 partition=whole amount=12730 cost=188 cost_per_1000=14.768263943"
    )
    assert view.totals == whole.totals
    assert {name for name in units.REQUEST_DIMENSIONS if row[name]} == {"gpu_model", "partition"}


def test_idle_model_is_not_listed_as_cost_without_work(served: Served) -> None:
    unworked = {row["workload"] for row in served.ask(units.tokens, (10, 14)).sections["cost_without_work"]}
    assert "Deployment/quiet" not in unworked and "Deployment/engines" in unworked


@pytest.mark.parametrize("basis", ["allocated", "used"])
def test_parts_of_token_cost_add_up_in_both_bases(served: Served, basis: str) -> None:
    """Parts: prompt tokens, generated tokens, and time without tokens."""
    view = served.ask(partial(units.tokens, basis=basis), (0, 48))
    for row in (*view.rows, *view.sections["models"], view.totals):
        parts = [row[f"{name}_cost"] for name in ("prompt", "generation", "unserved")]
        assert sum(parts) == row["cost"] - (row["idle_cost"] if basis == "used" else 0)
        assert min(*parts, row["cache_saved_cost"] or 0) >= 0
    assert sum(row["cost"] for row in view.rows if row["workload"] == "Deployment/odd") == 48 * 4


def test_only_values_around_changes_are_stored(served: Served) -> None:
    # the values around each change, and the first and last value
    sql = "SELECT count(*) FROM progress_values JOIN progress_series USING (series_id) WHERE pod = 'again-0'"
    assert served.store.query(sql)[1] == [(4,)]


def test_requests_with_token_counts_from_a_file(served: Served) -> None:
    start = datetime.fromtimestamp(MORNING, UTC)
    lines, prompt, generated = ["workload,time,unit,value,model"], 0, 0
    for number in range(1000):
        counts = {
            "prompt_token": 300 + number * 13 % 900,
            "generation_token": 20 + number * 7 % 300,
            "request": 1,
        }
        moment = (start + timedelta(seconds=number * 0.7)).isoformat()
        lines += [f"Deployment/trace,{moment},{unit},{value},conv" for unit, value in counts.items()]
        prompt, generated = prompt + counts["prompt_token"], generated + counts["generation_token"]
    for _ in range(2):
        served.load("trace.csv", "\n".join([*lines, ""]))
    totals = served.ask(units.tokens, (0, 2), workloads=("trace",)).totals
    assert (totals["prompt_tokens"], totals["generation_tokens"]) == (prompt, generated)
    # two hours of a $4 node
    assert float(totals["cost_per_million_tokens"]) == pytest.approx(8 / (prompt + generated) * 1e6)
    weighted = prompt * DEFAULT_PROMPT_WEIGHT + generated
    assert float(totals["cost_per_million_generation_tokens"]) == pytest.approx(8 / weighted * 1e6)
    assert served.ask(units.requests, (0, 2), workloads=("trace",)).totals["cost_per_1000"] == 8


JSON_LINES = """\
{"workload": "lines", "namespace": "chat", "time": 1773104400, "unit": "request", "value": 5}

{"workload": "lines", "namespace": "chat", "time": "2026-03-10T01:30:00", "unit": "request", "value": 2, "failed": true}
"""
PLURALS = """\
workload,namespace,time,unit,value
plurals,chat,2026-03-10T00:30Z,requests,2000
plurals,chat,2026-03-10T00:30Z,prompt_tokens,3000000
plurals,chat,2026-03-10T00:30Z,generation_tokens,1000000
plurals,chat,2026-03-10T00:30Z,frames,7
"""


def test_json_lines_local_times_and_plurals(served: Served) -> None:
    served.load("work.jsonl", JSON_LINES)
    assert served.load("work.csv", PLURALS).own_units == ("frames",)
    assert listed(served.rows("lines", units.requests, (0, 2)), "amount failed") == "5 2"
    # two hours at $4
    assert listed(served.rows("plurals", units.requests, (0, 2)), "cost_per_1000") == "4"
    assert listed(served.rows("plurals", units.tokens, (0, 2)), "cost_per_million_tokens") == "2"


BROKEN = """
llm,yesterday,request,1          | line 3: time 'yesterday'
llm,2026-03-10T00:00Z,request,-1 | line 3: value '-1'
llm,2026-03-10T00:00Z,request,nan | line 3: value 'nan'
llm,2026-03-10T00:00Z,epoch,-1   | line 3: value '-1'
llm,2026-03-10T00:00Z,,1         | line 3: unit ''
,2026-03-10T00:00Z,request,1     | line 3: workload ''
llm,2026-03-10T00:00Z,request    | line 3: the number of fields differs"""


@pytest.mark.parametrize(("row", "message"), text_rows(BROKEN))
def test_broken_row_is_named_and_prevents_the_load(row: str, message: str, tmp_path: Path) -> None:
    store, files = Store(tmp_path / "store.duckdb"), [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, more in zip(files, ("", f"{row}\n"), strict=True):
        file.write_text(f"workload,time,unit,value\nllm,2026-03-10T00:00Z,request,1\n{more}")
    with pytest.raises(DataError, match=message):
        import_files(store, files, UTC)  # type: ignore[arg-type]
    assert not store.exists


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        import_files(Store(tmp_path / "store.duckdb"), [tmp_path / "c.csv"], UTC)  # type: ignore[arg-type]


def test_workers_with_one_name_are_added_up_by_their_levels(served: Served) -> None:
    (row,) = served.rows("workers", units.requests)
    # the increase of each worker between its first and last scrape; counting falls as resets would give millions
    assert row["amount"] == 2363
    (note,) = [note for note in served.ask(units.requests).notes if "chat/workers-0" in note]
    assert "4 levels are added up" in note


def test_workers_with_similar_levels_are_excluded_and_named(served: Served) -> None:
    view = served.ask(units.requests)
    assert not served.rows("alike", units.requests)
    unworked = {row["workload"]: row["cost"] for row in view.sections["cost_without_work"]}
    assert unworked["Deployment/alike"] == Decimal(96)
    (note,) = [note for note in view.notes if "alike" in note]
    assert note.startswith(
        "test of chat/alike-0 counts several processes under one name; their levels cannot be separated"
    )
    period = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))
    report = reading.report(served.config, served.store, Query(period, "the day", with_sections=False))
    found = [one.message for one in report.coverage.warnings if one.code == "counter_of_processes"]
    assert next(message for message in found if "alike" in message) in note


@pytest.mark.parametrize("name", CRASHES)
def test_restarts_are_not_counted_as_processes(served: Served, name: str) -> None:
    points, amount = CRASHES[name]
    assert not [note for note in served.ask(units.requests).notes if f"chat/{name}" in note]
    # a fall is a restart from 0
    falls = sum(now - before if now >= before else now for (_, before), (_, now) in pairwise(points))
    assert [row["amount"] for row in served.rows(name, units.requests)] == [falls] == [amount or falls]
