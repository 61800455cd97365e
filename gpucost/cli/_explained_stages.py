"""Which SQL files make a cost, in their order: what `gpucost explain team`, `namespace` and `workload` name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucost.report.explained import CostExplained

# What a file decides, and the file in the package; docs/attribution.md, docs/pricing.md and docs/cost-basis.md have the rules.
_HELD = (
    ("which pod has how many GPUs of which node, and when", "inventory/40_allocated.sql"),
    ("the same by stretches of one price", "attribute/20_holdings.sql"),
    ("when they were active, idle or unmeasured", "attribute/34_measures.sql"),
)
_DISCOUNTS = ("what discounts take off", "price/bill/14_discount_rates.sql")
_BILL = ("what the bill says of each machine and hour", "price/bill/30_billed_hours.sql")
_PRICE = ("what a node costs at each moment", "price/50_node_prices.sql")
_SPLIT = ("what of it is for GPUs, CPU and memory", "attribute/basis/30_node_splits.sql")
_GPUS = (
    ("each pod's share of what the node's GPUs cost", "attribute/50_shares.sql"),
    ("that share's cost", "attribute/51_amounts.sql"),
)
_HOST = (
    ("which cores and memory each pod pays for", "attribute/24_billed_requests.sql"),
    ("its share of what those of the node cost", "attribute/53_host_shares.sql"),
    ("that share's cost", "attribute/54_host_amounts.sql"),
)
_SUMS = (
    ("idle cost, and the team", "attribute/60_cell_costs.sql"),
    ("the sums of this period", "report/20_facts.sql"),
)


def stages(answer: CostExplained) -> tuple[tuple[str, str], ...]:
    """Those that had a part in it: bills where nodes are billed, cores and memory where the cost basis charges them."""
    machines = [machine for node in answer.nodes for machine in node.bill]
    bill = (*((_DISCOUNTS,) if any(machine.discount_cost for machine in machines) else ()), _BILL) if machines else ()
    is_split = answer.cost_basis != "node"
    return (*_HELD, *bill, _PRICE, *((_SPLIT,) if is_split else ()), *_GPUS, *(_HOST if is_split else ()), *_SUMS)
