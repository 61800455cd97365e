"""The savings of findings: the answers of their what-ifs, all on one reading of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, is_month, name_of, period_words
from gpucost.questions.findings.kinds import (
    KINDS,
    Candidates,
    Findings,
    WhatIfQuery,
    WhatIfResult,
    answered,
    ranked,
)
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import ZERO
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.waste.anatomy import prepare
from gpucost.questions.whatif.commitments import StoredCommitments, stored_demand
from gpucost.questions.whatif.prices import list_prices
from gpucost.records import grouped
from gpucost.store.usage import levels_of
from gpucost.whatif import reserve, rightsize, schedule, share
from gpucost.whatif.answer import Answer
from gpucost.whatif.covered import read_collected, read_covers
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import (
    Fleet,
    Node,
    NodeKey,
    Scope,
    Usage,
    Workload,
    by_pod,
    idle_stretches,
    read_stored,
)
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.spot import answer as spot
from gpucost.whatif.spot.market import Market, read_market
from gpucost.whatif.spot.moves import SpotQuery

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.store.connection import Store

# Savings of a shorter time are not extrapolated to a month.
_SHORTEST_MS = 7 * MS_PER_DAY
# What-ifs that need the activity and memory of pods.
_MEASURED = {"share", "rightsize"}


class _Scenarios:
    """What-ifs with the options of a question, as their commands run them, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period) -> None:
        self.config, self.period, self.store = config, period, store
        self._on_offer, self._facts = StoredCommitments(config, store, period), load_facts()
        name = name_of(period, config.tz)

        def read(con: DuckDBPyConnection) -> None:
            prepare(con, config, Query(period, name))
            # also makes the tables of candidates and levels
            self._idle_hour = idle_stretches(con, config.activity, period, MS_PER_HOUR)
            self.candidates = list(Candidates(con, config, period).all())
            owners = (row.owners for row in self.candidates if not _MEASURED.isdisjoint(KINDS[row.kind][2:]))
            self._levels = by_pod(levels_of(con, frozenset().union(*owners)))
            self._quiet = quiet_hours(con, period)
            self.collected_ms, _ = read_collected(con, *period.bounds.values())
            commitments = read_covers(con, period, config.currency)
            self.fleet = commitments.marked(read_stored(con, period, Scope(), name).fleet)
            self._whole = Usage(self.fleet, config.currency, name, "", commitments=commitments)

        pipeline.read_attributed(config, store, read, period)
        self._pods_on = grouped((_machine(pod.place), pod) for pod in self.fleet.pods)
        self._parts_of = grouped((_machine(node.key), node) for node in self.fleet.nodes)
        self._machines_of = grouped((pod.owner, _machine(pod.place)) for pod in self.fleet.pods)
        self._named = grouped((owner[2], owner) for owner in self._machines_of)

    @cached_property
    def _market(self) -> Market:
        with self.store.read() as con:
            return read_market(con, self.config, self.period)

    @cached_property
    def _offers(self) -> list[Node]:
        return rightsize.offers_near(partial(list_prices, self.config), self.fleet.nodes)

    def usage(self, scope: Scope) -> Usage:
        """The pods of the scope, and other pods on their nodes, in the order of the fleet; without workloads all nodes."""
        if not scope.is_narrowed:
            clusters = scope.clusters
            return self._whole._replace(
                fleet=self.fleet.only(lambda node: not clusters or node.cluster in clusters)
            )
        owners = self._owners(scope)
        machines = sorted(set(chain.from_iterable(self._machines_of[owner] for owner in owners)))
        nodes = chain.from_iterable(self._parts_of[machine] for machine in machines)
        there = chain.from_iterable(self._pods_on[machine] for machine in machines)
        pods = sorted(there, key=lambda pod: (pod.key, pod.from_ms))
        return self._whole._replace(
            fleet=Fleet(tuple(nodes), tuple(pod for pod in pods if pod.owner in owners)),
            others=tuple(pod for pod in pods if pod.owner not in owners),
            is_narrowed=True,
        )

    def _owners(self, scope: Scope) -> set[Workload]:
        """The workloads of a scope with names; comparing all of them is slow if there are many findings."""
        if self._named.keys() >= set(scope.workloads):
            named = chain.from_iterable(map(self._named.__getitem__, scope.workloads))
            return set(filter(replace(scope, workloads=()).fits, named))
        return set(filter(scope.fits, self._machines_of))

    def answer(self, question: WhatIfQuery) -> Answer:
        """The answer of the question's command. Raises GpucostError, for example without measurements or offers."""
        usage = self.usage(question.scope)
        match question.command:
            case "schedule":
                return self._schedule(usage, dict(question.options))
            case "spot":
                return spot.answer(SpotQuery(usage, self._market, self.config))
            case "share":
                return share.answer(usage, share.Sizing(), self._levels, self._facts)
            case "rightsize":
                limits = rightsize.Limits()
                return rightsize.answer(usage, limits, self._levels, self._facts, self._offers)
            case _:
                demand = stored_demand(self._on_offer, usage)
                return reserve.answer(demand, period=usage.period_name)

    def _schedule(self, usage: Usage, options: Mapping[str, str]) -> Answer:
        hours, minutes = options.get("--office-hours"), options.get("--idle-minutes")
        if minutes and not any(pod.key in self._idle_hour for pod in usage.fleet.pods):
            raise GpucostError("no GPU would be released")
        office = (
            schedule.office_spans(hours, options["--weekdays"], self.period, self.config.tz)
            if hours
            else None
        )
        rules = schedule.ScheduleRules(idle_minutes=float(minutes) if minutes else None, office=office)
        return schedule.answer(usage, rules, self._idle_hour, self._quiet)


