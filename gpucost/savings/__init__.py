"""What findings would save, as the commands that show it say: all questions on one reading of the store, costed together."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost import pipeline
from gpucost.findings import Answered, Candidate, Findings, ranked
from gpucost.model import MS_PER_HOUR, iso
from gpucost.savings.answering import answered
from gpucost.savings.asking import Ask, Askers, Commit
from gpucost.timeline import is_month
from gpucost.whatif.fleet import HOURS_PER_MONTH, Fleet

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.store import Store

__all__ = ["Ask", "Commit", "findings", "period_words"]


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
