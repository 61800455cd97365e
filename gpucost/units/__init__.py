"""Cost per unit of work: what workloads cost (cost_hourly) over what they did (progress_*). docs/units.md has the formulas."""

from gpucost.units.ask import UnitAsk
from gpucost.units.epochs import epochs
from gpucost.units.experiments import experiments
from gpucost.units.known import known
from gpucost.units.serving import requests, tokens
from gpucost.units.view import UnitView

__all__ = ["UnitAsk", "UnitView", "epochs", "experiments", "known", "requests", "tokens"]
