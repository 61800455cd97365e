"""What findings would save, as the commands that show it say, all on one reading of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, is_month, iso, name_of
from gpucost.questions.findings.kinds import Findings, Names, WhatIfQuery, WhatIfResult, ranked
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.whatif.prices import list_prices
from gpucost.records import grouped
from gpucost.whatif import rightsize, schedule, share
from gpucost.whatif.answer import Answer
from gpucost.whatif.avoidable import Commitments
from gpucost.whatif.covered import read_collected, read_covers
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import (
    NOTEBOOKS,
    Fleet,
    Idle,
    Levels,
    NodeKey,
    Pod,
    Scope,
    Usage,
    idle_stretches,
    levels,
    read_stored,
)
from gpucost.whatif.gpu_specs import Facts, load_facts
from gpucost.whatif.spot import answer as spot
from gpucost.whatif.spot import moves
from gpucost.whatif.spot.market import Market, read_market

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.questions.findings.kinds import Candidate
    from gpucost.store.connection import Store

WhatIf = Callable[[WhatIfQuery], Answer]
Commit = Callable[[Usage], Answer]
# Less is not extrapolated to a month.
_SHORTEST_MS = 7 * MS_PER_DAY
Place = tuple[str | None, str | None]  # provider and region


class _Scenarios:
    """The what-ifs as their commands put them with the options of a question, on usage that is read once."""

    def __init__(self, config: Config, store: Store, period: Period, measured: Levels) -> None:
        self.config, self.period, self.store, self._levels = config, period, store, measured
        self.period_name = name_of(period, config.tz)

        def read(con: DuckDBPyConnection) -> tuple[Fleet, Idle, schedule.Quiet, Commitments]:
            fleet, idle = (
                read_stored(con, period, Scope()).fleet,
                idle_stretches(con, config.activity, period, MS_PER_HOUR),
            )
            return fleet, idle, quiet_hours(con, period), read_covers(con, period, config.currency)

        fleet, self._idle_hour, self._quiet, self.commitments = pipeline.read_attributed(config, store, read)
        self.fleet = self.commitments.marked(fleet)

    @cached_property
    def _facts(self) -> Facts:
        return load_facts()

    @cached_property
    def _market(self) -> Market:
        with self.store.read() as con:
            return read_market(con, self.config, self.period)

    @cached_property
    def _offers(self) -> dict[Place, list[rightsize.Offer]]:
        """List prices by place."""
        options = tuple(rightsize.PURCHASE.values())
        with list_prices(self.config) as listed:
            offers = rightsize.list_offers(listed(None, purchase_options=options))
        return grouped(((offer.provider, offer.region), offer) for offer in offers)

    def usage(self, question: WhatIfQuery, *, is_narrowed: bool = True) -> Usage:
        """The pods that the question is about, other pods on their nodes; of a cluster alone all of its nodes."""
        fleet, others = self._narrowed(question)
        return Usage(
            fleet,
            self.config.currency,
            self.period_name,
            "",
            is_narrowed,
            others=others,
            commitments=self.commitments,
        )

    def _narrowed(self, question: WhatIfQuery) -> tuple[Fleet, tuple[Pod, ...]]:
        if not question.workloads:
            return self.fleet.only(lambda node: question.cluster in (None, node.cluster)), ()
        meant: dict[int, Pod] = {}
        for place, (names, pods_of) in self._pods.items():
            if question.cluster in (None, place[0]) and question.namespace in (None, place[1]):
                fitting = {name for glob in question.workloads for name in names.fitting(glob)}
                meant |= {position: pod for name in fitting for position, pod in pods_of[name]}
        pods = tuple(pod for _, pod in sorted(meant.items()))
        held = {(pod.cluster, pod.node.partition("#")[0]) for pod in pods}
        nodes = sorted(position for key in held for position in self._nodes[key])
        on_them = sorted(position for key in held for position in self._pods_on[key] if position not in meant)
        others = tuple(self.fleet.pods[position] for position in on_them)
        return Fleet(tuple(self.fleet.nodes[position] for position in nodes), pods), others

    @cached_property
    def _pods_on(self) -> dict[NodeKey, list[int]]:
        """Positions of pods in the fleet, by cluster and name of their node."""
        return grouped(
            ((pod.cluster, pod.node.partition("#")[0]), position)
            for position, pod in enumerate(self.fleet.pods)
        )

    @cached_property
    def _pods(self) -> dict[tuple[str, str], tuple[Names, dict[str, list[tuple[int, Pod]]]]]:
        """By cluster and namespace, the names of workloads, and the pods of each with their positions in the fleet."""
        found: dict[tuple[str, str], dict[str, list[tuple[int, Pod]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for position, pod in enumerate(self.fleet.pods):
            found[pod.cluster, pod.namespace][pod.workload].append((position, pod))
        return {place: (Names(pods), pods) for place, pods in found.items()}

    @cached_property
    def _nodes(self) -> dict[NodeKey, list[int]]:
        """Positions in the fleet of a node and its parts, by cluster and name."""
        return grouped(
            ((node.cluster, node.name.partition("#")[0]), position)
            for position, node in enumerate(self.fleet.nodes)
        )

    def schedule(self, question: WhatIfQuery) -> Answer:
        given = {name: value or "" for name, value in question.options}
        office = (
            schedule.OfficeHours.parse(given["--office-hours"], given["--weekdays"])
            if "--office-hours" in given
            else None
        )
        rules = schedule.Rules(
            idle_minutes=float(given["--idle-minutes"]) if "--idle-minutes" in given else None,
            notebooks=(given["--notebook"],) if "--notebook" in given else NOTEBOOKS,
            office=tuple(office.spans(self.period, self.config.tz)) if office else None,
        )
        idle = self._idle_hour if rules.idle_minutes else {}
        usage = self.usage(question, is_narrowed=bool(question.workloads))
        then, before = schedule.played(usage, rules, idle, self._quiet)
        return schedule.answer(usage, rules, then, idle, before)

    def spot(self, question: WhatIfQuery) -> Answer:
        interruptible, days = self.config.spot.interruptible, self.config.prices.stale_after_days
        query = moves.SpotQuery(
            self.usage(question), self._market, interruptible=interruptible, stale_after_days=days
        )
        return spot.answer(moves.SpotOptions(), query)

    def share(self, question: WhatIfQuery) -> Answer:
        return share.answer(self.usage(question), share.Sizing(), self._levels, self._facts)

    def rightsize(self, question: WhatIfQuery) -> Answer:
        facts, usage = self._facts, self.usage(question)
        places = dict.fromkeys((node.provider, node.region) for node in usage.fleet.nodes)
        offers = [offer for place in places for offer in self._offers.get(place, ())]
        return rightsize.answer(
            usage, rightsize.Margins(), self._levels, facts, rightsize.catalog_speeds(facts), offers
        )


def findings(
    config: Config,
    store: Store,
    period: Period,
    commit: Commit | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Findings:
    """What to do about the waste of the period, the dearest first, nothing under [findings] minimum_per_month.

    `commit` asks `whatif reserve` about some usage; without it nothing is said of commitments; `tell` is called with what is
    being done. Raises GpucostError where nothing was used in the period.
    """

    tell("looking for waste")
    candidates, measured = _candidates(config, store, period)
    scenarios = _Scenarios(config, store, period, measured)
    minimum = config.findings.minimum_per_month
    # no what-if saves more than what the workloads cost today
    worth = (one for one in candidates if one.finding.cost > 0 and one.finding.cost >= minimum / 12)
    questions = dict.fromkeys(question for one in worth for question in one.questions)
    what_ifs: dict[str, WhatIf | None] = {
        "schedule": scenarios.schedule,
        "spot": scenarios.spot,
        "share": scenarios.share,
        "rightsize": scenarios.rightsize,
        "reserve": (lambda question: commit(scenarios.usage(question))) if commit else None,
    }
    tell(f"asking {len(questions):,} what-ifs")
    answers: dict[WhatIfQuery, WhatIfResult] = {}
    for question in questions:
        if not (what_if := what_ifs[question.command]):
            continue
        try:
            answer = what_if(question)
        except GpucostError:
            continue  # nothing was measured, for example, or nothing is on offer
        needs_work = answer.figures.get("saving_by_suitability", {}).get("needs_work", Decimal(0))
        freed = answer.figures.get("freed_capacity_cost", Decimal(0))
        answers[question] = WhatIfResult(question, answer.today.cost, answer.saving, needs_work, freed)
    months = _months(config, store, period, scenarios.fleet)
    return ranked(candidates, answers, months=months, minimum=minimum, period=period_words(config, period))


def _candidates(config: Config, store: Store, period: Period) -> tuple[list[Candidate], Levels]:
    """Where money may be saved in `period`, with the what-ifs that say how much; and how busy pods were."""
    from gpucost.questions.findings.kinds import candidates as found
    from gpucost.questions.report.query import Query
    from gpucost.questions.waste.anatomy import prepare

    def built(con: DuckDBPyConnection) -> tuple[list[Candidate], Levels]:
        prepare(con, config, Query(period, name_of(period, config.tz)))
        measured = levels(con, config.activity, period)
        return found(con, config, period), measured

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
