"""The first sentence of a report, and the messages that begin with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.config.model import Budget, Config, Notify, Owner, Team
from gpucost.periods import Period, month_period, name_of
from gpucost.publish.notify import addressed, as_slack, as_text, message_of
from gpucost.questions.findings import read_findings
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report
from gpucost.render import markdown, terminal
from gpucost.store.connection import Store
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, OCTOBER_END, UTC_ZONE, Fleet, alone
from tests.text_tables import named_rows

DAY = 24 * HOUR
SEPTEMBER = OCTOBER - 30 * DAY
MONTH = month_period(datetime(2026, 10, 5, tzinfo=UTC).date(), UTC_ZONE)
BUDGETS = [
    Budget(name="all", amount=Decimal(3000)),
    Budget(name="research", team="research", amount=Decimal("741.50")),
    Budget(name="generous", team="research", amount=Decimal(9000)),
    Budget(name="aims", team="research", efficiency=Decimal("0.9")),
]


def two_months(path: Path, since: int = SEPTEMBER) -> Store:
    """Two months of a $2 node with two GPUs; `research` has one of them, in September in the second half."""
    fleet = Fleet()
    fleet.node(1, "n1", "A100", 2, "on_demand", "2", up=(since, OCTOBER_END))
    fleet.pod(1, 1, "ml", "a", "Job/a")
    for at in range(since, OCTOBER_END, HOUR):
        fleet.cell(at, 1, [(1, "research", 1, 1.0, 0.5)] if at >= OCTOBER - 15 * DAY else [])
    fleet.rows["collected"] = [("prod", since, OCTOBER_END)]
    fleet.write(path)
    return Store(path)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder = tmp_path_factory.mktemp("months")
    return {
        "whole": two_months(folder / "whole.duckdb"),
        "late": two_months(folder / "late.duckdb", SEPTEMBER + DAY),
    }


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(tmp_path, monkeypatch)


def query(*teams: str, period: Period = MONTH) -> Query:
    return Query(period, name_of(period, UTC_ZONE), teams=teams, now=NOW)


#: The store, the team, the first day in October and the end, and the sentence.
SENTENCES = """
fleet | whole |          | 1 | 32 | FLEET $1,488.00 in OCT, 3 % more than September; 50 % of the $3,000 budget; idle $372.00
team  | whole | research | 1 | 32 | TEAM $744.00 in OCT, 107 % more than September; 100.3 % of its $741.50 budget; idle $372.00
days  | whole | research | 1 | 9  | research: $192.00 from 2026-10-01 to 2026-10-08, as much as the period before; idle $96.00
late  | late  |          | 1 | 32 | FLEET $1,488.00 in OCT; 50 % of the $3,000 budget; idle $372.00
"""


@pytest.mark.parametrize(("store", "team", "first", "end", "sentence"), named_rows(SENTENCES))
def test_headline_has_total_change_budget_and_idle_cost(
    stores: dict[str, Store], store: str, team: str, first: str, end: str, sentence: str
) -> None:
    start = [OCTOBER + (int(day) - 1) * DAY for day in (first, end)]
    period = Period(*(datetime.fromtimestamp(at / 1000, UTC) for at in start))
    view = report(Config(budgets=BUDGETS), stores[store], query(*filter(None, [team]), period=period))
    sentence = (
        sentence.replace("OCT", "October 2026")
        .replace("FLEET", "all GPU nodes:")
        .replace("TEAM", "research:")
    )
    assert view.headline == sentence
    pages = markdown.render(view), markdown.brief(view), terminal.render(view, None, color=False)
    assert all(sentence in " ".join(page.replace("\\", "").split()) for page in pages)


def test_team_with_teams_below_it_has_its_budget(stores: dict[str, Store]) -> None:
    config = Config(budgets=BUDGETS, teams=[Team(name="nlp", parent="research")])
    family = replace(query("research", "nlp"), top_teams=(("nlp", "research"),))
    view = report(config, stores["whole"], family)
    assert "100.3 % of its $741.50 budget" in view.headline
    assert "budget" not in report(config, stores["whole"], query("research")).headline


def test_period_that_is_not_over_has_no_change(stores: dict[str, Store]) -> None:
    start, end = (datetime(2026, *day, tzinfo=UTC) for day in ((10, 15), (11, 5)))
    running = replace(query(period=Period(start, end)), now=datetime(2026, 11, 1, tzinfo=UTC))
    assert "than" not in report(Config(), stores["whole"], running).headline


def test_message_begins_with_the_headline_and_names_estimates(stores: dict[str, Store]) -> None:
    config = Config(budgets=BUDGETS)
    view = report(config, stores["whole"], query("research"))
    findings = read_findings(config, stores["whole"], MONTH)
    message = message_of(view, findings, None, 5)
    assert as_text(message).startswith(f"{view.headline}\n") and as_slack(message)["text"] == view.headline
    assert ("Estimated", "$744.00", "100.0 % of cost, not billed yet") in message.figures
    savings = [saving for saving in findings.savings if saving.saving_per_month][:3]
    assert [name for name, *_ in message.savings] == [f"{each.title}: {each.subject}" for each in savings]


#: The teams of the request, whether the channel has a recipient of its own, and the teams and owners of the messages.
ADDRESSED = """
all        |         | yes | -: general; a: a; b: b
owners     |         | no  | a: a; b: b
one        | a       | yes | a: a
other      | c       | yes | c: general
both       | a, b    | yes | a, b: general
with below | top, a  | yes | top, a: general
"""


@pytest.mark.parametrize(("teams", "has_own", "messages"), named_rows(ADDRESSED))
def test_each_owner_gets_the_message_on_its_team(teams: str, has_own: str, messages: str) -> None:
    owners = [Owner(team=name, recipients=[f"{name}@example.com"]) for name in "ab"]
    config = Config(
        notify=Notify(teams=[*owners, Owner(team="slack only")]), teams=[Team(name="a", parent="top")]
    )

    def reaches(owner: Owner | None) -> bool:
        return bool(owner.recipients) if owner else has_own == "yes"

    found = addressed(config, tuple(filter(None, teams.split(", "))), reaches)
    texts = [f"{', '.join(names) or '-'}: {owner.team if owner else 'general'}" for names, owner in found]
    assert "; ".join(texts) == messages
