"""Many what-ifs at the price of few: the fleets that they ask for are costed by one run of the attribution stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.costing import costs_of
from gpucost.errors import GpucostError
from gpucost.findings import Question
from gpucost.whatif.fleet import Costs, Fleet

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.savings.asking import Ask
    from gpucost.whatif.answer import Answer

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
