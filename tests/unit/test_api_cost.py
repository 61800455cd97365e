"""Bought tokens beside GPUs: whose they are, and what counts of an invoice and a cloud's bill."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config, Prices, Team
from gpucost.errors import PriceError
from gpucost.periods import Period
from gpucost.render.data import to_csv, to_json
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView
from gpucost.report import Query, api_cost, units
from gpucost.report.forecast import CostSeries, days_of
from gpucost.report.units.query import UnitQuery
from tests.property.fleets import many
from tests.replay.cases.words import at
from tests.replay.work import stored
from tests.unit.bills import csv_text
from tests.unit.test_unit_serving import serving

DAY = datetime(2026, 3, 10, tzinfo=UTC)
# GPT-4o as OpenAI sold it on 2026-03-10; the figures of the tests only need prices that part the kinds of tokens
KINDS = {"input": "2.5", "cached input": "1.25", "output": "10"}


def charge(
    kind: str, millions: str, project: str, team: str | None = None, hour: float = 0, hours: float = 24, **more: str
) -> dict[str, str]:
    """A row of a FOCUS file of OpenAI's: this many million tokens of one kind."""
    cost = str(Decimal(KINDS[kind]) * Decimal(millions))
    start, end = (DAY + timedelta(hours=moment) for moment in (hour, hour + hours))
    return {
        "BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ContractedCost": cost, "BillingAccountId": "org-1",
        "BillingCurrency": "USD", "BillingPeriodStart": "2026-03-01T00:00:00Z", "BillingPeriodEnd": "2026-04-01T00:00:00Z",
        "ChargeCategory": "Usage", "ChargeDescription": f"gpt-4o-2024-08-06, {kind}", "ChargePeriodStart": start.isoformat(),
        "ChargePeriodEnd": end.isoformat(), "ConsumedQuantity": millions, "ConsumedUnit": "1M Tokens", "ProviderName": "OpenAI",
        "PublisherName": "OpenAI", "InvoiceIssuerName": "OpenAI", "ServiceName": "OpenAI API",
        "ServiceCategory": "AI and Machine Learning", "SubAccountId": project, "SubAccountName": project,
        "SkuId": f"gpt-4o {kind}", "SkuMeter": kind, "Tags": json.dumps({"team": team}) if team else "", **more,
    }  # fmt: skip


