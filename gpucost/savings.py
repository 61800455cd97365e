"""What findings would save, as the commands that show it say: all questions on one reading of the store, costed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.findings import Answered, Candidate, Findings, Question, ranked
from gpucost.periods import MS_PER_HOUR, is_month, iso, name_of
from gpucost.whatif.cost import costs_of
from gpucost.whatif.fleet import HOURS_PER_MONTH, CostOf, Costs, Fleet, Scope, idle_stretches, levels, read_fleet

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Idle, Levels
    from gpucost.whatif.gpu_specs import Facts
    from gpucost.whatif.rightsize import Offer

# A what-if asks for a few fleets, and for a few more once it has seen what those cost.
_ROUNDS = 8


def answered(config: Config, asks: Mapping[Question, Ask]) -> dict[Question, Answer]:
    """The answers of all what-ifs that have one.

    A what-if says the same whenever it is asked: each is asked with what is known so far (what is not known costs nothing),
    and once more when the fleets that it wanted to know of are costed, until it wants none.
    """
    known: dict[Fleet, Costs] = {}
    answers: dict[Question, Answer] = {}
    open_questions = dict(asks)
    for _ in range(_ROUNDS):
        wanted: dict[Fleet, None] = {}
        for question, ask in list(open_questions.items()):
            missing: list[Fleet] = []
            try:
                answer = ask(_Known(known, missing))
            except (GpucostError, ArithmeticError):
                # what does not know its costs yet may stumble over zeros; what knows them has no answer
                if not missing:
                    del open_questions[question]
            else:
                if not missing:
                    answers[question] = answer
                    del open_questions[question]
            wanted |= dict.fromkeys(missing)
        if not wanted:
            break
        known |= zip(wanted, costs_of(config, list(wanted)), strict=True)
    return answers


class _Known:
    """A CostOf that notes what it does not know."""

    def __init__(self, known: Mapping[Fleet, Costs], missing: list[Fleet]) -> None:
        self._known, self._missing = known, missing

    def __call__(self, fleet: Fleet) -> Costs:
        if (costs := self._known.get(fleet)) is not None:
            return costs
        self._missing.append(fleet)
        nothing = Decimal(0)
        return Costs(nothing, nothing, nothing, 0.0, 0.0, 0.0, by_team=defaultdict(Decimal), by_workload=defaultdict(Decimal))


T = TypeVar("T")
Ask = Callable[[CostOf], "Answer"]
Commit = Callable[[Question], Ask]


class Askers:
    """The what-ifs as their commands put them with the options of a question, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period, commit: Commit | None) -> None:
        self.config, self.store, self.period, self.commit = config, store, period, commit

    def ask(self, question: Question) -> Ask:
        """What asks the question, given what fleets cost."""
        if question.command == "reserve":
            return self.commit(question) if self.commit else _unanswered
        return {"schedule": self._schedule, "spot": self._spot, "share": self._share, "rightsize": self._rightsize}[
            question.command
        ](question)

    @cached_property
    def fleet(self) -> Fleet:
        return self._read(lambda con: read_fleet(con, self.period, Scope()))

    @cached_property
    def _idle_hour(self) -> Idle:
        return self._read(lambda con: idle_stretches(con, self.config.activity, self.period, MS_PER_HOUR))

    @cached_property
    def _levels(self) -> Levels:
        return self._read(lambda con: levels(con, self.config.activity, self.period))

    def _read(self, read: Callable[[DuckDBPyConnection], T]) -> T:
        return pipeline.read_attributed(self.config, self.store, read)

    def _narrowed(self, question: Question) -> Fleet:
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

    def _schedule(self, question: Question) -> Ask:
        from gpucost.whatif import schedule
        from gpucost.whatif.fleet import NOTEBOOKS
        from gpucost.whatif.schedule import OfficeHours, Rules

        given = dict(question.options)
        office = (
            OfficeHours.parse(given["--office-hours"] or "", given["--weekdays"] or "") if "--office-hours" in given else None
        )
        rules = Rules(
            idle_minutes=float(given["--idle-minutes"] or 0) if "--idle-minutes" in given else None,
            notebooks=(given["--notebook"] or "",) if "--notebook" in given else NOTEBOOKS,
            office=tuple(office.spans(self.period, self.config.tz)) if office else None,
        )
        idle = self._idle_hour if rules.idle_minutes else {}
        options = schedule.ScheduleOptions(rules, self.config.currency, self._period_name, "", bool(question.workloads))
        fleet = self._narrowed(question)
        then = schedule.played(options, fleet, idle)
        return lambda cost_of: schedule.answer(options, fleet, then, idle, cost_of)

    def _spot(self, question: Question) -> Ask:
        from gpucost.price import load_offers
        from gpucost.whatif.spot import answer
        from gpucost.whatif.spot.market import read_market, typical_rate
        from gpucost.whatif.spot.simulate import Options
        from gpucost.whatif.spot.simulate import Question as Asked

        fleet = self._narrowed(question)
        types = {node.instance_type for node in fleet.nodes if node.instance_type}
        with self.store.read() as con:
            load_offers(con, self.config)
            market = read_market(con, types, self.config.currency, self.config.prices.stale_after_days, self.period)
            typical = typical_rate(con)
        asked = Asked(fleet, self._period_name, "", is_narrowed=True, market=market, typical=typical)
        return lambda cost_of: answer.answer(Options(), asked, lambda fleets: [cost_of(fleet) for fleet in fleets])

    def _share(self, question: Question) -> Ask:
        from gpucost.whatif import share
        from gpucost.whatif.share import Sizing

        options = share.ShareOptions(Sizing(), self.config.currency, self._period_name, "")
        fleet, facts = self._narrowed(question), self._offered[0]
        return lambda cost_of: share.answer(options, fleet, self._levels, facts, cost_of)

    def _rightsize(self, question: Question) -> Ask:
        from gpucost.whatif import rightsize
        from gpucost.whatif.rightsize import Margins, catalog_speeds

        facts, offers = self._offered
        stale = (self.period.end - timedelta(days=self.config.prices.stale_after_days)).date().isoformat()
        same = "--same-model" in dict(question.options)
        options = rightsize.RightsizeOptions(self.config.currency, self._period_name, "", Margins(), same, stale)
        fleet, speeds = self._narrowed(question), catalog_speeds(facts)
        return lambda cost_of: rightsize.answer(options, fleet, self._levels, facts, speeds, offers, cost_of)

    @cached_property
    def _offered(self) -> tuple[Facts, list[Offer]]:
        from gpucost.price import load_offers
        from gpucost.whatif.gpu_specs import load_facts
        from gpucost.whatif.rightsize import list_offers

        with self.store.read() as con:
            load_offers(con, self.config)
            return load_facts(con), list_offers(con)

    @property
    def _period_name(self) -> str:
        return name_of(self.period, self.config.tz)


