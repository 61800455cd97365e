"""What vendors of models charge, as their cost APIs answer and their consoles export it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.bill.load import BillRun
from tests.unit.bills import Bills, csv_text
from tests.unit.test_token_bills import facts, token_rows


def openai(*days: int, cost: str = "0.06", more: bool = False, **changed: Any) -> dict[str, Any]:
    """A page of `/v1/organization/costs`: each day the costs of one project, by line item; amounts are JSON numbers."""
    start = int(datetime(2026, 9, 1, tzinfo=UTC).timestamp())
    items = {
        "gpt-4o-2024-08-06, input": (cost, 24000.0),
        "gpt-4o-2024-08-06, cached input": ("1e-05", 8.0),
        "web search tool calls": ("0.1", 10.0),
    }
    buckets = [
        {
            "object": "bucket",
            "start_time": start + 86400 * (day - 1),
            "end_time": start + 86400 * day,
            "results": [
                {"object": "organization.costs.result", "amount": {"value": f"@{value}@", "currency": "usd"}, "line_item": item,
                 "project_id": "proj_a", "quantity": quantity} | changed
                for item, (value, quantity) in items.items()
            ],
        }
        for day in days
    ]  # fmt: skip
    return {"object": "page", "data": buckets, "has_more": more, "next_page": None}


def text(document: Any, **options: Any) -> str:
    """JSON in which what stands between @ is a number, digit by digit."""
    return json.dumps(document, **options).replace('"@', "").replace('@"', "")


def _after(day: int) -> str:
    return f"2026-09-{day + 1:02}T00:00:00Z" if day < 30 else "2026-10-01T00:00:00Z"


def anthropic(*days: int, more: bool = False, **changed: Any) -> dict[str, Any]:
    """A page of `/v1/organizations/cost_report`, by description and workspace."""
    tokens = {
        "cost_type": "tokens",
        "context_window": "0-200k",
        "model": "claude-sonnet-4-20250514",
        "service_tier": "standard",
    }
    search = {
        "cost_type": "web_search",
        "context_window": None,
        "model": None,
        "service_tier": None,
        "token_type": None,
    }
    results = [
        tokens | {"amount": "123.78912", "description": "Claude Sonnet 4 Usage - Input Tokens",
                  "token_type": "uncached_input_tokens"},
        tokens | {"amount": "5.5", "description": "Claude Sonnet 4 Usage - Output Tokens", "token_type": "output_tokens"},
        tokens | {"amount": "0.5", "description": "Claude Sonnet 4 Usage - Cache Hits", "token_type": "cache_read_input_tokens"},
        tokens | {"amount": "7", "description": "Claude Sonnet 4 Usage - Cache Write",
                  "token_type": "cache_creation.ephemeral_5m_input_tokens"},
        search | {"amount": "3", "description": "Web Search Usage"},
    ]  # fmt: skip
    every = {"currency": "USD", "workspace_id": "wrkspc_1", "inference_geo": "global"}
    buckets = [
        {
            "starting_at": f"2026-09-{day:02}T00:00:00Z",
            "ending_at": _after(day),
            "results": [every | one | changed for one in results],
        }
        for day in days
    ]
    return {"data": buckets, "has_more": more, "next_page": "page_x" if more else None}


def collect(bills: Bills, *files: tuple[str, str | bytes], force: bool = False) -> BillRun:
    return bills.load(*(bills.write(name, content) for name, content in files), provider=None, force=force)


def _utc(month: int, day: int) -> datetime:
    """A midnight as the store has it."""
    return datetime(2026, month, day, tzinfo=UTC).replace(tzinfo=None)


def sums(bills: Bills) -> list[tuple[Any, ...]]:
    """Rows and cost by format."""
    return bills.store.query(
        "SELECT format, count(*), sum(effective_cost) FROM charges GROUP BY 1 ORDER BY 1"
    )[1]


def test_openai_answers(bills: Bills) -> None:
    run = collect(bills, ("costs.json", text(openai(1, 2), indent=2)))
    assert not run.errors and not run.findings
    first = bills.charges()[0]
    names = (
        "provider",
        "source",
        "format",
        "billing_period",
        "billing_currency",
        "sub_account_id",
        "kind",
        "service_category",
    )
    assert [first[name] for name in names] == [
        "openai",
        "openai",
        "openai-items-projects",
        "2026-09",
        "USD",
        "proj_a",
        "other",
        "AI and Machine Learning",
    ]
    assert (first["charge_period_start"], first["charge_period_end"]) == (_utc(9, 1), _utc(9, 2))
    assert sums(bills) == [("openai-items-projects", 6, Decimal("0.32002"))]
    assert facts(token_rows(bills))[:3] == [
        ("openai", "gpt-4o-2024-08-06", "prompt", 24000.0),
        ("openai", "gpt-4o-2024-08-06", "cached", 8.0),
        ("openai", None, "other", None),
    ]


#: The same pages, each of a project, as they may be kept.
WAYS: dict[str, Callable[[str], list[str | bytes]]] = {
    "array": lambda project: [
        text([openai(1, more=True, project_id=project), openai(2, project_id=project)])
    ],
    "lines": lambda project: [
        text(openai(1, more=True, project_id=project)) + "\n" + text(openai(2, project_id=project)) + "\n"
    ],
    "files": lambda project: [
        text(openai(1, more=True, project_id=project)),
        text(openai(2, project_id=project), indent=1),
    ],
    "gzip": lambda project: [gzip.compress(text(openai(1, 2, project_id=project)).encode())],
}


def test_pages_are_kept_in_many_ways(bills: Bills) -> None:
    files = [
        (f"{way}-{number}.json", page)
        for way, pages in WAYS.items()
        for number, page in enumerate(pages(way))
    ]
    run = collect(bills, *files)
    assert not run.errors and not run.findings
    by_project = "SELECT sub_account_id, count(*), sum(effective_cost) FROM charges GROUP BY 1 ORDER BY 1"
    assert bills.store.query(by_project)[1] == [(way, 6, Decimal("0.32002")) for way in sorted(WAYS)]


def test_days_that_are_asked_for_again_take_the_place_of_those_before(bills: Bills) -> None:
    collect(bills, ("a.json", text(openai(1, 2))))
    run = collect(bills, ("b.json", text(openai(1, 2, 3, cost="0.08"))))
    assert not run.errors and sums(bills) == [("openai-items-projects", 9, Decimal("0.54003"))]
    # other days stand beside them
    run = collect(bills, ("c.json", text(openai(4))))
    assert not run.errors and sums(bills) == [("openai-items-projects", 12, Decimal("0.70004"))]


def test_costs_that_are_grouped_otherwise_would_count_twice(bills: Bills) -> None:
    collect(bills, ("items.json", text(openai(1, 2))))
    total = text(openai(1, 2, line_item=None, project_id=None, quantity=None))
    run = collect(bills, ("total.json", total))
    assert "the account's bill of this month is there in another format" in run.errors[0].message
    assert sums(bills) == [("openai-items-projects", 6, Decimal("0.32002"))]
    run = collect(bills, ("total.json", total), force=True)
    assert not run.errors and sums(bills) == [("openai", 6, Decimal("0.32002"))]
    assert [finding.code for finding in run.findings] == ["not_by_item"]


def test_a_page_that_another_follows_is_not_all(bills: Bills) -> None:
    assert [one.code for one in collect(bills, ("a.json", text(openai(1, more=True)))).findings] == [
        "more_pages"
    ]
    assert [one.code for one in collect(bills, ("b.json", text(anthropic(1, more=True)))).findings] == [
        "more_pages"
    ]


@pytest.mark.parametrize("vendor", [openai, pytest.param(anthropic, marks=pytest.mark.slow)])
def test_a_last_page_of_days_without_costs_is_the_last(
    bills: Bills, vendor: Callable[..., Any], tmp_path: Path
) -> None:
    last = vendor(2, 3)
    for bucket in last["data"]:
        bucket["results"] = []
    pages = [vendor(1, more=True), last]
    run = collect(bills, ("pages.json", text(pages)))
    assert not run.errors and not run.findings
    count = len(bills.charges())
    assert [result.rows for result in run.results] == [count]
    # a file for each
    for number, page in enumerate(pages):
        bills.write(f"pages/{number}.json", text(page))
    run = bills.load(tmp_path / "pages", provider=None, force=True)
    assert not run.errors and not run.findings
    assert [result.rows for result in run.results] == [count]
    # and where another page follows, it is said
    assert [
        one.code
        for one in collect(
            bills, ("more.json", text([pages[0], last | {"has_more": True}])), force=True
        ).findings
    ] == ["more_pages"]
    (error,) = collect(bills, ("empty.json", text(last))).errors
    assert "no charges" in error.message


def dashboard(day: int, cost: str, item: str = "", quantity: str = "", unit: str = "") -> dict[str, str]:
    """A row of the dashboard's export; a day without costs has no more than its times."""
    start = int(datetime(2026, 9, day, tzinfo=UTC).timestamp())
    names = {
        "api_key_id": "key_1",
        "project_id": "proj_a",
        "organization_id": "org-1",
        "project_name": "Chat",
    }
    return {
        "start_time": str(start), "end_time": str(start + 86400), "start_time_iso": f"2026-09-{day:02}T00:00:00",
        "end_time_iso": f"2026-09-{day + 1:02}T00:00:00", "amount_value": cost, "amount_currency": "usd" if cost else "",
        "quantity": quantity, "quantity_unit": unit, "line_item": item, "user_id": "",
    } | (names if cost else dict.fromkeys(names, ""))  # fmt: skip


