"""Logs of calls that gateways write: in the shapes in which they are exported, a call counts once, and bad rows load nothing."""

from __future__ import annotations

import csv
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.progress.files import FileResult, import_files, left_out
from gpucost.config.model import CallLog, Config
from gpucost.engine import dicts
from gpucost.errors import DataError, UsageError
from gpucost.report.units.gateways import gateway_usage
from gpucost.store.connection import Store

UTC = ZoneInfo("UTC")
NINE = 1_793_523_600_000  # 2026-11-01T09:00:00Z


def payload(number: int, team: str | None = "search", **more: Any) -> dict[str, Any]:
    """A line that LiteLLM's callbacks write (StandardLoggingPayload): a minute apart, 100 prompt tokens and 10 generated."""
    return {
        "id": "chatcmpl-1", "litellm_call_id": f"call-{number}", "status": "success", "custom_llm_provider": "openai",
        "startTime": NINE / 1000 + 60 * number, "endTime": NINE / 1000 + 60 * number + 2.5, "model": "openai/gpt-4o-mini",
        "model_group": "fast", "api_base": "https://api.openai.com/v1", "prompt_tokens": 100, "completion_tokens": 10,
        "response_cost": 0.00021, "cache_hit": None, "end_user": None,
        "metadata": {
            "user_api_key_team_alias": team, "user_api_key_team_id": team and f"id-{team}", "user_api_key_alias": "key-1",
            "usage_object": {"prompt_tokens_details": {"cached_tokens": 40}},
        },
        **more,
    }  # fmt: skip


def spend_log(number: int, **more: Any) -> dict[str, str]:
    """The same call in LiteLLM_SpendLogs, as PostgreSQL exports it: UTC without offset."""
    call = payload(number)
    return {
        "request_id": "chatcmpl-1", "call_type": "acompletion", "spend": "0.00021", "prompt_tokens": "100",
        "completion_tokens": "10", "startTime": f"2026-11-01 09:{number:02}:00", "endTime": f"2026-11-01 09:{number:02}:02.5",
        "model": "openai/gpt-4o-mini", "custom_llm_provider": "openai", "api_base": call["api_base"], "cache_hit": "False",
        "metadata": json.dumps(call["metadata"]), "team_id": "id-search", "status": "success",
        "litellm_call_id": call["litellm_call_id"], **more,
    }  # fmt: skip


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.duckdb")


def load(store: Store, *paths: Path, **more: Any) -> list[FileResult]:
    return import_files(store, list(paths), ZoneInfo("Europe/Berlin"), **more)


def usage(store: Store, *by: str) -> dict[Any, tuple[float, float]]:
    """What is counted by these columns, and what failed."""
    sums: dict[Any, tuple[float, float]] = {}
    with store.read() as con:
        gateway_usage(con, Config().gateway, 0, 10**13)
        for row in dicts(con.execute("FROM gateway_usage")):
            key = tuple(row[name] for name in by) if len(by) > 1 else row[by[0]]
            amount, failed = sums.get(key, (0.0, 0.0))
            sums[key] = (amount + row["amount"], failed + row["failed"])
    return sums


def counted(calls: int) -> dict[str, tuple[float, float]]:
    return {
        "request": (calls, 0), "prompt_token": (100 * calls, 0), "cached_token": (40 * calls, 0),
        "generation_token": (10 * calls, 0), "spend": (pytest.approx(0.00021 * calls, abs=1e-12), 0),
    }  # fmt: skip


@pytest.mark.parametrize("shape", ["jsonl", "jsonl.gz", "json", "json.gz", "csv", "csv.gz", "parquet"])
def test_litellm_in_every_shape(store: Store, tmp_path: Path, shape: str) -> None:
    path = tmp_path / f"calls [1].{shape}"
    if shape.startswith("csv"):
        packed = table(tmp_path / "x", [spend_log(number) for number in range(20)]).read_bytes()
        path.write_bytes(gzip.compress(packed) if shape.endswith("gz") else packed)
    elif shape == "parquet":
        duckdb.sql(f"COPY (FROM '{lines(tmp_path / 'x.jsonl', [payload(number) for number in range(20)])}') TO '{path}'")
    elif shape in ("json", "json.gz"):  # as /spend/logs answers
        text = json.dumps([spend_log(number, metadata=payload(number)["metadata"]) for number in range(20)])
        path.write_bytes(gzip.compress(text.encode()) if shape.endswith("gz") else text.encode())
    else:
        lines(tmp_path / "x", [payload(number) for number in range(20)])
        raw = (tmp_path / "x").read_bytes()
        path.write_bytes(gzip.compress(raw) if shape.endswith("gz") else raw)
    for _ in range(2):  # the second time replaces
        (result,) = load(store, path)
        assert (result.log, result.calls, result.repeats) == ("litellm", 20, 0)
        assert result.period.start_ms == NINE + 2500 and result.period.end_ms == NINE + 19 * 60_000 + 2501
        assert usage(store, "unit") == counted(20)
    keys = ("gateway", "provider", "model", "team", "tenant", "is_own")
    assert list(usage(store, *keys)) == [("litellm", "openai", "gpt-4o-mini", "search", "search", False)]
    assert set(usage(store, "unit", "currency")) >= {("spend", "USD"), ("prompt_token", None)}


