"""Days that broke their own pattern, and the workloads behind them."""

from decimal import Decimal
from typing import Annotated

from gpucost.options import Option
from gpucost.periods import local_days
from gpucost.questions.budget.days import LEVELS, RECENT_DAYS, chosen_month, costs_by_day, known_days
from gpucost.questions.budget.patterns import AnomaliesAnswer, AnomalyRow, anomalies as unusual
from gpucost.questions.request import PeriodRequest
from gpucost.render.schema import columns_of, table as as_table
from gpucost.render.view import Document, Table, figure, money, text

_NOTE = (
    "A workload's difference is also in its team's and the fleet's: levels do not add up. A workload has no "
    "pattern in its first two weeks."
)


def anomalies(
    request: PeriodRequest,
    least: Annotated[
        float,
        Option(
            "Minimum difference from the expected cost.", "MONEY", flag="--min-cost", is_shown=True, least=0
        ),
    ] = 50.0,
) -> Document:
    """Show days with unusual cost of the fleet, a team or a workload, and the main workload.

    The expected cost is the level of the previous two weeks times the weekday's factor; deviations over 3.5 robust standard
    deviations are shown (docs/budgets.md). Low costs are shown for the fleet, for teams and for long-running workloads: metrics
    may be missing, or a workload died. Default period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost anomalies
      gpucost anomalies --last 4w --min-cost 500 --format json
    """
    settings = request.settings
    period, name = request.named_period or chosen_month(request)
    by = ("team", "cluster", "namespace", "workload", "day")
    view, days = costs_by_day(request, period, by, RECENT_DAYS)
    wanted = tuple(local_days(period, request.tz))
    found = unusual(days, wanted, Decimal(repr(least)), settings.currency)
    columns = (
        text(lambda row: f"{row.day:%a} {row.day}", "Day"),
        text(lambda row: row.series.workload or row.series.team or LEVELS[row.series.level], "Whose"),
        text(
            lambda row: "/".join(filter(None, (row.series.cluster, row.series.namespace))), "Where", weight=1
        ),
        money("cost"),
        money("expected_cost", "Expected"),
        money("excess_cost", "Difference"),
        text("main_workload", "Mostly due to", weight=2),
        figure(lambda row: f"{row.score:+,.1f}", "Deviations", weight=3),
    )
    return Document(
        title=f"Anomalies: {name}",
        subtitle=known_days(days, wanted),
        currency=settings.currency,
        sections=(Table.of("Unusual days", found, columns, note=_NOTE if found else None),),
        coverage=view.coverage,
        name="anomalies",
        data=AnomaliesAnswer(period, settings.currency, least, found, view.coverage),
        flat=as_table(found, columns_of(AnomalyRow)),
    )