def test_openai_dashboard(bills: Bills) -> None:
    run = collect(
        bills,
        (
            "cost.csv",
            csv_text(
                [
                    dashboard(1, ""),
                    dashboard(
                        2, "0.003835980000000000000000000000", "gpt-5-nano, input_tokens", "1000", "tokens"
                    ),
                    dashboard(2, "0.5", "assistants api | file search", "3"),
                ]
            ),
        ),
    )
    assert not run.errors
    assert sums(bills) == [("openai-dashboard-items-projects-keys", 2, Decimal("0.50383598"))]
    first = bills.charges()[0]
    assert (first["billing_account_id"], first["sub_account_name"], first["tags"]) == (
        "org-1",
        "Chat",
        {"api_key_id": "key_1"},
    )
    assert facts(token_rows(bills)) == [
        ("openai", "gpt-5-nano", "prompt", 1000.0),
        ("openai", None, "other", None),
    ]


def test_anthropic_answers(bills: Bills) -> None:
    run = collect(bills, ("report.json", text(anthropic(1, 2))))
    assert not run.errors and not run.findings
    # cents
    assert sums(bills) == [("anthropic", 10, Decimal("2.7957824"))]
    first = bills.charges()[0]
    names = ("provider", "billing_period", "billing_currency", "sub_account_id", "sku_id", "billed_cost")
    assert [first[name] for name in names] == [
        "anthropic",
        "2026-09",
        "USD",
        "wrkspc_1",
        "claude-sonnet-4-20250514",
        Decimal("1.2378912"),
    ]
    model = "claude-sonnet-4-20250514"
    assert facts(token_rows(bills))[:5] == [
        ("anthropic", model, "prompt", None),
        ("anthropic", model, "generation", None),
        ("anthropic", model, "cached", None),
        ("anthropic", model, "prompt", None),
        ("anthropic", None, "other", None),
    ]


