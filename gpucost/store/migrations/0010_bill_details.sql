-- reads: bills, bill_rows
-- writes: bills, bill_rows, charges, billed_hours, discount_rates, machine_riders, node_stops, commitment_of, machine_name: what rows of bills tell besides, and the discounts in what machines cost
-- invariant: what was loaded before has none of it: null

DROP VIEW charges;
ALTER TABLE bill_rows ADD COLUMN line_item_id VARCHAR;                  -- the export's own; null where it has none
ALTER TABLE bill_rows ADD COLUMN row_digest UBIGINT;                    -- of the columns of the export's row; null without a line item id
ALTER TABLE bill_rows ADD COLUMN invoice_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN cost_categories MAP(VARCHAR, VARCHAR); -- AWS cost categories, by name
ALTER TABLE bill_rows ADD COLUMN list_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN contracted_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN sku_meter VARCHAR;                     -- what the SKU meters, where the export has a column for it
ALTER TABLE bill_rows ADD COLUMN sku_price_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN sku_price_details VARCHAR;             -- JSON
ALTER TABLE bill_rows ADD COLUMN commitment_discount_name VARCHAR;
ALTER TABLE bill_rows ADD COLUMN commitment_discount_quantity DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN commitment_discount_unit VARCHAR;
ALTER TABLE bill_rows ADD COLUMN service_code VARCHAR;                  -- the service as all of its rows name it, where names are left blank on some: 'AmazonEC2'
ALTER TABLE bill_rows ADD COLUMN operating_system VARCHAR;              -- of an instance: 'Linux', 'Windows', ...
ALTER TABLE bill_rows ADD COLUMN tenancy VARCHAR;                       -- of an instance: 'shared', 'dedicated', 'host'
ALTER TABLE bill_rows ADD COLUMN capacity_reservation_type VARCHAR;     -- 'capacity_block'; null: an on-demand reservation, or none
ALTER TABLE bill_rows ADD COLUMN is_net BOOLEAN;                        -- effective_cost is after discounts: rows of kind 'discount' take nothing off it

-- What loose files were, so that they are known before they are read again.
ALTER TABLE bills ADD COLUMN file_digests VARCHAR[];                    -- of each file of the load; null where a file held several
ALTER TABLE bills ADD COLUMN load_bills INTEGER;                        -- how many bills the load held

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);

-- The part of effective_cost that rows of kind 'discount' took off it (below 0).
ALTER TABLE billed_hours ADD COLUMN discount_cost DECIMAL(38, 12) DEFAULT 0;

-- Bridged time in which a node did not run: it booted at its end, or its bill leaves it out. It costs nothing.
CREATE TABLE node_stops (
    node_id  UBIGINT NOT NULL,
    from_ms  BIGINT NOT NULL,
    to_ms    BIGINT NOT NULL,
    reason   VARCHAR NOT NULL        -- 'boot', 'bill'
);

-- A machine as its bill spells it: keys are lower-case, a scale set's machine is its set and a number.
CREATE MACRO machine_name(instance_key, resource_id) AS
    CASE WHEN starts_with(instance_key, lower(resource_id)) THEN resource_id || instance_key[length(resource_id) + 1:] ELSE instance_key END;
-- What a row of bill_rows is of: a capacity block, without its id the account's block of that machine type; else a plan or reservation.
CREATE MACRO commitment_of(row) AS
    CASE WHEN row.capacity_reservation_type = 'capacity_block'
        THEN coalesce(row.capacity_reservation_id, coalesce(row.sub_account_id, row.billing_account_id) || ' ' || regexp_extract(row.sku_description, '[^:]+$'))
        ELSE row.commitment_discount_id END;
ALTER TABLE billed_hours ADD COLUMN discount_rates INTEGER[];   -- discount_rates.rate_id of those in it; others name the machine
ALTER TABLE billed_hours ADD COLUMN pool UBIGINT;               -- machines that share a price in a charge period have the same

-- What discounts that name no machine take off: a part of a commitment's cost, in all accounts, or of a kind of usage in a bill. Rebuilt whole with each pricing.
CREATE TABLE discount_rates (
    rate_id          INTEGER NOT NULL,
    provider         VARCHAR NOT NULL,
    billing_period   VARCHAR NOT NULL,
    currency         VARCHAR NOT NULL,
    commitment       VARCHAR,                    -- a plan's or reservation's id, or a capacity block's; else null
    bill_id          INTEGER,                    -- of a kind of usage, with the next three; else null
    service          VARCHAR,
    account          VARCHAR,
    sku_description  VARCHAR,
    discounted_cost  DECIMAL(38, 12) NOT NULL,   -- what it is taken off
    discount_cost    DECIMAL(38, 12) NOT NULL,   -- what is taken off, below 0
    rows             BIGINT NOT NULL,            -- discount rows that say so
    first_rows       VARCHAR[] NOT NULL          -- the first of them, as file:row
);

-- What is charged on machines besides what runs them and is part of their price: fees, and discounts, but for those of what else is charged on a machine's id.
CREATE VIEW machine_riders AS
WITH riders AS (
    FROM bill_rows
    WHERE kind IN ('node_fee', 'discount') AND instance_key IS NOT NULL AND coalesce(service_category, '') NOT IN ('Storage', 'Networking')
)
FROM riders
ANTI JOIN (
    SELECT bill_id, instance_key, sku_description FROM bill_rows
    WHERE kind IN ('other', 'storage', 'network') AND instance_key IN (SELECT instance_key FROM riders WHERE kind = 'discount')
) USING (bill_id, instance_key, sku_description);
