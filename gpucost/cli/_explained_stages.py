"""Which SQL files make a team's cost, in their order: what `gpucost explain team`, `namespace` and `workload` name."""

from __future__ import annotations

# What a file decides, and the file in the package; docs/attribution.md and docs/pricing.md have the rules.
STAGES = (
    ("which pod held which GPUs, and when", "attribute/20_holdings.sql"),
    ("when they were active, idle or unmeasured", "attribute/34_measures.sql"),
    ("what a node costs at each moment", "price/50_node_prices.sql"),
    ("each pod's share of its node", "attribute/50_shares.sql"),
    ("that share's cost", "attribute/51_amounts.sql"),
    ("idle cost, and the team", "attribute/60_cell_costs.sql"),
    ("the sums of this period", "report/20_facts.sql"),
)
