"""What `gpucost forecast` answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpucost.periods import Period
from gpucost.questions.budget.projection import Forecast, Level
from gpucost.questions.budget.scenarios import ScenarioRow
from gpucost.records import record
from gpucost.render.view import CoverageAnswer
from gpucost.shapes import Shape
from gpucost.whatif.answer import Assumption


@record
class ForecastRow(Shape):
    """A forecast, whose it is, and of which month: `2026-10`, or `2026-10/2026-12` for all of several."""

    level: Level
    team: str | None
    month: str
    forecast: Forecast

    FLAT = ("forecast",)


@record
class ForecastAnswer(Shape):
    """What `gpucost forecast` prints. `range` is how often the range holds what the month comes to.

    `scenarios` and the `assumptions` that they rest on are there with --months or --growth.
    """

    month: str
    period: Period
    currency: str
    method: str
    history_days: int
    chance: Annotated[float, Field(alias="range")]
    growth_percent: float | None
    rows: list[ForecastRow]
    scenarios: list[ScenarioRow]
    assumptions: list[Assumption]
    coverage: CoverageAnswer
