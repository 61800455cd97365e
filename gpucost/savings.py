"""What findings would save, as the commands that show it say: all questions on one reading of the store, costed together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.findings import Findings, WhatIfQuery, WhatIfResult, ranked
from gpucost.periods import MS_PER_HOUR, is_month, iso, name_of
from gpucost.whatif.cost import costs_of, evaluate
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import Fleet, Scenario, Scope, Usage, idle_stretches, levels, read_fleet

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Idle, Levels
    from gpucost.whatif.gpu_specs import Facts
    from gpucost.whatif.rightsize import Offer
    from gpucost.whatif.spot.interruptions import Rate
    from gpucost.whatif.spot.market import Market

T = TypeVar("T")
WhatIf = Callable[[WhatIfQuery], Scenario["Answer"]]
Commit = Callable[[Usage], Scenario["Answer"]]


class _Prices(NamedTuple):
    """What the catalog and the market say, of all instance types of the fleet."""

    facts: Facts
    offers: list[Offer]
    market: Market
    typical: Rate


class _Scenarios:
    """The what-ifs as their commands put them with the options of a question, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period) -> None:
        self.config, self.period, self.store = config, period, store
        self.period_name = name_of(period, config.tz)

        def read(con: DuckDBPyConnection) -> tuple[Fleet, Idle, Levels]:
            activity = config.activity
            return (
                read_fleet(con, period, Scope()),
                idle_stretches(con, activity, period, MS_PER_HOUR),
                levels(con, activity, period),
            )

        self.fleet, self._idle_hour, self._levels = pipeline.read_attributed(config, store, read)

    @cached_property
    def _prices(self) -> _Prices:
        from gpucost.price import load_offers
        from gpucost.whatif.gpu_specs import load_facts
        from gpucost.whatif.rightsize import list_offers
        from gpucost.whatif.spot.market import read_market, typical_rate

        types = {node.instance_type for node in self.fleet.nodes if node.instance_type}
        with self.store.read() as con:
            load_offers(con, self.config)
            market = read_market(con, types, self.config.currency, self.config.prices.stale_after_days, self.period)
            return _Prices(load_facts(con), list_offers(con), market, typical_rate(con))

    def _narrowed(self, question: WhatIfQuery) -> Fleet:
        """The pods that the question is about, and their nodes; of a cluster alone all of its nodes."""
        fleet = self.fleet if question.cluster is None else self.fleet.in_clusters([question.cluster])
        if not question.workloads:
            return fleet
        pods = tuple(
            pod
            for pod in fleet.pods
            if question.namespace in (None, pod.namespace) and any(fnmatchcase(pod.workload, glob) for glob in question.workloads)
        )
        held = {(pod.cluster, pod.node.partition("#")[0]) for pod in pods}
        return Fleet(tuple(n for n in fleet.nodes if (n.cluster, n.name.partition("#")[0]) in held), pods)

    def schedule(self, question: WhatIfQuery) -> Scenario[Answer]:
        from gpucost.whatif import schedule
        from gpucost.whatif.fleet import NOTEBOOKS
        from gpucost.whatif.schedule import OfficeHours, Rules

        given = {name: value or "" for name, value in question.options}
        office = OfficeHours.parse(given["--office-hours"], given["--weekdays"]) if "--office-hours" in given else None
        rules = Rules(
            idle_minutes=float(given["--idle-minutes"]) if "--idle-minutes" in given else None,
            notebooks=(given["--notebook"],) if "--notebook" in given else NOTEBOOKS,
            office=tuple(office.spans(self.period, self.config.tz)) if office else None,
        )
        idle = self._idle_hour if rules.idle_minutes else {}
        options = schedule.ScheduleOptions(rules, self.config.currency, self.period_name, "", bool(question.workloads))
        fleet = self._narrowed(question)
        return schedule.answer(options, fleet, schedule.played(options, fleet, idle), idle)

    def spot(self, question: WhatIfQuery) -> Scenario[Answer]:
        from gpucost.whatif.spot import answer, simulate

        market, typical = self._prices.market, self._prices.typical
        fleet = self._narrowed(question)
        query = simulate.SimulationQuery(fleet, self.period_name, "", is_narrowed=True, market=market, typical=typical)
        return answer.answer(simulate.SimulationOptions(), query)

    def reserve(self, commit: Commit, question: WhatIfQuery) -> Scenario[Answer]:
        return commit(Usage(self._narrowed(question), self.period, self.period_name, "", is_narrowed=True))

    def share(self, question: WhatIfQuery) -> Scenario[Answer]:
        from gpucost.whatif import share

        options = share.ShareOptions(share.Sizing(), self.config.currency, self.period_name, "")
        return share.answer(options, self._narrowed(question), self._levels, self._prices.facts)

    def rightsize(self, question: WhatIfQuery) -> Scenario[Answer]:
        from gpucost.whatif import rightsize

        facts, offers = self._prices.facts, self._prices.offers
        stale = (self.period.end - timedelta(days=self.config.prices.stale_after_days)).date().isoformat()
        same = "--same-model" in dict(question.options)
        options = rightsize.RightsizeOptions(self.config.currency, self.period_name, "", rightsize.Margins(), same, stale)
        speeds = rightsize.catalog_speeds(facts)
        return rightsize.answer(options, self._narrowed(question), self._levels, facts, speeds, offers)