class Ledger:
    """A day of four L4s at $1 an hour, held by the namespace chat, and what was bought beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.store = stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), folder)

    def bill(self, *rows: Mapping[str, str], name: str = "openai.csv") -> None:
        path = self.folder / name
        path.write_text(csv_text(rows))
        run = collect_bills(self.store, [LocalTree(path)], None)
        assert not run.errors, run.errors

    def report(self, hours: tuple[float, float] = (0, 24), config: Config | None = None, **more: Any) -> ReportView:
        period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in hours))
        return pipeline.report(config or self.config, self.store, Query(period, "the day", now=DAY + timedelta(days=3), **more))

    def costs(self, **more: Any) -> dict[tuple[str, str], Decimal]:
        """By team and source."""
        sums: dict[tuple[str, str], Decimal] = {}
        for one in self.report(**more).bought:
            sums[one.team, one.source] = sums.get((one.team, one.source), Decimal(0)) + one.cost.api_cost
        return sums

    def codes(self, **more: Any) -> set[str]:
        return {notice.code for notice in self.report(**more).coverage.warnings if notice.code.startswith("api_")}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_a_bill_of_tokens_stands_beside_gpus_and_in_no_gpu_hour(ledger: Ledger) -> None:
    before = ledger.report()
    assert before.totals_api is None
    assert "api_cost" not in to_json(before)
    ledger.bill(
        charge("input", "10", "proj-a", "search"),
        charge("cached input", "4", "proj-a", "search"),
        charge("output", "2", "proj-a", "search"),
        charge("input", "1", "proj-b", "chat"),
        charge("output", "0.5", "proj-c"),
    )
    view = ledger.report()
    assert view.totals == before.totals
    assert view.node_totals == before.node_totals
    rows = {row.keys["team"]: row.api for row in view.rows if row.kind == "api"}
    assert {team: api.api_cost for team, api in rows.items() if api} == {
        "search": Decimal(50), "unassigned": Decimal(5), "chat": Decimal("2.5"),
    }  # fmt: skip
    search = rows["search"]
    assert search is not None
    assert (search.prompt_tokens, search.cached_tokens, search.generation_tokens) == (14_000_000, 4_000_000, 2_000_000)
    answer = to_dict(view)
    assert (answer["totals"]["api_cost"], answer["totals"]["node_cost"]) == (Decimal("57.5"), Decimal(96))
    (one,) = [one for one in answer["bought"] if one["team"] == "search"]
    assert (one["model"], one["provider"], one["source"]) == ("gpt-4o-2024-08-06", "openai", "invoice")
    assert (one["prompt_cost"], one["generation_cost"], one["cost_per_million_tokens"]) == (30, 20, Decimal("3.125"))
    # rows by what tokens are of no part of, and the column that adds up
    assert [row.api.api_cost for row in ledger.report(by=("gpu_model",)).rows if row.api] == [Decimal("57.5")]
    lines = list(csv.DictReader(to_csv(view).splitlines()))
    assert sum(Decimal(line["cost"]) for line in lines) == Decimal(96) + Decimal("57.5")
    assert ledger.report(namespaces=("chat",)).totals_api is None
    assert ledger.report(teams=("search",)).totals_api == search
    assert ledger.codes() == {"api_unassigned"}


def test_whose_it_is_tags_labels_and_names_say(ledger: Ledger) -> None:
    ledger.bill(
        charge("input", "1", "proj-1", "Search-Infra"),
        charge("input", "2", "proj-2", Tags='{"user:Team": "vision"}'),
        charge("input", "4", "proj-nlp-7"),
        charge("input", "8", "proj-3"),
    )
    teams = [
        Team(name="search", labels={"team": ["Search-Infra"]}),
        Team(name="nlp", api=["proj-nlp-*"]),
        Team(name="late", api=["proj-*-7"]),
    ]
    costs = ledger.costs(config=ledger.config.model_copy(update={"teams": teams}))
    assert costs == {
        ("search", "invoice"): Decimal("2.5"), ("vision", "invoice"): Decimal(5),
        ("nlp", "invoice"): Decimal(10), ("unassigned", "invoice"): Decimal(20),
    }  # fmt: skip


def bedrock(model: str, cost: str, team: str | None = None, **more: str) -> dict[str, str]:
    """A row of AWS's FOCUS export: input tokens of a model in Bedrock."""
    return charge("input", "1", "444455556666", team) | {
        "BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ContractedCost": cost, "BillingAccountId": "111122223333",
        "ProviderName": "AWS", "PublisherName": "AWS", "InvoiceIssuerName": "AWS", "ServiceName": "Amazon Bedrock",
        "SkuId": model, "ChargeDescription": f"USE1-{model}-input-tokens", **more,
    }  # fmt: skip


CLAUDE = {
    "ProviderName": "Anthropic", "PublisherName": "Anthropic", "ServiceName": "Claude API", "SkuId": "claude-sonnet-4-5",
    "ChargeDescription": "claude-sonnet-4-5, input", "BillingAccountId": "anthropic-1",
}  # fmt: skip


def test_a_vendors_invoice_that_a_cloud_issues_takes_the_place_of_the_clouds_rows(ledger: Ledger) -> None:
    ledger.bill(bedrock("Claude4.5Sonnet", "6", "vision"), bedrock("Llama3-3-70B", "2", "search"), name="aws.csv")
    alone = {("vision", "bill"): Decimal(6), ("search", "bill"): Decimal(2)}
    assert ledger.costs() == alone
    own = charge("input", "2", "workspace", "chat", **CLAUDE, InvoiceIssuerName="Anthropic")
    ledger.bill(own, name="anthropic.csv")
    # an account of its own with the vendor is other calls
    assert ledger.costs() == alone | {("chat", "invoice"): Decimal(5)}
    ledger.bill(own | {"InvoiceIssuerName": "AWS", "Tags": ""}, name="anthropic.csv")
    # the cloud's rows tell whose they are, and are not added
    assert ledger.costs() == {("search", "bill"): Decimal(2), ("vision", "invoice"): Decimal(5)}


def test_provisioned_throughput_is_a_commitment(ledger: Ledger) -> None:
    hours = {
        "ConsumedQuantity": "24",
        "ConsumedUnit": "Hours",
        "ChargeDescription": "USE1-ProvisionedThroughput-Claude ModelUnits",
    }
    ledger.bill(bedrock("Claude", "48", "vision", **hours), name="aws.csv")
    (one,) = ledger.report().bought
    assert (one.cost.api_cost, one.cost.commitment_cost, one.cost.prompt_tokens) == (48, 48, None)
    assert one.cost_per_million_tokens is None


