-- reads: bills, bill_rows
-- writes: bills, bill_rows, charges, billed_hours, discount_rates, machine_riders, node_stops, commitment_of, machine_name: more columns of bills, and discounts in the cost of machines
-- invariant: the new columns are null in rows loaded before

DROP VIEW charges;
ALTER TABLE bill_rows ADD COLUMN line_item_id VARCHAR;                  -- from the export; null if it has none
-- of the columns of the export's row; null without a line item id
ALTER TABLE bill_rows ADD COLUMN row_digest UBIGINT;
ALTER TABLE bill_rows ADD COLUMN invoice_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN cost_categories MAP(VARCHAR, VARCHAR); -- AWS cost categories, by name
ALTER TABLE bill_rows ADD COLUMN list_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN contracted_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN sku_meter VARCHAR;  -- meter of the SKU, if the export has a column for it
ALTER TABLE bill_rows ADD COLUMN sku_price_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN sku_price_details VARCHAR;             -- JSON
ALTER TABLE bill_rows ADD COLUMN commitment_discount_name VARCHAR;
ALTER TABLE bill_rows ADD COLUMN commitment_discount_quantity DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN commitment_discount_unit VARCHAR;
-- the service name shared by all of its rows, even if some leave it blank: 'AmazonEC2'
ALTER TABLE bill_rows ADD COLUMN service_code VARCHAR;
ALTER TABLE bill_rows ADD COLUMN operating_system VARCHAR;              -- of an instance: 'Linux', 'Windows', ...
ALTER TABLE bill_rows ADD COLUMN tenancy VARCHAR;                       -- of an instance: 'shared', 'dedicated', 'host'
-- 'capacity_block'; null: an on-demand reservation, or none
ALTER TABLE bill_rows ADD COLUMN capacity_reservation_type VARCHAR;
-- effective_cost is after discounts: rows of kind 'discount' do not lower it
ALTER TABLE bill_rows ADD COLUMN is_net BOOLEAN;

-- Digests of loose files, to recognize them before they are read again.
ALTER TABLE bills ADD COLUMN file_digests VARCHAR[];  -- of each file of the load; null if a file held several bills
ALTER TABLE bills ADD COLUMN load_bills INTEGER;                        -- number of bills in the load

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);

-- The part of effective_cost that rows of kind 'discount' took off (negative).
ALTER TABLE billed_hours ADD COLUMN discount_cost DECIMAL(38, 12) DEFAULT 0;

-- Bridged time in which a node did not run, because it booted at the end or its bill leaves it out. It costs nothing.
CREATE TABLE node_stops (
    node_id  UBIGINT NOT NULL,
    from_ms  BIGINT NOT NULL,
    to_ms    BIGINT NOT NULL,
    reason   VARCHAR NOT NULL        -- 'boot', 'bill'
);

-- A machine's name as in its bill: keys are lower-case; a scale set's machine is its set and a number.
CREATE MACRO machine_name(instance_key, resource_id) AS
    CASE WHEN starts_with(instance_key, lower(resource_id)) THEN resource_id || instance_key[length(resource_id) + 1:] ELSE instance_key END;
-- The commitment of a row of bill_rows: a capacity block (without its id, the account's block of that machine type),
-- otherwise a plan or reservation.
CREATE MACRO commitment_of(row) AS
    CASE WHEN row.capacity_reservation_type = 'capacity_block'
        THEN coalesce(row.capacity_reservation_id, coalesce(row.sub_account_id, row.billing_account_id) || ' ' || regexp_extract(row.sku_description, '[^:]+$'))
        ELSE row.commitment_discount_id END;
-- discount_rates.rate_id of rates included; other discounts name the machine
ALTER TABLE billed_hours ADD COLUMN discount_rates INTEGER[];
ALTER TABLE billed_hours ADD COLUMN pool UBIGINT;  -- equal for machines that share a price in a charge period

-- Discounts that do not name a machine: on a commitment in all accounts, or on a kind of usage in a bill. Rebuilt
-- completely with each pricing.
CREATE TABLE discount_rates (
    rate_id          INTEGER NOT NULL,
    provider         VARCHAR NOT NULL,
    billing_period   VARCHAR NOT NULL,
    currency         VARCHAR NOT NULL,
    commitment       VARCHAR,                    -- id of a plan, reservation or capacity block; otherwise null
    bill_id          INTEGER,                    -- of a kind of usage, with the next three columns; otherwise null
    service          VARCHAR,
    account          VARCHAR,
    sku_description  VARCHAR,
    discounted_cost  DECIMAL(38, 12) NOT NULL,   -- the cost before the discount
    discount_cost    DECIMAL(38, 12) NOT NULL,   -- the discount (negative)
    rows             BIGINT NOT NULL,            -- number of discount rows
    first_rows       VARCHAR[] NOT NULL          -- the first of these rows, as file:row
);

-- Fees and discounts on machines that are part of their price. Discounts on other charges with the machine's id are
-- excluded.
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