def _if_any(scenario: Scenario[Answer]) -> Scenario[Answer | None]:
    """The answer, None where there is none: nothing was measured, say, or nothing is on offer."""
    try:
        return (yield from scenario)
    except GpucostError:
        return None


def findings(config: Config, store: Store, period: Period, commit: Commit | None = None) -> Findings:
    """What to do about the waste of the period, the dearest first, nothing under [findings] minimum_per_month.

    `commit` asks `whatif reserve` about some usage; without it nothing is said of commitments. Raises GpucostError where nothing
    was used in the period.
    """
    candidates = pipeline.candidates(config, store, period)
    scenarios = _Scenarios(config, store, period)
    minimum = config.findings.minimum_per_month
    # no what-if saves more than what the workloads cost today
    worth = (one for one in candidates if one.finding.cost > 0 and one.finding.cost >= minimum / 12)
    questions = dict.fromkeys(question for one in worth for question in one.questions)
    what_ifs: dict[str, WhatIf | None] = {
        "schedule": scenarios.schedule,
        "spot": scenarios.spot,
        "share": scenarios.share,
        "rightsize": scenarios.rightsize,
        "reserve": partial(scenarios.reserve, commit) if commit else None,
    }
    scenario_of = {question: _if_any(what_if(question)) for question in questions if (what_if := what_ifs[question.command])}
    results = zip(scenario_of, evaluate(partial(costs_of, config), list(scenario_of.values())), strict=True)
    answers = {question: WhatIfResult(question, answer.today.cost, answer.saving) for question, answer in results if answer}
    months = _months(config, store, period, scenarios.fleet)
    return ranked(candidates, answers, months=months, minimum=minimum, period=period_words(config, period))


def period_words(config: Config, period: Period) -> tuple[str, ...]:
    """The words of a command line that name the period."""
    if is_month(period, config.tz):
        return "--month", f"{period.start.astimezone(config.tz):%Y-%m}"
    return "--from", iso(period.start), "--to", iso(period.end)


def _months(config: Config, store: Store, period: Period, fleet: Fleet) -> Decimal:
    """How many months of 730 hours the collected part of the period stands for; a whole calendar month is one."""
    begins = max(period.start_ms, min(node.from_ms for node in fleet.nodes))
    ends = min(period.end_ms, max(node.to_ms for node in fleet.nodes))
    seen, until = 0, begins
    with store.read() as con:
        for start, end in con.execute("SELECT from_ms, to_ms FROM collected ORDER BY from_ms").fetchall():
            part = max(0, min(end, ends) - max(start, until))
            seen, until = seen + part, max(end, until)
    if is_month(period, config.tz) and seen == period.end_ms - period.start_ms:
        return Decimal(1)
    return Decimal(seen) / MS_PER_HOUR / HOURS_PER_MONTH
