"""Bought tokens next to GPUs: their owners, and how invoices and cloud bills are combined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, product
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from gpucost.config.model import Config, Prices, Team
from gpucost.errors import PriceError
from gpucost.periods import Period, time_buckets
from gpucost.questions.report import api_cost
from gpucost.questions.report.rows import cut
from gpucost.store.charges import find_tokens
from tests.property.fleets import many
from tests.text_tables import columns, named_rows, text_rows, titled, words
from tests.unit.price_nodes import empty_store

DAY = datetime(2026, 3, 10, tzinfo=UTC)
NOW = DAY + timedelta(days=3)
WEEKS = Period(DAY - timedelta(days=20), DAY + timedelta(days=1))
# GPT-4o as OpenAI sold it on 2026-03-10; any prices that differ by kind of token would do
KINDS = {"prompt": Decimal("2.5"), "cached": Decimal("1.25"), "generation": Decimal(10)}
Row = dict[str, Any]
# rows of an OpenAI invoice, an Anthropic invoice (issued by AWS unless a row has an issuer), and an AWS bill
SELLERS = {
    "openai": "provider=openai issuer=openai vendor=openai model=gpt-4o",
    "anthropic": "provider=anthropic issuer=aws vendor=anthropic model=claude-sonnet-4-5",
    "bedrock": "provider=aws issuer=- vendor=anthropic token_kind=prompt millions=1 sub_account_id=444455556666",
}


def charges(text: str) -> list[Row]:
    """Rows of token_charges: a seller and its columns; "-" is null, tags and categories are key:value.

    Without a cost, a million tokens of a kind cost the price in KINDS. Hours count from DAY; a row covers a
    day.
    """
    rows = []
    for line in text.split("; "):
        seller, _, entries = line.partition(" ")
        row: Row = {
            name: None if value == "-" else value
            for name, value in words(f"{SELLERS[seller]} {entries}").items()
        }
        millions, team = row.pop("millions", "0"), row.pop("team", None)
        start = DAY.replace(tzinfo=None) + timedelta(hours=float(row.pop("hour", 0)))
        row["charge_period_end"] = start + timedelta(hours=float(row.pop("hours", 24)))
        for name in ("tags", "cost_categories"):
            row[name] = dict([row[name].rsplit(":", 1)] if name in row else [])
        row["tags"] |= {"team": team} if team else {}
        row.setdefault("tokens", float(millions) * 1e6)
        row.setdefault("cost", KINDS.get(row["token_kind"], 0) * Decimal(millions))
        common = {"bill_id": 1, "billing_currency": "USD", "sub_account_id": "", "billing_period": "2026-03"}
        rows.append(common | {"charge_period_start": start} | row)
    return rows


class Bought:
    """Charges in an in-memory store, and the answers of the api_cost stages about them."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        find_tokens(con)
        con.execute("CREATE TEMP TABLE charges AS FROM token_charges; DROP VIEW token_charges")
        con.execute("ALTER TABLE charges RENAME TO token_charges")

    def fill(self, text: str) -> None:
        self.con.execute("DELETE FROM token_charges")
        for number, row in enumerate(charges(text)):
            row = row | {"source_file": "f.csv", "source_row": number}
            self.con.execute(
                f"INSERT INTO token_charges BY NAME SELECT {', '.join(f'${name} AS {name}' for name in row)}",
                row,
            )

    def ask(
        self, period: Period, by: tuple[str, ...] = ("team",), config: Config | None = None
    ) -> dict[str | None, Decimal]:
        """Costs by the first of these dimensions; the connection then contains the rest of the answer."""
        api_cost.prepare(self.con, config or Config(), period)
        cut(self.con, period, time_buckets(period, ZoneInfo("UTC"), by), by_day=False)
        api_cost.select(self.con, ())
        return summed((row.keys[by[0]], row.own_cost) for row in api_cost.rows(self.con, by)[None])

    def models(self) -> list[Any]:
        return list(api_cost.models(self.con)[None])

    def notices(self) -> dict[str, str]:
        known = api_cost.known_to(self.con, WEEKS, NOW)
        return {
            notice.code: notice.message for notice in api_cost.notices(self.con, Config(), WEEKS, NOW, known)
        }


def summed(costs: Iterable[tuple[Any, Decimal]]) -> dict[Any, Decimal]:
    sums: dict[Any, Decimal] = defaultdict(Decimal)
    for key, cost in costs:
        sums[key] += cost
    return sums


@pytest.fixture
def bought(con: duckdb.DuckDBPyConnection) -> Bought:
    return Bought(con)


