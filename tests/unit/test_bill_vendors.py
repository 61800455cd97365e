"""Charges of model vendors, from the answers of their cost APIs and the exports of their consoles."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

from gpucost.collect.bill.load import BillRun
from tests.text_tables import text_rows, words
from tests.unit.bills import Bills, Charge, Row, as_text, check_scene, csv_text
from tests.unit.test_token_bills import facts, token_rows

OPENAI = """[
  {"object": "organization.costs.result", "amount": {"value": 0.06, "currency": "usd"}, "project_id": "proj_a",
   "line_item": "gpt-4o-2024-08-06, input", "quantity": 24000.0},
  {"object": "organization.costs.result", "amount": {"value": 1e-05, "currency": "usd"}, "project_id": "proj_a",
   "line_item": "gpt-4o-2024-08-06, cached input", "quantity": 8.0},
  {"object": "organization.costs.result", "amount": {"value": 0.1, "currency": "usd"}, "project_id": "proj_a",
   "line_item": "web search tool calls", "quantity": 10.0}]"""
#: Amounts in cents.
ANTHROPIC = """[
  {"amount": "123.78912", "description": "Claude Sonnet 4 Usage - Input Tokens", "token_type": "uncached_input_tokens"},
  {"amount": "5.5", "description": "Claude Sonnet 4 Usage - Output Tokens", "token_type": "output_tokens"},
  {"amount": "0.5", "description": "Claude Sonnet 4 Usage - Cache Hits", "token_type": "cache_read_input_tokens"},
  {"amount": "7", "description": "Claude Sonnet 4 Usage - Cache Write", "token_type": "cache_creation.ephemeral_5m_input_tokens"},
  {"amount": "3", "description": "Web Search Usage", "cost_type": "web_search", "context_window": null, "model": null,
   "service_tier": null, "token_type": null}]"""
OF_TOKENS = """{"currency": "USD", "workspace_id": "wrkspc_1", "inference_geo": "global", "cost_type": "tokens",
  "context_window": "0-200k", "model": "claude-sonnet-4-20250514", "service_tier": "standard"}"""
text = json.dumps


def _midnight(day: int) -> datetime:
    """Midnight of a day in September, or of October 1."""
    return datetime(2026, 9 + day // 31, day % 31 + day // 31, tzinfo=UTC)


def openai(*days: int, cost: float | str = 0.06, more: bool = False, **changed: Any) -> Charge:
    """A page of `/v1/organization/costs`: each day, the costs of one project by line item."""
    buckets = []
    for day in days:
        results = [one | changed for one in json.loads(OPENAI)]
        results[0]["amount"]["value"] = cost
        start, end = (int(_midnight(one).timestamp()) for one in (day, day + 1))
        buckets.append({"object": "bucket", "start_time": start, "end_time": end, "results": results})
    return {"object": "page", "data": buckets, "has_more": more, "next_page": None}


def anthropic(*days: int, more: bool = False, **changed: Any) -> Charge:
    """A page of `/v1/organizations/cost_report`, by description and workspace."""
    buckets = []
    for day in days:
        start, end = (f"{_midnight(one):%Y-%m-%dT%H:%M:%SZ}" for one in (day, day + 1))
        results = [json.loads(OF_TOKENS) | one | changed for one in json.loads(ANTHROPIC)]
        buckets.append({"starting_at": start, "ending_at": end, "results": results})
    return {"data": buckets, "has_more": more, "next_page": "page_x" if more else None}


def dashboard(day: int, cost: str, item: str = "", quantity: str = "", unit: str = "") -> Row:
    """A row of the dashboard's export; a day without costs has only its times."""
    start, end = _midnight(day), _midnight(day + 1)
    row = words(f"""
        start_time={start.timestamp():.0f} end_time={end.timestamp():.0f} start_time_iso={start:%Y-%m-%dT%H:%M:%S}
        end_time_iso={end:%Y-%m-%dT%H:%M:%S} amount_value={cost} amount_currency=usd quantity={quantity} quantity_unit={unit}
        line_item="{item}" user_id= api_key_id=key_1 project_id=proj_a organization_id=org-1 project_name=Chat""")
    return row if cost else {name: value if "time" in name else "" for name, value in row.items()}


