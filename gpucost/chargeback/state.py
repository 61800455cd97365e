"""Whether a month's figures are final, and what is missing of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.report.words import missing_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.reconcile import Reconciliation
    from gpucost.report.view import Coverage

_NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure", "focus": "FOCUS"}


@dataclass(frozen=True, slots=True)
class State:
    """`reasons` say why the figures are an estimate; `missing` is what a closed month lacks: data, or a bill."""

    is_over: bool
    reasons: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_final(self) -> bool:
        """Nothing will change them any more."""
        return not self.reasons

    @property
    def name(self) -> str:
        return "final" if self.is_final else "estimate"


def state_of(is_over: bool, coverage: Coverage, account: Reconciliation | None, expected: Iterable[str]) -> State:
    """The state of a month; `expected` are the bills that should be there and are not."""
    gaps = missing_text(coverage.gaps)
    bills = [f"the bill of {_NAMES.get(name, name)} is missing" for name in expected]
    reasons = [
        *([] if is_over else ["the month is not over"]),
        *([gaps] if gaps else []),
        *bills,
        *(["no bill was collected: prices are those of the price book, spot history and list"] if account is None else []),
        *(["the bill is not final yet"] if account and not account.is_final else []),
        *(["a part of the cost is on no bill"] if account and coverage.estimated_cost else []),
        *(account.problems if account else ()),
    ]
    missing = [*([gaps] if gaps else []), *bills] if is_over else []
    return State(is_over, tuple(reasons), tuple(missing))


def missing_bills(con: DuckDBPyConnection, config: Config, month: str) -> list[str]:
    """Bills of the billing period `month` that are configured, or that the month before had, and that are not there."""
    year, number = int(month[:4]), int(month[5:])
    before = f"{year - (number == 1)}-{(number + 10) % 12 + 1:02}"
    rows = con.execute(
        "SELECT DISTINCT provider, format LIKE '%focus%', billing_period FROM bills WHERE billing_period IN ($month, $before)",
        {"month": month, "before": before},
    ).fetchall()
    there = {provider for provider, _, period in rows if period == month}
    wanted = {provider for provider, _, period in rows if period == before}
    sources = {
        "aws": config.aws.exports,
        "gcp": config.gcp.exports or config.gcp.billing_table,
        "azure": config.azure.exports or config.azure.cost_scope,
    }
    wanted |= {name for name, configured in sources.items() if configured}
    if config.focus.exports and not any(is_focus for _, is_focus, period in rows if period == month):
        wanted.add("focus")
    return sorted(wanted - there)