def _machine(key: NodeKey) -> NodeKey:
    """The node that a part of its life belongs to."""
    cluster, name = key
    return cluster, name.partition("#")[0]


def findings(
    config: Config, store: Store, period: Period, show_progress: Callable[[str], None] = lambda _: None
) -> Findings:
    """Findings of the period of at least [findings] minimum_per_month, the largest saving first.

    `show_progress` gets the current step. Raises GpucostError for a period without usage.
    """
    show_progress("looking for waste")
    scenarios = _Scenarios(config, store, period)
    candidates, minimum = scenarios.candidates, config.findings.minimum_per_month
    # no what-if saves more than the workloads cost today
    worth = [candidate for candidate in candidates if candidate.cost > 0 and candidate.cost >= minimum / 12]
    questions = [question for candidate in worth for question in candidate.questions]
    answers: dict[WhatIfQuery, WhatIfResult] = {}
    for number, question in enumerate(questions, 1):
        show_progress(f"what-if {number:,} of {len(questions):,}")
        try:
            answer = scenarios.answer(question)
        except GpucostError:
            continue
        figures = answer.figures
        freed = figures.get("freed_capacity_cost", ZERO)
        needs_work = figures.get("saving_by_suitability", {}).get("needs_work", ZERO)
        answers[question] = WhatIfResult(answer.saving, freed, needs_work, answer.today.cost)
    months, words = _months(config, period, scenarios.collected_ms), period_words(period, config.tz)
    proposed = (answered(candidate, answers, months, minimum, words) for candidate in candidates)
    return Findings.of(*ranked(proposed, minimum), period, config.currency, minimum)


def _months(config: Config, period: Period, collected_ms: int) -> Decimal:
    """The collected time in months of 730 hours; a whole calendar month and less than seven days count as one month."""
    if collected_ms < _SHORTEST_MS or (
        is_month(period, config.tz) and collected_ms == period.end_ms - period.start_ms
    ):
        return Decimal(1)
    return Decimal(collected_ms) / MS_PER_HOUR / HOURS_PER_MONTH