def _unanswered(_: CostOf) -> Answer:
    raise GpucostError("nothing is known of commitments")


def findings(config: Config, store: Store, period: Period, commit: Commit | None = None) -> Findings:
    """What to do about the waste of the period, the dearest first, nothing under [findings] minimum_per_month.

    `commit` puts a question to `whatif reserve`; without it nothing is said of commitments. Raises GpucostError where nothing
    was used in the period.
    """
    several = pipeline.candidates(config, store, period)
    askers = Askers(config, store, period, commit)
    questions = list(dict.fromkeys(question for one in several if _is_worth(one, config) for question in one.questions))
    answers = answered(config, {question: askers.ask(question) for question in questions})
    found = {q: Answered(q, answer.today.cost, answer.saving) for q, answer in answers.items()}
    months = _months(config, store, period, askers.fleet)
    minimum = config.findings.minimum_per_month
    return ranked(several, found, months=months, minimum=minimum, period=period_words(config, period))


def period_words(config: Config, period: Period) -> tuple[str, ...]:
    """The words of a command line that name the period."""
    if is_month(period, config.tz):
        return "--month", f"{period.start.astimezone(config.tz):%Y-%m}"
    return "--from", iso(period.start), "--to", iso(period.end)


def _is_worth(one: Candidate, config: Config) -> bool:
    """No what-if saves more than what the workloads cost today: asking is for nothing under that."""
    return one.cost >= config.findings.minimum_per_month / 12


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