TEAMS = [
    Team(name="search", labels={"team": ["Search-Infra"]}),
    Team(name="ads", cost_categories={"Business Unit": ["Ads"]}),
    Team(name="nlp", api=["proj-nlp-*"]),
    Team(name="late", api=["proj-*-7"]),
]


@dataclass
class Case:
    """Charges, the cost of each team by source, and the expected notice codes."""

    rows: str
    costs: str
    codes: str = ""
    config: Config | None = None


SCENES = titled("""
= a cloud's bill alone
rows bedrock model=Claude4.5Sonnet cost=6 team=vision; bedrock model=llama3-3-70b cost=2 team=search vendor=meta
costs vision bill 6; search bill 2
= calls through a separate account with the vendor are added
rows bedrock model=Claude4.5Sonnet cost=6 team=vision; bedrock model=llama3-3-70b cost=2 team=search vendor=meta; \
anthropic token_kind=prompt millions=2 team=chat issuer=anthropic
costs vision bill 6; search bill 2; chat invoice 5
= rows of the cloud that issues an invoice only assign the invoice to teams
rows bedrock model=Claude4.5Sonnet cost=6 team=vision; bedrock model=llama3-3-70b cost=2 team=search vendor=meta; \
anthropic token_kind=prompt millions=2
costs search bill 2; vision invoice 5
codes api_repeated_more
= rows of the cloud that exceed the invoice by a few percent are the same money
rows bedrock model=claude-sonnet-4-5 cost=5.25 team=vision; anthropic token_kind=prompt millions=2
costs vision invoice 5
= rows of the cloud count after the end of the invoice, or with an unknown maker
rows anthropic token_kind=prompt millions=2 team=chat hours=6; \
bedrock model=Claude4.5Sonnet cost=4 team=vision hour=1 hours=1; \
bedrock model=Claude4.5Sonnet cost=600 team=vision hour=7 hours=1; \
bedrock model=qwen3-32b cost=50 team=search hour=2 hours=1 vendor=-
costs chat invoice 5; vision bill 600; search bill 50
= the nearest rows of the cloud assign an invoice line to teams
# same time and model: all 2.5 for a; same time: 5 for a and b by their spend, 1 : 3; same month: with d,
# 10 as 1 : 3 : 4
rows bedrock model=anthropic.claude-sonnet-4-5-20250929-v1:0 cost=1 team=a hour=3 hours=1; \
bedrock model=claude-opus-4-5 cost=3 team=b hour=3 hours=1; bedrock model=claude-opus-4-5 cost=4 team=d hour=9 hours=1; \
anthropic token_kind=prompt millions=1 hour=3 hours=1; anthropic token_kind=prompt millions=2 hour=3 hours=1 model=haiku; \
anthropic token_kind=generation millions=1 hour=20 hours=1
costs a invoice 5; b invoice 7.5; d invoice 5
= a charge with no duration at the start of the period
rows openai token_kind=generation millions=1 team=search hour=-480 hours=0
costs search invoice 10""")
CASES = {name: Case(**columns(text)) for name, text in SCENES.items()} | {  # type: ignore[arg-type]
    "tags, cost categories and names identify the team": Case(
        "openai token_kind=prompt millions=1 sub_account_id=proj-1 team=Search-Infra; "
        "openai token_kind=prompt millions=2 tags=user:Team:vision; "
        "openai token_kind=prompt millions=4 sub_account_id=proj-nlp-7; "
        "openai token_kind=prompt millions=8 sub_account_id=proj-3; "
        "openai token_kind=prompt millions=16 cost_categories=business_unit:Ads",
        "search invoice 2.5; vision invoice 5; nlp invoice 10; unassigned invoice 20; ads invoice 40",
        "api_unassigned", Config(teams=TEAMS),
    ),
    "money of another currency has the day's rate": Case(
        "openai token_kind=generation millions=1 team=search billing_currency=EUR", "search invoice 11",
        config=Config(prices=Prices(fx={"EUR": Decimal("1.1")})),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_charges_have_a_team_and_count_once(bought: Bought, name: str) -> None:
    case = CASES[name]
    bought.fill(case.rows)
    bought.ask(WEEKS, config=case.config)
    costs = summed(((model.team, model.source), model.cost.api_cost) for model in bought.models())
    entries = [line.split() for line in case.costs.split(";")]
    assert costs == {(team, source): Decimal(cost) for team, source, cost in entries}
    assert bought.notices().keys() == set(case.codes.split())


def test_money_of_other_currencies_needs_a_rate(bought: Bought) -> None:
    bought.fill("openai token_kind=generation millions=1 billing_currency=EUR")
    missing = "tokens of openai are priced in EUR: there is no rate from EUR to USD on 2026-03-10"
    with pytest.raises(PriceError, match=missing):
        bought.ask(WEEKS)


WITHOUT_TOKENS = """
commitments | bedrock model=Claude cost=48 token_kind=commitment tokens=- | 48 | 48
money alone | openai token_kind=prompt millions=1 tokens=-; openai token_kind=generation millions=1 tokens=- | 12.5 | 0"""


@pytest.mark.parametrize(("rows", "cost", "commitment"), named_rows(WITHOUT_TOKENS))
def test_commitments_and_money_alone_have_no_tokens(
    bought: Bought, rows: str, cost: str, commitment: str
) -> None:
    bought.fill(rows)
    bought.ask(WEEKS)
    (model,) = bought.models()
    assert (model.cost.api_cost, model.cost.commitment_cost) == (Decimal(cost), Decimal(commitment))
    assert (model.cost.prompt_tokens, model.cost.generation_tokens) == (None, None)
    assert model.cost_per_million_tokens is None


_BILL = """INSERT INTO bills BY NAME SELECT $1 AS bill_id, $2 AS provider, 's' AS source, 'focus' AS format,
    '' AS billing_account_id, '2026-03' AS billing_period, false AS is_whole, $3 AS is_final, '' AS digest, 1 AS load_bills,
    1 AS rows, $1 AS load_id, $4::TIMESTAMP AS loaded_at"""


# whether a bill is final, when it was loaded, and the end of the known period
KNOWN = """
false | 03-07 | 03-06
true | 03-07 | 04-01
false | 04-02 | 03-06
false | 04-03 | 04-01"""


@pytest.mark.parametrize(("is_final", "loaded", "known_to"), text_rows(KNOWN))
def test_bought_tokens_are_known_until_the_last_bill(
    bought: Bought, is_final: str, loaded: str, known_to: str
) -> None:
    """A bill covers its whole month if it is final, or was loaded at least two days after the month's end."""
    bought.con.execute(_BILL, [0, "openai", is_final, f"2026-{loaded}"])
    bought.con.execute(_BILL, [1, "groq", False, "2026-03-07"])
    # used until March 6; a charge in advance does not extend known usage; groq is unknown for two months
    bought.fill(
        "openai token_kind=generation millions=1 hour=-120 bill_id=0; openai token_kind=commitment millions=9 bill_id=0; "
        "openai token_kind=generation millions=1 hour=-1920 provider=groq"
    )
    assert api_cost.known_to(bought.con, WEEKS, NOW) == {
        "openai": datetime.fromisoformat(f"2026-{known_to}T00:00Z")
    }
    bought.ask(WEEKS)
    late = "purchases of tokens from openai are known until 2026-03-06 00:00: no bill contains later ones"
    assert bought.notices().get("api_not_known") == (late if known_to == "03-06" else None)


CUTS = st.lists(st.floats(0.01, 23.99), min_size=1, max_size=4).map(sorted)
# amounts that do not divide evenly, of a day, of hours and of a month; the cloud's bill names owners for some
ODD = (
    "anthropic token_kind=prompt millions=0.333333333; anthropic token_kind=generation millions=0.7777777 hour=3.5 hours=1; "
    "anthropic token_kind=generation millions=0.1 team=search hour=5 hours=7; "
    "anthropic token_kind=cached millions=1.0000001 hour=-216 hours=720"
)
OWNERS = "; bedrock model=claude4.5sonnet cost={} team={} hour={} hours=1"


@pytest.fixture(scope="module")
def odd() -> Any:
    with empty_store() as con:
        bought = Bought(con)
        owners = product(range(24), (("a", 1), ("b", 3), ("c", 7)))
        bought.fill(ODD + "".join(OWNERS.format(cost, team, hour) for hour, (team, cost) in owners))
        yield bought


@settings(max_examples=3, deadline=None)
@given(cuts=CUTS)
def test_adjoining_periods_and_finer_rows_add_up_to_the_whole(odd: Bought, cuts: list[float]) -> None:
    def between(since: float, until: float, by: tuple[str, ...] = ("team",)) -> dict[str | None, Decimal]:
        return odd.ask(Period(*(DAY + timedelta(seconds=round(hour * 3600)) for hour in (since, until))), by)

    whole = between(0, 24)
    edges = [0.0, *(round(cut * 3600) / 3600 for cut in cuts), 24.0]
    parts = summed(
        item for one, other in pairwise(edges) if one < other for item in between(one, other).items()
    )
    assert parts == whole == between(0, 24, ("team", "hour"))
    assert set(whole) == {"a", "b", "c", "search"}


test_many_more_periods_add_up = many(
    test_adjoining_periods_and_finer_rows_add_up_to_the_whole, given(cuts=CUTS), settings(deadline=None), 30
)