def console(day: int, model: str, token_type: str, cost: str, kind: str = "token") -> dict[str, str]:
    return {
        "usage_date_utc": f"2026-09-{day:02}", "model": model, "workspace": "Default", "api_key": "chat", "usage_type": "message",
        "context_window": "≤ 200k", "token_type": token_type, "cost_usd": cost, "list_price_usd": "1.00", "cost_type": kind,
        "inference_geo": "not_available", "speed": "", "api_key_id": "apikey_01", "api_key_status": "active",
    }  # fmt: skip


def test_anthropic_console(bills: Bills) -> None:
    rows = [
        console(30, "Claude Sonnet 4.5", "input_no_cache", "0.19"),
        console(30, "Claude Sonnet 4.5", "output", "0.03"),
        console(30, "Claude Opus 4.1", "input_cache_read", "0.10"),
        console(30, "Claude Opus 4.1", "", "0.01", "web_search"),
    ]
    run = collect(bills, ("costs.csv", csv_text(rows)))
    assert not run.errors and sums(bills) == [("anthropic-console", 4, Decimal("0.33"))]
    first = bills.charges()[0]
    assert (first["charge_period_end"], first["list_cost"], first["tags"]) == (
        _utc(10, 1),
        Decimal(1),
        {"api_key": "chat", "api_key_id": "apikey_01"},
    )
    assert facts(token_rows(bills)) == [
        ("anthropic", "claude-sonnet-4-5", "prompt", None),
        ("anthropic", "claude-sonnet-4-5", "generation", None),
        ("anthropic", "claude-opus-4-1", "cached", None),
        ("anthropic", "claude-opus-4-1", "other", None),
    ]
    # the same month as the API tells it is the same costs
    run = collect(bills, ("report.json", text(anthropic(30))))
    assert "the account's bill of this month is there in another format" in run.errors[0].message


