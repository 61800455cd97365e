"""Questions of findings, put to what-ifs as their commands put them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.findings import Question
from gpucost.model import MS_PER_HOUR
from gpucost.timeline import name_of
from gpucost.whatif.fleet import CostOf, Fleet
from gpucost.whatif.measured import idle_stretches, levels
from gpucost.whatif.usage import Scope, read_fleet

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.store import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.facts import Facts
    from gpucost.whatif.measured import Idle, Levels
    from gpucost.whatif.rightsize.offers import Offer

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
        from gpucost.whatif.measured import NOTEBOOKS
        from gpucost.whatif.schedule import stored
        from gpucost.whatif.schedule.hours import OfficeHours
        from gpucost.whatif.schedule.rules import Rules

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
        options = stored.Options(rules, self.config.currency, self._period_name, "", bool(question.workloads))
        fleet = self._narrowed(question)
        return lambda cost_of: stored.answer(options, fleet, idle, cost_of)

    def _spot(self, question: Question) -> Ask:
        from gpucost.price import load_offers
        from gpucost.whatif.spot import stored
        from gpucost.whatif.spot.market import read_market, typical_rate
        from gpucost.whatif.spot.moving import Question as Asked
        from gpucost.whatif.spot.options import Options

        fleet = self._narrowed(question)
        types = {node.instance_type for node in fleet.nodes if node.instance_type}
        with self.store.read() as con:
            load_offers(con, self.config)
            market = read_market(con, types, self.config.currency, self.config.prices.stale_after_days, self.period)
            typical = typical_rate(con)
        asked = Asked(fleet, self._period_name, "", is_narrowed=True, market=market, typical=typical)
        return lambda cost_of: stored.answer(Options(), asked, cost_of)

    def _share(self, question: Question) -> Ask:
        from gpucost.whatif.share import stored
        from gpucost.whatif.share.methods import Sizing

        options = stored.Options(Sizing(), self.config.currency, self._period_name, "")
        fleet, facts = self._narrowed(question), self._offered[0]
        return lambda cost_of: stored.answer(options, fleet, self._levels, facts, cost_of)

    def _rightsize(self, question: Question) -> Ask:
        from gpucost.whatif.rightsize import stored
        from gpucost.whatif.rightsize.sizing import Margins
        from gpucost.whatif.rightsize.speeds import catalog_speeds

        facts, offers = self._offered
        stale = (self.period.end - timedelta(days=self.config.prices.stale_after_days)).date().isoformat()
        same = "--same-model" in dict(question.options)
        options = stored.Options(self.config.currency, self._period_name, "", Margins(), same, stale)
        fleet, speeds = self._narrowed(question), catalog_speeds(facts)
        return lambda cost_of: stored.answer(options, fleet, self._levels, facts, speeds, offers, cost_of)

    @cached_property
    def _offered(self) -> tuple[Facts, list[Offer]]:
        from gpucost.price import load_offers
        from gpucost.whatif.facts import load_facts
        from gpucost.whatif.rightsize.offers import list_offers

        with self.store.read() as con:
            load_offers(con, self.config)
            return load_facts(con), list_offers(con)

    @property
    def _period_name(self) -> str:
        return name_of(self.period, self.config.tz)


def _unanswered(_: CostOf) -> Answer:
    raise GpucostError("nothing is known of commitments")
