"""Rules of single SQL stages of bills and prices, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import rule_test

# A machine is billed for half of an hour that was bridged.
HALF_BILLED = """\
coverage_gaps: cluster, from_ms, to_ms, kind
'c', 0, 1h, 'bridged'

covered_hours: cluster VARCHAR, hour BIGINT
'c', 0

nodes: node_id, cluster, up_from_ms, up_to_ms
1, 'c', 0, 3h

billed_nodes: instance_key, node_id, is_scale_set
'i-1', 1, false

billed_hours: instance_key, from_ms, to_ms, instance_hours
'i-1', 0, 1h, 0.5

collected: cluster, from_ms, to_ms
'c', 0, 3h

"""

test_rule = rule_test(
    """
= a row covered by two commitments has a share of both fees
collect/bill/gcp_2_shares

catalog_instances: provider VARCHAR, instance_type VARCHAR, gpu_model VARCHAR, gpu_count DOUBLE, vcpus DOUBLE, \
memory_gib DOUBLE

gcp_rows: row_id INT, kind VARCHAR, sku VARCHAR, cost DECIMAL(38, 12), resource_cud DECIMAL(38, 12), \
spend_cud DECIMAL(38, 12), spend_cud_words VARCHAR, pricing_amount DOUBLE, pricing_unit VARCHAR, region VARCHAR, \
component VARCHAR, family VARCHAR, service VARCHAR, billing_account_id VARCHAR, currency VARCHAR, \
start_at TIMESTAMP, end_at TIMESTAMP, usage_credits DECIMAL(38, 12), has_offset BOOLEAN, instance_key VARCHAR, \
amount DOUBLE, unit VARCHAR, cores DOUBLE, memory_gib DOUBLE, machine_type VARCHAR
1, 'commitment_fee', 'Commitment v1: Cpu', 4, 0, 0, NULL, 1, 'hour', 'r', 'core', 'n1', 'Compute Engine', 'a', \
'USD', '2026-10-01 00:00', '2026-10-01 01:00', 0, false, NULL, NULL, NULL, NULL, NULL, NULL
2, 'commitment_fee', 'Commitment - dollar based v1: GCE', 3, 0, 0, NULL, NULL, NULL, 'r', 'core', 'n1', \
'Compute Engine', 'a', 'USD', '2026-10-01 00:00', '2026-10-01 01:00', 0, false, NULL, NULL, NULL, NULL, NULL, NULL
3, 'instance', 'Core', 10, -5, -5, 'compute flexible', 2, 'hour', 'r', 'core', 'n1', 'Compute Engine', 'a', 'USD', \
'2026-10-01 00:00', '2026-10-01 01:00', 0, false, NULL, NULL, NULL, NULL, NULL, NULL
4, 'instance', 'Core', 10, 0, -5, 'compute flexible', 2, 'hour', 'r', 'core', 'n1', 'Compute Engine', 'a', 'USD', \
'2026-10-01 00:00', '2026-10-01 01:00', 0, false, NULL, NULL, NULL, NULL, NULL, NULL
->
SELECT row_id, is_fee, share FROM gcp_fees ORDER BY row_id
1 | True | 0
2 | True | 0
3 | False | 5.5
4 | False | 1.5

= an unbilled node next to a gap counts as present in it
price/bill/60_unbilled_time

coverage_gaps: cluster, from_ms, to_ms, kind, families, reason
'c', 1h, 2h, 'not_collected', [], 'not requested'
'c', 3h, 4h, 'not_collected', [], 'not requested'

collected: cluster, from_ms, to_ms
'c', 0, 1h
'c', 2h, 3h
'c', 4h, 6h

billed_nodes: instance_key, node_id
'i-1', 1

nodes: node_id, cluster, up_from_ms, up_to_ms
1, 'c', 0, 1800000
2, 'c', 4h, 6h

billed_hours: provider, account, instance_key, from_ms, to_ms, instance_hours
'aws', 'a', 'i-1', 0, 1h, 1

