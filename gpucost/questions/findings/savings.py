"""What findings would save, as the commands that show it say, all on one reading of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, is_month, iso, name_of
from gpucost.questions.findings.kinds import (
    Candidate,
    Candidates,
    Findings,
    WhatIfQuery,
    WhatIfResult,
    is_fitting,
    ranked,
)
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import ZERO
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.waste.anatomy import prepare
from gpucost.questions.whatif.commitments import StoredCommitments, stored_demand
from gpucost.questions.whatif.prices import list_prices
from gpucost.records import grouped
from gpucost.whatif import reserve, rightsize, schedule, share
from gpucost.whatif.answer import Answer
from gpucost.whatif.avoidable import Commitments
from gpucost.whatif.covered import read_collected, read_covers
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import (
    Fleet,
    Idle,
    Levels,
    Node,
    NodeKey,
    Scope,
    Usage,
    idle_stretches,
    levels,
    read_stored,
)
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.spot import answer as spot
from gpucost.whatif.spot import moves
from gpucost.whatif.spot.market import Market, read_market

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.store.connection import Store

# Less is not extrapolated to a month.
_SHORTEST_MS = 7 * MS_PER_DAY


class _Scenarios:
    """The what-ifs as their commands put them with the options of a question, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period, measured: Levels) -> None:
        self.config, self.period, self.store, self._levels = config, period, store, measured
        self._on_offer, self._facts = StoredCommitments(config, store, period), load_facts()

        def read(con: DuckDBPyConnection) -> tuple[Fleet, Idle, schedule.Quiet, Commitments]:
            return (
                read_stored(con, period, Scope()).fleet,
                idle_stretches(con, config.activity, period, MS_PER_HOUR),
                quiet_hours(con, period),
                read_covers(con, period, config.currency),
            )

        fleet, self._idle_hour, self._quiet, commitments = pipeline.read_attributed(config, store, read)
        self.fleet = commitments.marked(fleet)
        name = name_of(period, config.tz)
        self._whole = Usage(self.fleet, config.currency, name, "", commitments=commitments)
        # positions in the fleet of pods by workload and by machine, and of the parts of a machine's life
        pods, nodes = list(enumerate(self.fleet.pods)), enumerate(self.fleet.nodes)
        self._pods_of = grouped((pod.owner, at) for at, pod in pods)
        self._pods_on = grouped((_machine(pod.place), at) for at, pod in pods)
        self._parts_of = grouped((_machine(node.key), at) for at, node in nodes)

    @cached_property
    def _market(self) -> Market:
        with self.store.read() as con:
            return read_market(con, self.config, self.period)

    @cached_property
    def _offers(self) -> dict[tuple[str | None, str | None], list[Node]]:
        """List prices by provider and region."""
        with list_prices(self.config) as listed:
            offers = rightsize.offers_near(listed, self.fleet.nodes)
        return grouped(((offer.provider, offer.region), offer) for offer in offers)

    def usage(self, question: WhatIfQuery) -> Usage:
        """The pods that the question is about, other pods on their nodes; of a cluster alone all of its nodes."""
        if not question.workloads:
            return self._whole._replace(
                fleet=self.fleet.only(lambda node: question.cluster in (None, node.cluster))
            )
        nodes, pods = self.fleet.nodes, self.fleet.pods
        meant: set[int] = set()
        for (cluster, namespace, workload), positions in self._pods_of.items():
            if (
                question.cluster in (None, cluster)
                and question.namespace in (None, namespace)
                and any(is_fitting(workload, glob) for glob in question.workloads)
            ):
                meant.update(positions)
        machines = {_machine(pods[at].place) for at in meant}
        held = sorted(chain.from_iterable(self._parts_of[machine] for machine in machines))
        there = set(chain.from_iterable(self._pods_on[machine] for machine in machines))
        return self._whole._replace(
            fleet=Fleet(tuple(nodes[at] for at in held), tuple(pods[at] for at in sorted(meant))),
            others=tuple(pods[at] for at in sorted(there - meant)),
            is_narrowed=True,
        )

    def schedule(self, question: WhatIfQuery) -> Answer:
        options = dict(question.options)
        hours, minutes = options.get("--office-hours"), options.get("--idle-minutes")
        days, tz = options.get("--weekdays") or "", self.config.tz
        rules = schedule.Rules(
            idle_minutes=float(minutes) if minutes else None,
            office=schedule.office_spans(hours, days, self.period, tz) if hours else None,
        )
        idle = self._idle_hour if minutes else {}
        return schedule.answer(self.usage(question), rules, idle, self._quiet)

    def spot(self, question: WhatIfQuery) -> Answer:
        interruptible, days = self.config.spot.interruptible, self.config.prices.stale_after_days
        query = moves.SpotQuery(
            self.usage(question), self._market, interruptible=interruptible, stale_after_days=days
        )
        return spot.answer(moves.SpotOptions(), query)

    def share(self, question: WhatIfQuery) -> Answer:
        return share.answer(self.usage(question), share.Sizing(), self._levels, self._facts)

    def rightsize(self, question: WhatIfQuery) -> Answer:
        usage = self.usage(question)
        places = dict.fromkeys((node.provider, node.region) for node in usage.fleet.nodes)
        offers = [offer for place in places for offer in self._offers.get(place, ())]
        return rightsize.answer(usage, rightsize.Limits(), self._levels, self._facts, offers)

    def reserve(self, question: WhatIfQuery) -> Answer:
        return reserve.answer(
            stored_demand(self._on_offer, self.usage(question)),
            period=self._whole.period_name,
            bought_on=datetime.now(self.config.tz).date(),
            stale_after_days=self.config.prices.stale_after_days,
        )


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
    candidates, measured = _candidates(config, store, period)
    scenarios = _Scenarios(config, store, period, measured)
    minimum = config.findings.minimum_per_month
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


def _candidates(config: Config, store: Store, period: Period) -> tuple[list[Candidate], Levels]:
    """Where money may be saved in `period`, with the what-ifs that say how much; and how busy pods were."""

    def built(con: DuckDBPyConnection) -> tuple[list[Candidate], Levels]:
        prepare(con, config, Query(period, name_of(period, config.tz)))
        measured = levels(con, config.activity, period)
        return list(Candidates(con, config, period).all()), measured

    return pipeline.read_attributed(config, store, built, period)


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