def console(day: int, model: str, token_type: str, cost: str, kind: str = "token") -> Row:
    return words(f"""
        usage_date_utc=2026-09-{day:02} model="{model}" workspace=Default api_key=chat usage_type=message
        context_window="≤ 200k" token_type={token_type} cost_usd={cost} list_price_usd=1.00 cost_type={kind}
        inference_geo=not_available speed= api_key_id=apikey_01 api_key_status=active""")


def collect(
    bills: Bills, *contents: str | bytes, force: bool = False, refused: str = ""
) -> tuple[BillRun, list[str]]:
    """Load files, which must be accepted or refused with these words; return codes of findings too."""
    paths = [bills.write(f"{number}.json", content) for number, content in enumerate(contents)]
    run = bills.load(*paths, provider=None, force=force)
    assert refused in "".join(error.message for error in run.errors) and bool(run.errors) == bool(refused)
    return run, [finding.code for finding in run.findings]


def sums(bills: Bills, by: str = "format") -> list[str]:
    """Rows and cost by format."""
    sql = f"SELECT {by}, count(*), sum(effective_cost) FROM charges GROUP BY 1 ORDER BY 1"  # noqa: S608
    return [" ".join(map(as_text, row)) for row in bills.store.query(sql)[1]]


def test_openai_answers_are_read(bills: Bills) -> None:
    _, codes = collect(bills, text(openai(1, 2), indent=2))
    assert not codes
    first = words("""
        provider=openai source=openai format=openai-items-projects billing_period=2026-09 billing_currency=USD
        sub_account_id=proj_a kind=other service_category="AI and Machine Learning"
        charge_period_start=2026-09-01T00:00:00 charge_period_end=2026-09-02T00:00:00""")
    check_scene(bills.charges()[:1], [first])
    assert sums(bills) == ["openai-items-projects 6 0.32002"]
    assert facts(token_rows(bills))[:3] == text_rows("""
        openai | gpt-4o-2024-08-06 | prompt | 24000.0
        openai | gpt-4o-2024-08-06 | cached | 8.0
        openai | None | other | None""")


def test_pages_in_many_file_forms_are_read(bills: Bills) -> None:
    """An array, lines, one file each, and packed; each has its own project."""

    def pages(project: str) -> list[Charge]:
        return [openai(1, more=True, project_id=project), openai(2, project_id=project)]

    lines = [text(page) + "\n" for page in pages("lines")]
    files = [text(page, indent=1) for page in pages("files")]
    whole = text(openai(1, 2, project_id="gzip"))
    _, codes = collect(bills, text(pages("array")), "".join(lines), *files, gzip.compress(whole.encode()))
    assert not codes
    ways = ("array", "files", "gzip", "lines")
    assert sums(bills, "sub_account_id") == [f"{way} 6 0.32002" for way in ways]


def test_days_requested_again_replace_the_previous_ones(bills: Bills) -> None:
    collect(bills, text(openai(1, 2)))
    collect(bills, text(openai(1, 2, 3, cost=0.08)))
    assert sums(bills) == ["openai-items-projects 9 0.54003"]
    # other days are added to them
    collect(bills, text(openai(4)))
    assert sums(bills) == ["openai-items-projects 12 0.70004"]


def test_costs_grouped_differently_are_not_counted_twice(bills: Bills) -> None:
    collect(bills, text(openai(1, 2)))
    total = text(openai(1, 2, line_item=None, project_id=None, quantity=None))
    collect(bills, total, refused="the account's bill of this month is stored in another format")
    assert sums(bills) == ["openai-items-projects 6 0.32002"]
    _, codes = collect(bills, total, force=True)
    assert sums(bills) == ["openai 6 0.32002"] and codes == ["not_by_item"]


def test_page_with_a_next_page_is_incomplete(bills: Bills) -> None:
    """Also if the last available page has only days without costs."""
    last = openai(2, 3)
    for bucket in last["data"]:
        bucket["results"] = []
    pages = [openai(1, more=True), last]
    loads: list[tuple[list[Any], list[str]]] = [
        ([pages], []),
        (pages, []),
        ([[pages[0], last | {"has_more": True}]], ["more_pages"]),
        (pages[:1], ["more_pages"]),
    ]
    for files, codes in loads:
        run, found = collect(bills, *map(text, files), force=True)
        assert found == codes and [result.rows for result in run.results] == [3]
    collect(bills, text(last), refused="no charges")
    assert collect(bills, text(anthropic(1, more=True)))[1] == ["more_pages"]