billed_accounts: provider VARCHAR, account VARCHAR, cluster VARCHAR
'aws', 'a', 'c'

covered_hours: cluster VARCHAR, hour BIGINT
'c', 1
'c', 3
->
SELECT from_ms, to_ms, kind, reason FROM coverage_gaps ORDER BY from_ms
3600000 | 7200000 | off | none of its machines was billed
10800000 | 14400000 | not_collected | not requested

= discounts of an hour are spread over all hours of a pool
price/bill/70_discount_step
params {"node_id": 1, "at_ms": 0}

billed_hours: instance_key, from_ms, to_ms, currency, effective_cost, discount_cost, discount_rates, \
instance_hours, pool, price_per_hour
'i-1', 0, 1h, 'USD', 7, -1, [7], 1, 5, 6
'i-2', 0, 1h, 'USD', 5, -3, [7], 1, 5, 6

billed_nodes: instance_key, node_id
'i-1', 1

discount_rates: rate_id, rows, first_rows
7, 2, ['f:1', 'f:2']
->
per_hour gross_per_hour currency rows first_rows
-2 | 8 | USD | 2 | ['f:1', 'f:2']

= a node that booted in the gap was off before: at its end
price/bill/65_node_stops

<half_billed>
node_stops: node_id, from_ms, to_ms, reason
1, 3599990, 1h, 'boot'
->
SELECT from_ms, to_ms, reason FROM node_stops
0 | 1800000 | bill

= a node that booted in the gap was off before: after it
price/bill/65_node_stops

<half_billed>
node_stops: node_id, from_ms, to_ms, reason
1, 3599990, 3600001, 'boot'
->
SELECT from_ms, to_ms, reason FROM node_stops
1800000 | 3600000 | bill

= a warning about hours without cost spans all of them
price/bill/40_billed_warnings

billed_hours: provider, billing_period, instance_key, instance_type, from_ms, to_ms, instance_hours, is_unexplained
'aws', '2026-10', 'i-1', 'p5', 0, 1h, 1, true
'aws', '2026-10', 'i-1', 'p5', 1h, 2h, 1, true
'aws', '2026-10', 'i-1', 'p5', 2h, 3h, 1, false

billed_nodes: instance_key, node_id
'i-1', 1

nodes: node_id, cluster
1, 'c'

warnings: code
->
SELECT code, cluster, subject, from_ms, to_ms FROM warnings
unexplained_zero | c | p5 | 0 | 7200000

= a median of zones is as old as the oldest of its prices
price/40_price_candidates
after price/vocabulary

priced_nodes: node_id INT, seller VARCHAR, region VARCHAR, zone VARCHAR, zone_id VARCHAR, instance_type VARCHAR, \
capacity_type VARCHAR, instance_id VARCHAR, machine_share DOUBLE, up_from_ms BIGINT, up_to_ms BIGINT, \
billed_to_ms BIGINT, is_moved BOOLEAN
1, 'aws', 'r', NULL, NULL, 'p5', 'spot', NULL, 0.5, 10, 90, 90, false

spot_steps: provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, \
instance_id VARCHAR, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 12), currency VARCHAR, \
price_as_of DATE, origin VARCHAR
'aws', 'r', 'ra', 'p5', NULL, 0, 100, 4, 'USD', '2026-10-03', 'history'
'aws', 'r', 'rb', 'p5', NULL, 0, 100, 6, 'USD', '2026-10-01', 'history'
'aws', 'r', 'rc', 'p5', NULL, 0, 100, 9, 'USD', '2026-10-02', 'history'

price_list: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR, \
purchase_option VARCHAR, term_years INT, payment_option VARCHAR, offering VARCHAR, price_per_hour DECIMAL(24, 12), \
currency VARCHAR, effective_start DATE, price_as_of DATE, origin VARCHAR, source VARCHAR, from_ms BIGINT, to_ms BIGINT

