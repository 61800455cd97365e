-- reads: nothing
-- writes: billed_hours, billed_nodes, cost_hourly, cost_daily, attributed_days, attribution_state: billed hours of GPU machines for pricing and reconciliation; the estimated part of costs
-- invariant: rebuilt completely with each pricing, from bill_rows and nodes

-- One row per (bill, machine, charge period): billed hours and their cost, in the bill's currency.
CREATE TABLE billed_hours (
    bill_id          INTEGER NOT NULL,
    instance_key     VARCHAR NOT NULL,           -- as in bill_rows.instance_key
    provider         VARCHAR NOT NULL,
    billing_period   VARCHAR NOT NULL,
    account          VARCHAR,
    region           VARCHAR,
    instance_type    VARCHAR,
    capacity_type    VARCHAR NOT NULL,           -- 'on_demand', 'spot', 'reserved': how it was launched
    from_ms          BIGINT NOT NULL,            -- the charge period: an hour, or a day for daily exports
    to_ms            BIGINT NOT NULL,
    instance_hours   DOUBLE NOT NULL,
    effective_cost   DECIMAL(38, 12) NOT NULL,
    currency         VARCHAR NOT NULL,
    is_unexplained   BOOLEAN NOT NULL,           -- costs nothing without an explanation: no price
    rate             DECIMAL(18, 12),            -- value of one unit of currency in the report's currency at that time
    price_per_hour   DECIMAL(38, 12)             -- of the machine or its pool; null if is_unexplained
);

-- Nodes of billed machines. A scale set that is one machine in the bill can be several nodes.
CREATE TABLE billed_nodes (
    instance_key     VARCHAR NOT NULL,
    node_id          UBIGINT NOT NULL,
    is_scale_set     BOOLEAN NOT NULL  -- the bill names only the scale set: its cost is spread over its nodes' hours
);

-- The part of cost + unallocated_cost that is not covered by a bill. Everything is attributed again.
ALTER TABLE cost_hourly ADD COLUMN estimated_cost DECIMAL(38, 9) DEFAULT 0;
ALTER TABLE cost_daily ADD COLUMN estimated_cost DECIMAL(38, 9) DEFAULT 0;
DELETE FROM attributed_days;
DELETE FROM attribution_state;
