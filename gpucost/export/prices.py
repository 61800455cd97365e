"""What nodes cost an hour, for rules that cannot ask a store: its last prices, else the catalog's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine.local import answer_rows
from gpucost.price import load_offers

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config


@dataclass(frozen=True, slots=True)
class RulePrice:
    """The price of a whole node an hour: by instance type and capacity type, or by `node`, its name, where it has no type.

    `region` None: wherever it is.
    """

    per_hour: Decimal
    instance_type: str | None = None
    region: str | None = None
    capacity_type: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class RulePrices:
    """All prices of a set of rules, and in words where they are from."""

    prices: tuple[RulePrice, ...]
    source: str

    @property
    def by_region(self) -> bool:
        """Whether the prices hold for one region each."""
        return any(price.region is not None for price in self.prices)


def stored_prices(con: DuckDBPyConnection) -> RulePrices | None:
    """The prices that the nodes in the store had last, in the report's currency; None where no node has one."""
    found = _prices(answer_rows(con, __package__, "current_prices"))
    return RulePrices(found, "what the nodes in the store cost last") if found else None


def listed_prices(con: DuckDBPyConnection, config: Config) -> RulePrices:
    """Today's list prices by capacity type, in the middle over regions."""
    load_offers(con, config)
    found = _prices(answer_rows(con, __package__, "catalog_prices"))
    return RulePrices(found, "list prices of the catalog, the median over regions: nothing is collected yet")


def _prices(rows: list[dict[str, object]]) -> tuple[RulePrice, ...]:
    return tuple(
        RulePrice(
            Decimal(str(row["price_per_hour"])).normalize(),
            *(None if row[key] is None else str(row[key]) for key in ("instance_type", "region", "capacity_type", "node")),
        )
        for row in rows
    )