book_fits: node_id INT, start_ms BIGINT, specificity INT, price_per_hour DECIMAL(38, 12), currency VARCHAR, \
price_as_of DATE, purchase_option VARCHAR, price_source VARCHAR, line INT

bill_candidates: node_id INT, from_ms BIGINT, to_ms BIGINT, rank INT, price_per_hour DECIMAL(38, 12), \
currency VARCHAR, rate DECIMAL(18, 12), price_source VARCHAR, price_as_of DATE, purchase_option VARCHAR, \
origin VARCHAR
->
SELECT from_ms, to_ms, price_per_hour, price_as_of, origin FROM price_candidates
10 | 90 | 3 | 2026-10-01 | lower median of 3 zones, r spot history

= a node with two pods that hold an unknown resource counts once
price/62_unlisted_resources
params {"currency": "USD"}

unlisted_holdings: cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node_id INT, resource VARCHAR, units DOUBLE, \
part DOUBLE, from_ms BIGINT, to_ms BIGINT
'c', 'a', 'u1', 1, 'x.org/y', 1, 0.5, 0, 1h
'c', 'b', 'u2', 1, 'x.org/y', 1, 0.5, 0, 2h

price_segments: node_id INT, from_ms BIGINT, to_ms BIGINT, price_per_hour DOUBLE
1, 0, 1h, 8

warnings: code
->
SELECT message FROM warnings
the resource x.org/y is not supported, so it is not attributed: 3.0 hours held by 2 pods of a, \
b on 1 node, 8.00 USD of the nodes' cost, 1970-01-01T00:00Z to 1970-01-01T02:00Z

= a node without gpus needs no prices
price/70_wanting_prices
params {"from_ms": 0, "to_ms": 10, "now_ms": 10, "days": 7}

nodes: node_id, provider, capacity_type, gpu_count, up_from_ms, up_to_ms
1, 'aws', 'on_demand', 0, 0, 10
2, 'gcp', 'on_demand', 1, 0, 10
3, 'azure', 'spot', 1, 0, 10

loads: kind, source, to_ms
->
what provider
prices | azure
prices | gcp
spot | azure

= a machine is seen while it was up and collected
questions/reconcile/10_machine_hours
params {"month": "2026-10"}

bills: bill_id, format
1, 'focus'

billed_hours: bill_id, instance_key, provider, billing_period, from_ms, to_ms, instance_hours, effective_cost, \
discount_cost, currency, rate, price_per_hour, pool
1, 'i-1', 'aws', '2026-10', 0, 1h, 1, 4, 0, 'USD', 1, 4, 1
1, 'i-1', 'aws', '2026-10', 1h, 2h, 1, 4, 0, 'USD', 1, 4, 2

billed_nodes: instance_key, node_id
'i-1', 1

nodes: node_id, cluster, node, up_from_ms, up_to_ms
1, 'c', 'n', 0, 2h

collected: cluster, from_ms, to_ms
'c', 60000, 1h
->
SELECT from_ms, seen_ms FROM machine_hours ORDER BY from_ms
0 | 3540000
3600000 | 0

= hours of unbilled nodes are the estimated hours
questions/reconcile/51_unbilled_nodes
params {"from_ms": 0, "to_ms": 1}

nodes: node_id, cluster, node, instance_type, gpu_count
1, 'c', 'n', 'p5', 8
2, 'c', 'own', 'p5', 8

hours: node_id INT, allocated_gpu_ms DOUBLE, unallocated_gpu_ms DOUBLE, not_collected_gpu_ms DOUBLE, \
cost MONEY, unallocated_cost MONEY, not_collected_cost MONEY, estimated_cost MONEY
1, 8h, 4h, 4h, 6, 2, 2, 10
1, 8h, 0, 0, 6, 0, 0, 0
2, 4h, 0, 4h, 6, 1, 1, 3

billed_nodes: instance_key VARCHAR, node_id INT
'i', 1
->
name instance_type hours cost is_final
n | p5 | 2 | 10 | False
own | p5 | 1 | 5 | True
own | p5 | 1 | 3 | False

