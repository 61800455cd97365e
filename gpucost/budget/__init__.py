"""Costs day by day: what a month will come to, what it may come to, and the days that break their pattern."""

from gpucost.budget.anomalies import Anomaly, anomalies
from gpucost.budget.check import BudgetState, TargetState, check
from gpucost.budget.days import BASELINE_DAYS, HISTORY_DAYS, Days, Series, days_of
from gpucost.budget.forecast import Forecast, forecast

__all__ = [
    "BASELINE_DAYS",
    "HISTORY_DAYS",
    "Anomaly",
    "BudgetState",
    "Days",
    "Forecast",
    "Series",
    "TargetState",
    "anomalies",
    "check",
    "days_of",
    "forecast",
]
