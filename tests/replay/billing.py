"""A cloud's charges for a fleet's machines by hour; bill_files.py writes them as exports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.replay.fleet import Fleet
from tests.replay.kube import PROVIDERS, provider_id

HOUR, DAY = 3600, 86_400

#: Purchase option and price per hour of a node's hour, given by its first second; None: not billed (yet).
Rate = Callable[[dict[str, Any], int], tuple[str, Decimal] | None]


@dataclass(frozen=True)
class Charge:
    """The cost of a machine in the charge period [start, start + length), in which it ran for `seconds`.

    `option` is on_demand, spot, savings_plan or reservation; `cost` is the effective cost, `list_cost` the on-demand cost.
    """

    node: dict[str, Any]
    start: int
    seconds: int
    cost: Decimal
    list_cost: Decimal
    option: str
    length: int = HOUR

    @property
    def provider(self) -> str:
        return PROVIDERS[self.node["provider"]]

    @property
    def machine(self) -> str:
        """Return the machine's name in Kubernetes."""
        return provider_id(self.node)

    @property
    def instance_id(self) -> str:
        return self.machine.rpartition("/")[2]

    @property
    def hours(self) -> Fraction:
        return Fraction(self.seconds, HOUR)

    @property
    def is_covered(self) -> bool:
        return self.option in ("savings_plan", "reservation")

    @property
    def kind(self) -> tuple[Any, ...]:
        """Return the key shared by machines that share commitments in this charge period."""
        node, capacity = self.node, "spot" if self.option == "spot" else "on_demand"
        return self.provider, node["region"], node["instance_type"], capacity, self.start, self.length


def charges(fleet: Fleet, rate: Rate, booting: int = 0) -> Iterator[Charge]:
    """Yield the hours of a fleet's machines, billed by the second; `booting`: seconds of runtime before it was a node."""
    for node in fleet["nodes"]:
        began, ended = node.get("created", node["from"]) - booting, node["to"]
        for hour in range(began - began % HOUR, ended, HOUR):
            billed = rate(node, hour)
            if billed is not None:
                option, price = billed
                seconds = min(ended, hour + HOUR) - max(began, hour)
                cost = _money(price * seconds / HOUR)
                yield Charge(
                    node, hour, seconds, cost, _money(cost * (2 if option != "on_demand" else 1)), option
                )


def by_day(hours: Iterable[Charge]) -> list[Charge]:
    """Return the same cost by UTC day, as Azure exports it."""
    days = defaultdict(list)
    for charge in hours:
        days[charge.machine, charge.option, charge.start // DAY].append(charge)
    found = []
    for first, *others in days.values():
        sums = {
            name: sum((getattr(one, name) for one in others), getattr(first, name))
            for name in ("seconds", "cost", "list_cost")
        }
        found.append(replace(first, start=first.start // DAY * DAY, length=DAY, **sums))
    return found


def _money(value: Decimal) -> Decimal:
    return value.quantize(Decimal("1e-10"))
