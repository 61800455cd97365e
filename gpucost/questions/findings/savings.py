"""What findings would save, as the commands that show it say, all on one reading of the store."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, is_month, iso, name_of
from gpucost.questions.findings.kinds import Candidates, Findings, WhatIfQuery, WhatIfResult, ranked
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import ZERO
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.waste.anatomy import prepare
from gpucost.questions.whatif.commitments import StoredCommitments, stored_demand
from gpucost.questions.whatif.prices import list_prices
from gpucost.records import grouped
from gpucost.whatif import reserve, rightsize, schedule, share
from gpucost.whatif.answer import Answer
from gpucost.whatif.covered import read_collected, read_covers
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import Fleet, Node, NodeKey, Scope, Usage, idle_stretches, levels, read_stored
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.spot import answer as spot
from gpucost.whatif.spot.market import Market, read_market
from gpucost.whatif.spot.moves import SpotQuery

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.store.connection import Store

# Less is not extrapolated to a month.
_SHORTEST_MS = 7 * MS_PER_DAY


class _Scenarios:
    """The what-ifs as their commands put them with the options of a question, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period) -> None:
        self.config, self.period, self.store = config, period, store
        self._on_offer, self._facts = StoredCommitments(config, store, period), load_facts()
        name = name_of(period, config.tz)

        def read(con: DuckDBPyConnection) -> None:
            prepare(con, config, Query(period, name))
            self._levels = levels(con, config.activity, period)
            self.candidates = list(Candidates(con, config, period).all())
            self._idle_hour = idle_stretches(con, config.activity, period, MS_PER_HOUR)
            self._quiet = quiet_hours(con, period)
            commitments = read_covers(con, period, config.currency)
            self.fleet = commitments.marked(read_stored(con, period, Scope()).fleet)
            self._whole = Usage(self.fleet, config.currency, name, "", commitments=commitments)

        pipeline.read_attributed(config, store, read, period)
        # positions in the fleet of pods by machine, and of the parts of a machine's life; the machines of each workload
        pods, nodes = enumerate(self.fleet.pods), enumerate(self.fleet.nodes)
        self._pods_on = grouped((_machine(pod.place), at) for at, pod in pods)
        self._parts_of = grouped((_machine(node.key), at) for at, node in nodes)
        self._machines_of = grouped((pod.owner, _machine(pod.place)) for pod in self.fleet.pods)

    @cached_property
    def _market(self) -> Market:
        with self.store.read() as con:
            return read_market(con, self.config, self.period)

    @cached_property
    def _offers(self) -> list[Node]:
        return rightsize.offers_near(partial(list_prices, self.config), self.fleet.nodes)

    def usage(self, question: WhatIfQuery) -> Usage:
        """The pods that the question is about, other pods on their nodes; of a cluster alone all of its nodes."""
        fleet = self.fleet
        if not question.workloads:
            return self._whole._replace(
                fleet=fleet.only(lambda node: question.cluster in (None, node.cluster))
            )
        owners = {owner for owner in self._machines_of if question.is_about(owner)}
        machines = set(chain.from_iterable(self._machines_of[owner] for owner in owners))
        held = sorted(chain.from_iterable(self._parts_of[machine] for machine in machines))
        there = sorted(chain.from_iterable(self._pods_on[machine] for machine in machines))
        pods = [fleet.pods[at] for at in there]
        return self._whole._replace(
            fleet=Fleet(
                tuple(fleet.nodes[at] for at in held), tuple(pod for pod in pods if pod.owner in owners)
            ),
            others=tuple(pod for pod in pods if pod.owner not in owners),
            is_narrowed=True,
        )

    def schedule(self, question: WhatIfQuery) -> Answer:
        options, period, tz = dict(question.options), self.period, self.config.tz
        hours, minutes = options.get("--office-hours"), options.get("--idle-minutes")
        office = schedule.office_spans(hours, options["--weekdays"], period, tz) if hours else None
        rules = schedule.Rules(idle_minutes=float(minutes) if minutes else None, office=office)
        return schedule.answer(self.usage(question), rules, self._idle_hour, self._quiet)

    def spot(self, question: WhatIfQuery) -> Answer:
        return spot.answer(SpotQuery(self.usage(question), self._market, self.config))

    def share(self, question: WhatIfQuery) -> Answer:
        return share.answer(self.usage(question), share.Sizing(), self._levels, self._facts)

    def rightsize(self, question: WhatIfQuery) -> Answer:
        return rightsize.answer(
            self.usage(question), rightsize.Limits(), self._levels, self._facts, self._offers
        )

    def reserve(self, question: WhatIfQuery) -> Answer:
        demand = stored_demand(self._on_offer, self.usage(question))
        return reserve.answer(demand, period=self._whole.period_name)


def _machine(key: NodeKey) -> NodeKey:
    """The node that a part of its life belongs to."""
    cluster, name = key
    return cluster, name.partition("#")[0]


def findings(
    config: Config, store: Store, period: Period, tell: Callable[[str], None] = lambda _: None
) -> Findings:
    """What to do about the waste of the period, the dearest first, nothing under [findings] minimum_per_month.

    `tell` is called with what is being done. Raises GpucostError where nothing was used in the period.
    """
    tell("looking for waste")
    scenarios = _Scenarios(config, store, period)
    candidates, minimum = scenarios.candidates, config.findings.minimum_per_month
    # no what-if saves more than what the workloads cost today
    worth = [one for one in candidates if one.finding.cost > 0 and one.finding.cost >= minimum / 12]
    questions = [question for one in worth for question in one.questions]
    tell(f"asking {len(questions):,} what-ifs")
    answers: dict[WhatIfQuery, WhatIfResult] = {}
    for question in questions:
        try:
            answer: Answer = getattr(scenarios, question.command)(question)
        except GpucostError:
            continue  # nothing was measured, for example, or nothing is on offer
        figures = answer.figures
        needs_work = figures.get("saving_by_suitability", {}).get("needs_work", ZERO)
        freed = figures.get("freed_capacity_cost", ZERO)
        answers[question] = WhatIfResult(answer.today.cost, answer.saving, needs_work, freed)
    months = _months(config, store, period, scenarios.fleet)
    return ranked(candidates, answers, months=months, minimum=minimum, period=period_words(config, period))


def period_words(config: Config, period: Period) -> tuple[str, ...]:
    """The words of a command line that name the period."""
    if is_month(period, config.tz):
        return "--month", f"{period.start.astimezone(config.tz):%Y-%m}"
    return "--from", iso(period.start), "--to", iso(period.end)


def _months(config: Config, store: Store, period: Period, fleet: Fleet) -> Decimal:
    """How many months of 730 hours the collected part of the period stands for; a whole calendar month is one.

    Under seven days stand for a month, too: so little is not extrapolated.
    """
    begins = max(period.start_ms, min(node.from_ms for node in fleet.nodes))
    ends = min(period.end_ms, max(node.to_ms for node in fleet.nodes))
    with store.read() as con:
        seen, _ = read_collected(con, begins, ends)
    if seen < _SHORTEST_MS or (is_month(period, config.tz) and seen == period.end_ms - period.start_ms):
        return Decimal(1)
    return Decimal(seen) / MS_PER_HOUR / HOURS_PER_MONTH