= the team with the largest cost comes first in its class
questions/reconcile/42_classes
params {"currency": "USD"}

machine_shares: line VARCHAR, team VARCHAR, rows INT, billed_cost MONEY
'held', 'a', 1, 3
'held', 'b', 1, 8

machine_parts: line VARCHAR, team VARCHAR, cost MONEY
'held', 'a', 2
'held', 'b', 9

machine_hours: discount_cost MONEY
-1

row_classes: place INT, currency VARCHAR, billed_class VARCHAR, effective_class VARCHAR, rows INT, \
billed_cost MONEY, effective_cost MONEY, discount_cost MONEY, amortized_cost MONEY
NULL, 'EUR', 'tax', 'tax', 2, 4, 5, -1, 0
1, 'USD', NULL, NULL, 1, 0, 0, 0, 6
->
basis currency class team rows cost
billed | EUR | tax | - | 2 | 4
billed | USD | held | b | 1 | 8
billed | USD | held | a | 1 | 3
effective | EUR | discounts | - | 0 | 1
effective | EUR | tax | - | 2 | 4
effective | USD | discounts | - | 0 | 7
effective | USD | held | b | 1 | 9
effective | USD | held | a | 1 | 2

= a machine without a discount costs the sum of its rows
questions/explain/50_billed_machines
params {"from_ms": 0, "to_ms": 3600000, "most": 1}

explained_bill_rows: instance_key VARCHAR, number INT, machine VARCHAR, instance_hours DOUBLE, cost MONEY
'i-1', 1, 'i-1', 1, 4
'i-1', 2, 'i-1', 2, 5
'i-2', 1, 'i-2', 1, 4

billed_nodes: instance_key, node_id
'i-1', 1
'i-2', 2

billed_hours: instance_key, from_ms, to_ms, instance_hours, price_per_hour, rate, discount_cost, discount_rates
'i-2', 0, 1h, 1, 3, 1, -1, [7]

discount_rates: rate_id, rows, first_rows
7, 2, ['f:1', 'f:2']

machine_riders: instance_key VARCHAR, source_file VARCHAR, source_row INT, charge_period_start TIMESTAMP, \
charge_period_end TIMESTAMP, kind VARCHAR, effective_cost MONEY
->
instance_key rows more_rows more_cost instance_hours cost pooled_cost discount_rows
i-1 | 2 | 1 | 5 | 3 | 9 | 0 | 0
i-2 | 1 | 0 | 0 | 1 | 3 | 3 | 2

= the list price of an unknown machine is listed without its gpus
price/listed_prices
params {"today": "2026-10-05"}
after price/vocabulary price/listed_instances

catalog_instances: provider VARCHAR, instance_type VARCHAR, gpu_model VARCHAR, gpu_count DOUBLE, vcpus DOUBLE, \
memory_gib DOUBLE
'aws', 'p5', 'H100', 8, 192, 2048

price_list: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR, \
purchase_option VARCHAR, term_years INT, payment_option VARCHAR, offering VARCHAR, price_per_hour DECIMAL(24, 12), \
currency VARCHAR, effective_start DATE, price_as_of DATE, origin VARCHAR, source VARCHAR, from_ms BIGINT, to_ms BIGINT
'aws', 'p5', 'p5', 'r', NULL, 'on_demand', 0, '', '', 8, 'USD', NULL, '2026-10-01', 'collected', 'aws', 0, 4000000000000
'aws', 'new', 'new', 'r', NULL, 'on_demand', 0, '', '', 9, 'USD', NULL, '2026-10-01', 'collected', 'aws', 0, 4000000000000

spot_prices: provider

instance_types: provider

loads: kind, source, to_ms
->
SELECT instance_type, price_per_hour, gpu_model, gpu_count, status FROM listed_prices ORDER BY price_per_hour
p5 | 8 | H100 | 8 | current
new | 9 | - | - | current
""".replace("<half_billed>\n", HALF_BILLED)
)
