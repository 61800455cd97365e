"""Requests of what-ifs: usage in the store, or a fleet that options describe."""

import functools
from collections.abc import Callable, Collection
from datetime import date
from typing import Annotated, Any, TypeVar

from gpucost import pipeline
from gpucost.errors import UsageError
from gpucost.options import WHOSE, Names, Option, PeriodOptions, Selection, flag_of, options_in
from gpucost.periods import Period, name_of, previous_month
from gpucost.questions.request import Request
from gpucost.records import DuckDBPyConnection, mixin_dataclass
from gpucost.whatif.avoidable import Commitments
from gpucost.whatif.covered import read_covers
from gpucost.whatif.fleet import Scope, Usage, read_stored

T = TypeVar("T")


@mixin_dataclass
class PatternSelection(Selection):
    """A part of the fleet, down to workloads, whose names may be patterns."""

    workloads: Annotated[
        Names,
        Option(
            "Only this workload's usage; `*` is a wildcard; repeatable.",
            "KIND/NAME",
            flag="--workload",
            panel=WHOSE,
        ),
    ] = ()


@mixin_dataclass
class PlanRequest(PeriodOptions, Request):
    """What-ifs over groups of workloads that a plan names. The period is the named one, or the last complete local month."""

    @functools.cached_property
    def chosen(self) -> tuple[Period, str, str | None]:
        last_month = previous_month(self.now, self.tz)
        return *(self.named_period or (last_month, name_of(last_month, self.tz))), None

    @property
    def today(self) -> date:
        return self.now.astimezone(self.tz).date()

    @property
    def scope(self) -> Scope:
        """The part of the fleet: all of it."""
        return Scope()

    def flags(self, kind: type) -> list[str]:
        """The given options of one kind, as they are typed."""
        return [flag_of(name, how) for name, how in options_in(kind).items() if getattr(self, name)]

    @property
    def period_flags(self) -> list[str]:
        """The given options of the period, as they are typed."""
        return self.flags(PeriodOptions)

    def read(self, read: Callable[[DuckDBPyConnection], T]) -> T:
        """The result of `read` on the attributed store."""
        return pipeline.read_attributed(self.settings, self.store, read)

    @functools.cached_property
    def commitments(self) -> Commitments:
        """The commitments of the bill in the period, for any scope. Notes the gaps of the period once."""
        self.note_gaps(self.scope.clusters, self.period)
        return self.read(lambda con: read_covers(con, self.period, self.settings.currency))

    def usage(self, scope: Scope | None = None) -> Usage:
        """The store's usage of the period and of `scope` (default: the scope of the options).

        Raises UsageError for an invalid period, GpucostError for a scope without usage.
        """
        scope, period, name = scope or self.scope, self.period, self.period_name
        self.check_names(self.query())
        usage = self.read(lambda con: read_stored(con, period, scope, name))
        fleet = self.commitments.marked(usage.fleet)
        unpriced = [node for node in fleet.nodes if not node.is_priced]
        if unpriced:
            types = sorted({node.instance_type or "no known instance type" for node in unpriced})
            self.note(
                f"{len(unpriced):,} of {len(fleet.nodes):,} nodes ({', '.join(types)}) have no price for a part of the period"
                " and count as free in it: add a price book, or run gpucost collect prices"
            )
        return usage._replace(fleet=fleet, currency=self.settings.currency, commitments=self.commitments)


@mixin_dataclass
class WhatIfRequest(PatternSelection, PlanRequest):
    """A what-if about a part of the fleet, down to workloads, whose names may be patterns."""

    @property
    def scope(self) -> Scope:
        """The part of the fleet that the options name."""
        return Scope(self.teams, self.namespaces, self.workloads, self.clusters)

    def is_described(self, group: Any, *of_store: str, but: Collection[str] = ()) -> bool:
        """Whether options of the group, except for `but`, describe the fleet, so that no store is needed.

        `of_store` are given options for the store's usage, like those of a scope and of a period.
        Raises UsageError if both kinds are given.
        """
        described = flags_of(group, but)
        stored = [*self.flags(PatternSelection), *self.period_flags, *of_store]
        if described and stored:
            raise UsageError(
                f"{stored[0]} has no meaning with {described[0]}, which describes usage by options",
                f"leave out {' and '.join(stored)}",
            )
        return bool(described)


def flags_of(group: Any, but: Collection[str] = ()) -> list[str]:
    """The given options of a group, as they are typed, except for `but` and those whose help shows the default."""
    names = set(group.explicit_options) - set(but)
    options = options_in(type(group)).items()
    return [flag_of(name, how) for name, how in options if name in names and not how.is_shown]
