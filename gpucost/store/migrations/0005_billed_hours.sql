-- reads: nothing
-- writes: billed_hours, billed_nodes, cost_hourly, cost_daily, attributed_days, attribution_state: what bills say of GPU machines, as prices and the reconciliation read it; what of a cost is an estimate
-- invariant: rebuilt whole with each pricing, from bill_rows and nodes

-- One row per (bill, machine, charge period): billed hours and what they cost, in the bill's currency.
CREATE TABLE billed_hours (
    bill_id          INTEGER NOT NULL,
    instance_key     VARCHAR NOT NULL,           -- as bill_rows.instance_key
    provider         VARCHAR NOT NULL,
    billing_period   VARCHAR NOT NULL,
    account          VARCHAR,
    region           VARCHAR,
    instance_type    VARCHAR,
    capacity_type    VARCHAR NOT NULL,           -- 'on_demand', 'spot', 'reserved': how it was launched
    from_ms          BIGINT NOT NULL,            -- the charge period: an hour, or a day where the export is daily
    to_ms            BIGINT NOT NULL,
    instance_hours   DOUBLE NOT NULL,
    effective_cost   DECIMAL(38, 12) NOT NULL,
    currency         VARCHAR NOT NULL,
    is_unexplained   BOOLEAN NOT NULL,           -- costs nothing, and nothing says why: no price
    rate             DECIMAL(18, 12),            -- what one unit of currency was worth in the report's, then
    price_per_hour   DECIMAL(38, 12)             -- of the machine, or of its pool; null where is_unexplained
);

-- Which machines of bills are which nodes. A scale set that a bill does not split is several nodes.
CREATE TABLE billed_nodes (
    instance_key     VARCHAR NOT NULL,
    node_id          UBIGINT NOT NULL,
    is_scale_set     BOOLEAN NOT NULL            -- the bill names the scale set only: its cost is spread over its nodes' hours
);

-- The part of cost + unallocated_cost that no bill covers. What was attributed before is attributed again.
ALTER TABLE cost_hourly ADD COLUMN estimated_cost DECIMAL(38, 9) DEFAULT 0;
ALTER TABLE cost_daily ADD COLUMN estimated_cost DECIMAL(38, 9) DEFAULT 0;
DELETE FROM attributed_days;
DELETE FROM attribution_state;
