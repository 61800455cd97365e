"""Bought tokens and GPUs in one answer: a report, a chargeback, units, and complete days."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.publish.chargeback import read_bundle
from gpucost.questions.budget.projection import CostSeries, days_of
from gpucost.questions.report import api_cost, reading
from gpucost.questions.report.query import Query
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import UnitQuery, prepare
from gpucost.render.data import to_csv
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.replay.work import stored
from tests.text_tables import cells, text_rows, words
from tests.unit.bills import FOCUS_USAGE, csv_text
from tests.unit.served import serving
from tests.unit.test_api_cost import DAY, KINDS, NOW, summed

# A day of four L4s at $1 per hour, allocated to the namespace chat, and an OpenAI bill in FOCUS


def focus(kind: str, millions: str, team: str = "") -> dict[str, str]:
    """A row of an OpenAI FOCUS file: this many million tokens of one kind."""
    priced = {"input": "prompt", "cached input": "cached", "output": "generation"}[kind]
    cost = KINDS[priced] * Decimal(millions)
    tags = json.dumps({"team": team}) if team else ""
    own = words(f"""
        BilledCost={cost} EffectiveCost={cost} ListCost={cost} ContractedCost={cost} BillingAccountId=org-1 ResourceId=
        ChargeDescription="gpt-4o-2024-08-06, {kind}" ChargePeriodStart=2026-03-10T00:00:00Z ResourceType=
        ChargePeriodEnd=2026-03-11T00:00:00Z ConsumedQuantity={millions} ConsumedUnit="1M Tokens" ProviderName=OpenAI
        PublisherName=OpenAI InvoiceIssuerName=OpenAI ServiceName="OpenAI API" ServiceCategory="AI and Machine Learning"
        SubAccountId=proj-a SubAccountName=proj-a SkuId="gpt-4o {kind}" SkuMeter="{kind}" Tags='{tags}'""")
    return FOCUS_USAGE | own


@dataclass
class Ledger:
    config: Config
    store: Store
    before: ReportView | None = None

    def report(self, days: float = 1, **more: Any) -> ReportView:
        period = Period(DAY, DAY + timedelta(days=days))
        return reading.report(self.config, self.store, Query(period, "the day", now=NOW, **more))

    def tokens(self, **filters: Any) -> Any:
        def build(con: Any, ask: UnitQuery) -> Any:
            prepare(con, ask)
            view = units.tokens(con, ask)
            api_cost.add_bought(con, self.config, view)
            return view

        ask = UnitQuery(self.config, Period(DAY, DAY + timedelta(days=1)), "the day")
        narrowed = replace(ask, **filters)
        return pipeline.read_attributed(self.config, self.store, lambda con: build(con, narrowed), ask.period)


@pytest.fixture(scope="module")
def ledger(module_path: Path) -> Ledger:
    made = Ledger(*stored(serving([("llm-0", [0, 1, 2, 3], 0, 24)]), module_path))
    made.before = made.report()
    rows = [focus(*row, "search") for row in (("input", "10"), ("cached input", "4"), ("output", "2"))]
    (module_path / "openai.csv").write_text(
        csv_text([*rows, focus("input", "1.2345", "chat"), focus("output", "0.5")])
    )
    assert not collect_bills(made.store, [LocalTree(module_path / "openai.csv")], None).errors
    return made


OF_TEAMS = {"search": 50, "unassigned": 5, "chat": 3.08625}


def test_token_bill_is_in_the_report_without_gpu_hours(ledger: Ledger) -> None:
    before, view = ledger.before, ledger.report()
    assert before is not None and before.totals_api is None
    assert "api_cost" not in before.json()
    assert (view.totals, view.node_totals) == (before.totals, before.node_totals)
    rows = {row.keys["team"]: row.api for row in view.rows if row.api}
    assert {team: float(api.api_cost) for team, api in rows.items()} == OF_TEAMS
    search = rows["search"]
    tokens = (search.prompt_tokens, search.cached_tokens, search.generation_tokens)
    assert tokens == (14_000_000, 4_000_000, 2_000_000)
    answer = to_dict(view)
    assert cells([answer["totals"]], "api_cost node_cost") == [("58.086250000", "96.000000000")]
    bought = [one for one in answer["bought"] if one["team"] == "search"]
    found = cells(bought, "model provider source prompt_cost generation_cost")
    assert found == [("gpt-4o-2024-08-06", "openai", "invoice", "30.000000000", "20.000000000")]
    assert bought[0]["cost_per_million_tokens"] == Decimal("3.125")
    lines = csv.DictReader(to_csv(view).splitlines())
    assert sum(Decimal(line["cost"]) for line in lines) == Decimal("154.08625")
    plain = partial(ledger.report, with_sections=False)
    # rows by a dimension that tokens do not have
    assert [row.api.api_cost for row in plain(by=("gpu_model",)).rows if row.api] == [Decimal("58.08625")]
    assert plain(namespaces=("chat",)).totals_api is None
    assert plain(teams=("search",)).totals_api == search


def test_chargeback_includes_tokens_and_gpus(ledger: Ledger, tmp_path: Path) -> None:
    from gpucost.publish.chargeback import ChargebackQuery, manifest_of, replacing, write

    month = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    ask = ChargebackQuery("2026-03", month, "March 2026", datetime(2026, 5, 1, tzinfo=UTC))
    out = tmp_path / "out" / "2026-03"
    with replacing(out, lambda _: []) as folder:
        bundle = read_bundle(ledger.config, ledger.store, ask, folder)
        manifest = manifest_of(bundle, ledger.config, None)
        manifest = write(bundle, manifest, folder, dict.fromkeys((None, *bundle.teams), ()))
    assert sorted(cells(manifest["teams"], "team charge cost api_cost shared_cost")) == text_rows("""
        chat | 99.08625 | 96.0 | 3.08625 | 0.0
        search | 50.0 | 0.0 | 50.0 | 0.0
        unassigned | 5.0 | 0.0 | 5.0 | 0.0
    """)
    totals = cells([manifest["totals"]], "charge api_cost shared_cost")
    assert totals == [("154.08625", "58.08625", "0.0")]
    assert manifest["invoice"]["difference"] == 0
    assert not [reason for reason in manifest["reasons"] if "tokens" in reason]
    assert sum(Decimal(str(line["cost"])) for line in manifest["invoice"]["lines"]) == Decimal("58.08625")
    focus_rows, ledger_rows = (
        list(csv.DictReader((out / name).read_text().splitlines())) for name in ("focus.csv", "ledger.csv")
    )
    bought = [row for row in focus_rows if row["x_gpucost_kind"] == "api"]
    costs = summed((row["x_gpucost_team"], Decimal(row["EffectiveCost"])) for row in bought)
    assert {team: float(cost) for team, cost in costs.items()} == OF_TEAMS
    charged = [Decimal(row["cost"]) for row in ledger_rows if row["kind"] in ("allocated", "api")]
    assert sum(charged) == Decimal("154.08625")
    assert "Bought tokens" in (out / "teams" / "search.md").read_text()


def test_bought_tokens_are_listed_separately_from_tokens_of_own_pods(ledger: Ledger) -> None:
    view = ledger.tokens()
    (one,) = [one for one in view.sections["bought"] if one["team"] == "search"]
    assert (one["model"], one["api_cost"]) == ("gpt-4o-2024-08-06", Decimal(50))
    # $30 for 14 million (4 of them cached) and $20 for two million
    assert one["cost_per_million_prompt_tokens"] == pytest.approx(Decimal(30) / 14)
    assert one["cost_per_million_generation_tokens"] == Decimal(10)
    assert view.totals["cost"] == 0
    assert "bought" not in ledger.tokens(namespaces=("chat",)).sections


def test_days_after_the_last_bill_are_complete_only_for_teams_without_bought_tokens(
    ledger: Ledger, tmp_path: Path
) -> None:
    shutil.copyfile(ledger.store.path, tmp_path / "store.duckdb")
    copy = Ledger(ledger.config, Store(tmp_path / "store.duckdb"))
    with copy.store.write() as con:
        con.execute("UPDATE bills SET loaded_at = TIMESTAMP '2026-03-07'")
        con.execute("UPDATE bill_lines SET charge_period_end = TIMESTAMP '2026-03-10 12:00'")
    view = copy.report(by=("team", "day"), may_be_absent=True, with_sections=False)
    assert view.api_known_to == DAY + timedelta(hours=12)
    days = days_of(view, copy.config.tz, NOW)
    assert days.complete_of(CostSeries("team", "search")) == ()
    assert days.complete_of(CostSeries("team", "chat")) == days.complete == (DAY.date(),)