def test_a_call_counts_once_whichever_files_tell_of_it(store: Store, tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", [payload(number) for number in (0, 1, 2, 2)])
    second = table(tmp_path / "b.csv", [spend_log(number) for number in (1, 2, 3, 4)])
    assert [(one.calls, one.repeats) for one in load(store, first, second)] == [(4, 1), (4, 2)]
    assert usage(store, "unit") == counted(5)
    assert [one.repeats for one in load(store, second)] == [2]
    assert usage(store, "unit") == counted(5)
    (repeated,) = load(store, first, tmp_path / "." / "a.jsonl")
    assert (repeated.calls, repeated.repeats, repeated.load.values) == (4, 1, 5)
    assert usage(store, "unit") == counted(5)
    # rotated: what the file held before lies in another one now
    rotated = tmp_path / "a.jsonl.1"
    first.rename(rotated)
    lines(first, [payload(number) for number in (7, 8)])
    load(store, first, rotated)
    assert usage(store, "unit") == counted(7)


def test_without_ids_repeats_count_once_and_other_calls_add_up(store: Store, tmp_path: Path) -> None:
    rows = [payload(number, litellm_call_id=None, id=None) for number in range(20)]
    results = load(store, lines(tmp_path / "a.jsonl", rows[:17]), lines(tmp_path / "b.jsonl", rows[5:]))
    assert [one.repeats for one in results] == [0, 12]
    assert usage(store, "unit") == counted(20)
    # files of one quarter of an hour that do not overlap, one loaded after the other, and calls of a file that are alike
    other = Store(tmp_path / "other.duckdb")
    load(other, lines(tmp_path / "c.jsonl", rows[:3]))
    load(other, lines(tmp_path / "d.jsonl", rows[3:8]))
    load(other, lines(tmp_path / "e.jsonl", [rows[9], rows[9], *rows[:2]]))
    assert usage(other, "unit") == counted(10)


def test_failures_and_answers_from_the_gateways_own_cache(store: Store, tmp_path: Path) -> None:
    failed = payload(0, status="failure", prompt_tokens=0, completion_tokens=0, response_cost=0.0)
    # tried again under the same id
    again = payload(1, litellm_call_id="call-0")
    cached = payload(2, cache_hit=True, response_cost=0.0)
    load(store, lines(tmp_path / "a.jsonl", [failed, again, cached]))
    assert usage(store, "unit") == counted(1) | {"request": (2, 1)}


def test_teams_and_tenants_that_are_not_known_are_null(store: Store, tmp_path: Path) -> None:
    nobody = payload(1, team=None)
    load(store, lines(tmp_path / "a.jsonl", [payload(0), nobody]))
    assert set(usage(store, "team", "tenant")) == {("search", "search"), (None, "key-1")}


def test_envoy_access_logs(store: Store, tmp_path: Path) -> None:
    """As Envoy AI Gateway's documentation shows them, in both spellings; other requests are in the same log."""
    call = {
        "genai_backend_name": "default/openai/route/r/rule/0/ref/0", "genai_model_name": "gpt-4o-mini",
        "genai_model_name_override": None,
        "genai_tokens_input": 15, "genai_tokens_output": 7, "response_code": 200, "start_time": "2026-11-01T09:00:00.894Z",
        "x-request-id": "1",
    }  # fmt: skip
    other = dict.fromkeys(call) | {"mcp_method": "tools/call", "start_time": call["start_time"], "x-request-id": "2"}
    failed = call | {"response_code": 503, "genai_tokens_input": None, "genai_tokens_output": None, "x-request-id": "3"}
    load(store, lines(tmp_path / "a.jsonl", [call, other, failed]))
    assert usage(store, "unit", "model", "provider") == {
        ("request", "gpt-4o-mini", "default/openai/route/r/rule/0/ref/0"): (1, 1),
        ("prompt_token", "gpt-4o-mini", "default/openai/route/r/rule/0/ref/0"): (15, 0),
        ("generation_token", "gpt-4o-mini", "default/openai/route/r/rule/0/ref/0"): (7, 0),
    }
    spelled = {
        "gen_ai.request.model": "qwen", "gen_ai.provider.name": "b", "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 6, "start_time": "2026-11-01T09:00:01Z", "x-request-id": "4",
    }  # fmt: skip
    load(store, lines(tmp_path / "b.jsonl", [spelled]))
    assert usage(store, "unit", "model")["generation_token", "qwen"] == (6, 0)


def test_a_log_of_ones_own(store: Store, tmp_path: Path) -> None:
    own = CallLog(
        name="mine", gateway="gw", time="at", model="model", prompt_tokens="usage.in", generation_tokens="usage.out",
        tenant="who.customer",
        spend="cost", currency="EUR", currency_column=["unit"], status="code", failure=["5??"],
    )  # fmt: skip
    rows = [
        {
            "at": "2026-11-01T10:00:00",
            "model": "m",
            "usage": {"in": 3, "out": 4},
            "who": {"customer": "c/1"},
            "cost": "1.5",
            "code": 200,
        },
        {"at": NINE, "model": "m", "usage": {"in": 5, "out": 0}, "who": None, "cost": 0.25, "unit": "usd", "code": 504},
    ]
    path = lines(tmp_path / "calls.log", rows)
    load(store, path, logs=[own])
    # ten o'clock in Berlin is nine
    assert usage(store, "at_ms", "gateway", "tenant", "unit", "currency") == {
        (NINE, "gw", "c/1", "request", None): (1, 0),
        (NINE, "gw", "c/1", "prompt_token", None): (3, 0),
        (NINE, "gw", "c/1", "generation_token", None): (4, 0),
        (NINE, "gw", "c/1", "spend", "EUR"): (1.5, 0),
        (NINE, "gw", None, "request", None): (0, 1),
        (NINE, "gw", None, "prompt_token", None): (0, 5),
        (NINE, "gw", None, "spend", "USD"): (0.25, 0),
    }
    with pytest.raises(UsageError, match="no log of calls is called 'x'"):
        load(store, path, logs=[own], name="x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_tokens": "many"}, "row 2: prompt_tokens 'many' is no number from 0"),
        ({"completion_tokens": -1}, "row 2: completion_tokens '-1' is no number from 0"),
        ({"response_cost": "NaN"}, "row 2: response_cost or spend 'NaN' is no number from 0"),
        ({"endTime": "yesterday"}, "row 2: endTime or startTime 'yesterday' is no time"),
        ({"endTime": None, "startTime": None}, "row 2: endTime or startTime '' is no time"),
        ({"endTime": "infinity"}, "row 2: endTime or startTime 'infinity' is no time"),
        ({"metadata": "{'a': 1}"}, "row 2: metadata is no JSON"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_nothing_is_loaded(
    store: Store, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    good, bad = lines(tmp_path / "a.jsonl", [payload(0)]), lines(tmp_path / "b.jsonl", [payload(1), payload(2, **change)])
    load(store, good)
    with pytest.raises(DataError) as raised:
        load(store, good, bad)
    assert message in raised.value.message and str(bad) in raised.value.message
    assert usage(store, "unit") == counted(1)


def test_files_that_no_log_fits_name_what_is_missing(store: Store, tmp_path: Path) -> None:
    row = {name: value for name, value in payload(0).items() if name not in ("completion_tokens", "endTime", "startTime")}
    with pytest.raises(
        DataError, match="there is no column endTime and no column completion_tokens, as a log of calls of litellm has"
    ):
        load(store, lines(tmp_path / "a.jsonl", [row]))
    with pytest.raises(DataError, match="there is no column start_time"):
        load(store, lines(tmp_path / "b.jsonl", [payload(0)]), name="envoy-ai-gateway")
    with pytest.raises(DataError, match="line 1: unit is missing"):
        load(store, lines(tmp_path / "c.jsonl", [{"workload": "Job/a", "time": 1, "model": "m", "value": 3}]))
    (tmp_path / "rows.json").write_text(json.dumps([{"workload": "Job/a", "time": 1, "unit": "epoch", "value": 3}]))
    with pytest.raises(DataError, match="work by rows is read from plain CSV and JSON lines alone"):
        load(store, tmp_path / "rows.json")
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(json.dumps(payload(0)).encode())[:-30])
    with pytest.raises(DataError, match="breaks off"):
        load(store, tmp_path / "broken.jsonl.gz")
    (tmp_path / "d.jsonl").write_text(json.dumps(payload(0)) + "\n" + json.dumps(payload(1))[:-9])
    with pytest.raises(DataError, match=r"d\.jsonl"):
        load(store, tmp_path / "d.jsonl")


def test_money_of_several_calls_is_not_rounded(store: Store, tmp_path: Path) -> None:
    load(
        store,
        lines(
            tmp_path / "a.jsonl",
            [payload(number % 50, litellm_call_id=str(number), response_cost=1.5e-07) for number in range(1000)],
        ),
    )
    assert Decimal(usage(store, "unit")["spend"][0]).quantize(Decimal("1e-12")) == Decimal("0.00015")


@pytest.mark.parametrize("shape", ["jsonl", "array"])
def test_keys_that_first_appear_late_in_json_are_read(store: Store, tmp_path: Path, shape: str) -> None:
    own = CallLog(
        name="mine", time="endTime", model=["model"], prompt_tokens="prompt_tokens", generation_tokens="completion_tokens",
        provider="custom_llm_provider", team=["a.team", "info.team"], tenant="info.team", id="litellm_call_id",
    )  # fmt: skip
    rows = [payload(number, model="gpt-4o-mini") for number in range(1003)]
    for row in rows:
        row.pop("custom_llm_provider"), row.pop("metadata")
    rows[-1] |= {"custom_llm_provider": "openai", "info": {"team": "search"}}
    rows[-2] |= {"a.team": "chat"}
    path = tmp_path / "calls"
    path.write_text(json.dumps(rows) if shape == "array" else "\n".join(map(json.dumps, rows)))
    load(store, path, logs=[own])
    counts = {key[1:]: of[0] for key, of in usage(store, "unit", "provider", "team", "tenant").items() if key[0] == "request"}
    assert counts == {(None, None, None): 1001, (None, "chat", None): 1, ("openai", "search", "search"): 1}


def test_directories_hold_compressed_rotated_and_json_files_too(store: Store, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines(logs / "a.jsonl", [payload(0)])
    lines(logs / "a.jsonl.1", [payload(1)])
    (logs / "a.jsonl.2.gz").write_bytes(gzip.compress(json.dumps(payload(2)).encode()))
    (logs / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(payload(3)).encode()))
    (logs / "c.json").write_text(json.dumps([payload(4)]))
    table(logs / "d.csv-20261101", [spend_log(5)])
    table(logs / "work.csv.1", [{"workload": "Job/a", "time": "2026-11-01T09:00:00Z", "unit": "epoch", "value": "3"}])
    for name in ("README.md", "calls.log", ".hidden"):
        (logs / name).write_text("{}")
    assert [one.calls for one in load(store, logs)] == [1, 1, 1, 1, 1, 1, 0]
    assert usage(store, "unit") == counted(6)
    assert [path.name for path in left_out([logs, logs / "calls.log"])] == ["README.md"]


def test_calls_that_a_rotated_log_no_longer_holds_are_counted_out_aloud(tmp_path: Path) -> None:
    config, logs = tmp_path / "gpucost.toml", tmp_path / "logs"
    config.write_text(f'store = "{tmp_path / "store.duckdb"}"\n')
    logs.mkdir()
    log = lines(logs / "calls.jsonl", [payload(number) for number in range(10)])

    def collect(path: Path) -> str:
        result = CliRunner().invoke(app, ["collect", "progress", str(path), "--config", str(config)])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    assert "note" not in collect(logs)
    log.rename(tmp_path / "before.jsonl")
    lines(logs / "calls.jsonl", [payload(number) for number in range(9, 13)])
    (logs / "calls.log").write_text("")
    output = collect(logs)
    assert "9 calls that this file told of before are no longer in it, and no longer counted" in output
    assert "left out, by their names" in output and "calls.log" in output
    # with the rotated file there is nothing to say
    (tmp_path / "before.jsonl").rename(logs / "calls.jsonl.1")
    log.rename(logs / "calls.jsonl.2")
    lines(log, [payload(13)])
    assert "no longer" not in collect(logs)
    assert usage(Store(tmp_path / "store.duckdb"), "unit")["request"] == (14, 0)
