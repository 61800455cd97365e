"""Costs day by day: what a month will come to, what it may come to, and the days that break their pattern."""

from gpucost.budget.anomalies import Anomaly, Part, anomalies
from gpucost.budget.check import BudgetState, TargetState, check
from gpucost.budget.days import HISTORY_DAYS, Days, Series, days_of
from gpucost.budget.forecast import Forecast, forecast

__all__ = [
    "HISTORY_DAYS",
    "Anomaly",
    "BudgetState",
    "Days",
    "Forecast",
    "Part",
    "Series",
    "TargetState",
    "anomalies",
    "check",
    "days_of",
    "forecast",
]