def test_openai_dashboard_export_is_read(bills: Bills) -> None:
    rows = [
        dashboard(1, ""),
        dashboard(2, "0.003835980000000000000000000000", "gpt-5-nano, input_tokens", "1000", "tokens"),
        dashboard(2, "0.5", "assistants api | file search", "3"),
    ]
    collect(bills, csv_text(rows))
    assert sums(bills) == ["openai-dashboard-items-projects-keys 2 0.50383598"]
    first = words("""billing_account_id=org-1 sub_account_name=Chat tags='{"api_key_id": "key_1"}' """)
    check_scene(bills.charges()[:1], [first])
    assert facts(token_rows(bills)) == text_rows("""
        openai | gpt-5-nano | prompt | 1000.0
        openai | None | other | None""")


def test_anthropic_answers_are_read(bills: Bills) -> None:
    _, codes = collect(bills, text(anthropic(1, more=True)), text(anthropic(2)))
    assert not codes and sums(bills) == ["anthropic 10 2.7957824"]
    first = words("""
        provider=anthropic billing_period=2026-09 billing_currency=USD sub_account_id=wrkspc_1 sku_id=claude-sonnet-4-20250514
        billed=1.2378912""")
    check_scene(bills.charges()[:1], [first])
    assert facts(token_rows(bills))[:5] == text_rows("""
        anthropic | claude-sonnet-4-20250514 | prompt | None
        anthropic | claude-sonnet-4-20250514 | generation | None
        anthropic | claude-sonnet-4-20250514 | cached | None
        anthropic | claude-sonnet-4-20250514 | prompt | None
        anthropic | None | other | None""")


def test_anthropic_console_export_is_read(bills: Bills) -> None:
    rows = text_rows("""
        Claude Sonnet 4.5 | input_no_cache | 0.19 | token
        Claude Sonnet 4.5 | output | 0.03 | token
        Claude Opus 4.1 | input_cache_read | 0.10 | token
        Claude Opus 4.1 | | 0.01 | web_search""")
    collect(bills, csv_text([console(30, *row) for row in rows]))
    assert sums(bills) == ["anthropic-console 4 0.33"]
    first = words("""
        charge_period_end=2026-10-01T00:00:00 list_cost=1 tags='{"api_key": "chat", "api_key_id": "apikey_01"}' """)
    check_scene(bills.charges()[:1], [first])
    assert facts(token_rows(bills)) == text_rows("""
        anthropic | claude-sonnet-4-5 | prompt | None
        anthropic | claude-sonnet-4-5 | generation | None
        anthropic | claude-opus-4-1 | cached | None
        anthropic | claude-opus-4-1 | other | None""")
    # the API's costs of the same month are the same charges
    collect(
        bills, text(anthropic(30)), refused="the account's bill of this month is stored in another format"
    )


#: Answers that are not costs, and their errors.
BROKEN = {
    "usage: tokens, not their cost": """{"has_more": false, "data": [{"start_time": 1, "end_time": 2, "results":
        [{"input_tokens": 5, "output_tokens": 6, "num_model_requests": 1}]}]}""",
    ": tokens, not their cost": """{"has_more": false, "data": [{"starting_at": "x", "results":
        [{"uncached_input_tokens": 5, "cache_creation": {"a": 1}, "output_tokens": 1}]}]}""",
    "without rows": '{"object": "page", "data": [], "has_more": false}',
    "is not JSON": text(openai(1))[:-9],
}
UNREADABLE = {
    "billed cost": text(openai(1, cost="much")),
    "start of the charge": text(openai(1)).replace("1788220800", "9223372036854775807"),
    "billed cost ": text(anthropic(1)).replace("123.78912", ""),
}


def test_usage_and_broken_answers_are_refused(bills: Bills) -> None:
    refusals = bills.refusals(BROKEN, None)
    assert all(message in refusals[message] for message in BROKEN), refusals
    number = '{"data": [{"start_time": 1, "end_time": 2, "results": [7]}], "has_more": false}'
    assert "a result of the answer is not an object" in bills.refusals({"number": number}, None)["number"]
    for what, message in bills.refusals(UNREADABLE, None).items():
        assert message == f"row 1: the {what.strip()} is empty or cannot be read"