USAGE = {
    "openai": {
        "data": [
            {
                "start_time": 1,
                "end_time": 2,
                "results": [{"input_tokens": 5, "output_tokens": 6, "num_model_requests": 1}],
            }
        ],
        "has_more": False,
    },
    "anthropic": {
        "data": [
            {
                "starting_at": "x",
                "results": [{"uncached_input_tokens": 5, "cache_creation": {"a": 1}, "output_tokens": 1}],
            }
        ],
        "has_more": False,
    },
}


def test_usage_and_broken_answers_are_refused(bills: Bills) -> None:
    broken = {
        "usage: tokens, not what they cost": text(USAGE["openai"]),
        ": tokens, not what they cost": text(USAGE["anthropic"]),
        "without rows": '{"object": "page", "data": [], "has_more": false}',
        "is no JSON": text(openai(1))[:-9],
    }
    refusals = bills.refusals(broken, None)
    assert all(message in refusals[message] for message in broken), refusals
    number = '{"data": [{"start_time": 1, "end_time": 2, "results": [7]}], "has_more": false}'
    assert "a result of the answer is no object" in bills.refusals({"number": number}, None)["number"]


def test_row_of_an_answer_that_cannot_be_read_is_refused(bills: Bills) -> None:
    rows = {
        "openai cost": (text(openai(1)).replace("0.06", '"much"'), "billed cost"),
        "openai start": (text(openai(1)).replace("1788220800", "9223372036854775807"), "start of the charge"),
        "anthropic cost": (text(anthropic(1)).replace("123.78912", ""), "billed cost"),
    }
    assert bills.refusals({name: document for name, (document, _) in rows.items()}, None) == {
        name: f"row 1: the {what} is empty or cannot be read" for name, (_, what) in rows.items()
    }


def test_a_folder_of_pages_is_one_bill(bills: Bills, tmp_path: Path) -> None:
    bills.write("pages/1.json", text(anthropic(1, more=True)))
    bills.write("pages/2.json", text(anthropic(2)))
    run = bills.load(tmp_path / "pages", provider=None)
    assert not run.errors and [result.rows for result in run.results] == [10]