def test_money_of_other_currencies_needs_a_rate(ledger: Ledger) -> None:
    ledger.bill(charge("output", "1", "proj-a", "search", BillingCurrency="EUR"))
    with pytest.raises(PriceError, match=r"tokens of openai are priced in EUR: there is no rate from EUR to USD on 2026-03-10"):
        ledger.report()
    prices = ledger.config.prices.model_copy(update={"fx": {"EUR": Decimal("1.1")}})
    assert isinstance(prices, Prices)
    assert ledger.costs(config=ledger.config.model_copy(update={"prices": prices})) == {("search", "invoice"): Decimal(11)}


def test_a_chargeback_charges_tokens_beside_gpus(ledger: Ledger, tmp_path: Path) -> None:
    from gpucost.publish.chargeback import ChargebackQuery, manifest_of, replacing, write

    ledger.bill(
        charge("output", "1.2345", "proj-a", "search"), charge("output", "1", "proj-b", "chat"), charge("input", "1", "x")
    )
    month = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    ask = ChargebackQuery("2026-03", month, "March 2026", datetime(2026, 5, 1, tzinfo=UTC))
    with replacing(tmp_path / "out" / "2026-03", lambda _: []) as folder:
        bundle = pipeline.chargeback(ledger.config, ledger.store, ask, folder)
        manifest = write(bundle, manifest_of(bundle, ledger.config, {}, None), folder, dict.fromkeys((None, *bundle.teams), ()))
    teams = {team["team"]: team for team in manifest["teams"]}
    assert {name: (team["charge"], team["cost"], team["api_cost"], team["shared_cost"]) for name, team in teams.items()} == {
        "chat": (106.0, 96.0, 10.0, 0.0), "search": (12.345, 0.0, 12.345, 0.0), "unassigned": (2.5, 0.0, 2.5, 0.0),
    }  # fmt: skip
    assert (manifest["totals"]["charge"], manifest["totals"]["api_cost"], manifest["totals"]["shared_cost"]) == (
        120.845,
        24.845,
        0,
    )
    assert manifest["invoice"]["difference"] == 0
    assert not [reason for reason in manifest["reasons"] if "tokens" in reason]
    assert sum(Decimal(str(line["cost"])) for line in manifest["invoice"]["lines"]) == Decimal("24.845")
    out = tmp_path / "out" / "2026-03"
    with (out / "focus.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["x_gpucost_kind"] == "api"]
    assert {row["x_gpucost_team"]: Decimal(row["EffectiveCost"]) for row in rows} == {
        "chat": Decimal(10), "search": Decimal("12.345"), "unassigned": Decimal("2.5"),
    }  # fmt: skip
    with (out / "ledger.csv").open() as file:
        assert sum(Decimal(row["cost"]) for row in csv.DictReader(file) if row["kind"] in ("allocated", "api")) == Decimal(
            "120.845"
        )
    assert "Bought tokens" in (out / "teams" / "search.md").read_text()


def test_tokens_of_own_pods_and_bought_ones_stand_in_one_answer(ledger: Ledger) -> None:
    ledger.bill(charge("input", "4", "proj-a", "search"), charge("output", "1", "proj-a", "search"))
    period = Period(DAY, DAY + timedelta(days=1))

    def build(con: Any, ask: UnitQuery) -> Any:
        view = units.tokens(con, ask)
        api_cost.add_bought(con, ledger.config, view)
        return view

    view = pipeline.unit_costs(ledger.config, ledger.store, UnitQuery.of(ledger.config, period, "the day"), build)
    (one,) = view.sections["bought"]
    assert (one["team"], one["model"], one["api_cost"]) == ("search", "gpt-4o-2024-08-06", Decimal(20))
    assert (one["cost_per_million_prompt_tokens"], one["cost_per_million_generation_tokens"]) == (Decimal("2.5"), Decimal(10))
    assert view.totals["cost"] == 0
    narrowed = replace(UnitQuery.of(ledger.config, period, "the day"), namespaces=("chat",))
    assert "bought" not in pipeline.unit_costs(ledger.config, ledger.store, narrowed, build).sections


CUTS = st.lists(st.floats(0.01, 23.99), min_size=1, max_size=4).map(sorted)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Amounts that no share divides, of a day, of hours and of a month, some of which only the cloud's bill names owners for."""
    made = Ledger(tmp_path_factory.mktemp("odd"))
    made.bill(
        *(
            row | CLAUDE | {"InvoiceIssuerName": "AWS"}
            for row in (
                charge("input", "0.333333333", "shared"),
                charge("output", "0.7777777", "shared", hour=3.5, hours=1),
                charge("output", "0.1", "proj-a", "search", hour=5, hours=7),
                charge("cached input", "1.0000001", "shared", hour=-240, hours=720),
            )
        ),
        name="anthropic.csv",
    )
    made.bill(
        *(
            bedrock("Claude4.5Sonnet", str(weight), team, **_between(hour, hour + 1))
            for hour in range(24)
            for team, weight in (("a", 1), ("b", 3), ("c", 7))
        ),
        name="aws.csv",
    )
    made.report()
    return made


@settings(max_examples=2, deadline=None)
@given(cuts=CUTS)
def test_adjoining_periods_and_finer_rows_add_up_to_the_whole(odd: Ledger, cuts: list[float]) -> None:
    def by_team(hours: tuple[float, float], by: tuple[str, ...] = ("team",)) -> dict[str | None, Decimal]:
        sums: dict[str | None, Decimal] = {}
        for row in odd.report(hours, by=by, with_sections=False).rows:
            if row.api:
                sums[row.keys["team"]] = sums.get(row.keys["team"], Decimal(0)) + row.api.api_cost
        return sums

    whole = by_team((0, 24))
    edges = [0.0, *(round(cut * 3600) / 3600 for cut in cuts), 24.0]
    parts: dict[str | None, Decimal] = {}
    for span in pairwise(edges):
        if span[0] < span[1]:
            for team, cost in by_team(span).items():
                parts[team] = parts.get(team, Decimal(0)) + cost
    assert parts == whole
    assert by_team((0, 24), ("team", "hour")) == whole
    assert set(whole) == {"a", "b", "c", "search"}


test_many_more_periods_add_up = many(
    test_adjoining_periods_and_finer_rows_add_up_to_the_whole, given(cuts=CUTS), settings(deadline=None), 5
)


def test_tokens_of_a_bill_with_money_alone_are_unknown(ledger: Ledger) -> None:
    money = {"ConsumedQuantity": "", "ConsumedUnit": ""}
    ledger.bill(charge("input", "2", "proj-a", "search", **money), charge("output", "1", "proj-a", "search", **money))
    assert [(one.cost.prompt_tokens, one.cost.generation_tokens) for one in ledger.report().bought] == [(None, None)]
    assert ledger.costs() == {("search", "invoice"): Decimal(15)}


def _between(start: float, end: float) -> dict[str, str]:
    at_hours = (DAY + timedelta(hours=start), DAY + timedelta(hours=end))
    return dict(zip(("ChargePeriodStart", "ChargePeriodEnd"), (moment.isoformat() for moment in at_hours), strict=True))


def test_a_clouds_rows_count_where_the_vendors_invoice_does_not_reach(ledger: Ledger) -> None:
    anthropic = {
        "ProviderName": "Anthropic",
        "PublisherName": "Anthropic",
        "InvoiceIssuerName": "AWS",
        "SkuId": "claude-sonnet-4-5",
    }
    ledger.bill(
        charge("input", "2", "w", "chat", hours=6, **anthropic, ChargeDescription="claude-sonnet-4-5, input"), name="a.csv"
    )
    rows = [bedrock("Claude4.5Sonnet", cost, "vision", **_between(start, start + 1)) for start, cost in ((1, "4"), (7, "600"))]
    ledger.bill(*rows, name="aws.csv")
    # makers that names do not tell are no part of the invoice
    ledger.bill(*rows, bedrock("Qwen3-32B", "50", "search", **_between(2, 3)), name="aws.csv")
    assert ledger.costs() == {("chat", "invoice"): Decimal(5), ("vision", "bill"): Decimal(600), ("search", "bill"): Decimal(50)}


def test_what_is_bought_is_known_until_the_last_bill(ledger: Ledger) -> None:
    ledger.bill(*(charge("output", "1", "proj-a", "search", hour=24 * (day - 20)) for day in range(16)))
    # a bill that is loaded when its month is long over is of all of it
    assert "api_not_known" not in ledger.codes(hours=(-480, 24))
    with ledger.store.write() as con:
        con.execute("UPDATE bills SET loaded_at = TIMESTAMP '2026-03-07'")
    view = ledger.report((-480, 24), by=("team", "day"), may_be_absent=True)
    assert view.api_known_to == DAY - timedelta(days=4)
    (notice,) = [one for one in view.coverage.warnings if one.code == "api_not_known"]
    assert notice.message == "tokens of openai are known until 2026-03-06 00:00: no bill contains later ones"
    days = days_of(view, ledger.config.tz, DAY + timedelta(days=3))
    search, chat = CostSeries("team", "search"), CostSeries("team", "chat")
    assert max(days.complete_of(search), default=None) is None or max(days.complete_of(search)) < DAY.date() - timedelta(days=4)
    assert days.complete_of(chat) == days.complete
