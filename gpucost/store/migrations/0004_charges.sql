-- reads: nothing
-- writes: bills, bill_rows, charges: the raw tables of billing exports
-- invariant: a charge that the provider billed once is there once, whichever files told of it: a load replaces, in one
--            transaction, the bills that it holds the charges of

-- One row per bill: what a load brought of one billing account and billing period, and whether that is final.
CREATE TABLE bills (
    bill_id             INTEGER NOT NULL,
    provider            VARCHAR NOT NULL,        -- 'aws', 'gcp', 'azure', ...; for FOCUS what its provider column says, lower-cased
    source              VARCHAR NOT NULL,        -- the export, 's3://bucket/prefix/name'; '<provider>/<account>' for loose files
    format              VARCHAR NOT NULL,        -- 'aws-cur', 'focus', ...
    billing_account_id  VARCHAR NOT NULL,        -- '' where the export does not say
    billing_period      VARCHAR NOT NULL,        -- '2026-10'
    is_whole            BOOLEAN NOT NULL,        -- a manifest vouches for the whole period: it replaces what its source had of it
    is_final            BOOLEAN,                 -- null where the export does not say
    digest              VARCHAR NOT NULL,        -- of the files it was read from and of the rules they were read by
    rows                BIGINT NOT NULL,
    load_id             BIGINT NOT NULL,         -- loads.load_id
    loaded_at           TIMESTAMP NOT NULL
);

-- FOCUS-shaped charges, one per row of an export. Costs are in billing_currency.
CREATE TABLE bill_rows (
    bill_id                          INTEGER NOT NULL,
    charge_key                       UBIGINT NOT NULL,        -- hash of what names the charge, amounts apart: the same in every file that tells of it
    charge_period_start              TIMESTAMP NOT NULL,      -- UTC
    charge_period_end                TIMESTAMP NOT NULL,
    charge_category                  VARCHAR NOT NULL,        -- 'Usage', 'Purchase', 'Tax', 'Credit', 'Adjustment'
    charge_class                     VARCHAR,                 -- 'Correction' or null
    charge_frequency                 VARCHAR,
    charge_description               VARCHAR,
    billed_cost                      DECIMAL(38, 12) NOT NULL,
    effective_cost                   DECIMAL(38, 12) NOT NULL,
    list_cost                        DECIMAL(38, 12),
    contracted_cost                  DECIMAL(38, 12),
    billing_currency                 VARCHAR NOT NULL,
    billing_account_id               VARCHAR,
    sub_account_id                   VARCHAR,
    sub_account_name                 VARCHAR,
    service_name                     VARCHAR,
    service_category                 VARCHAR,
    region                           VARCHAR,
    zone                             VARCHAR,
    resource_id                      VARCHAR,
    resource_name                    VARCHAR,
    resource_type                    VARCHAR,
    sku_id                           VARCHAR,
    sku_description                  VARCHAR,
    instance_type                    VARCHAR,                 -- of the compute charge of an instance; else null
    pricing_category                 VARCHAR,                 -- 'Standard', 'Dynamic' (spot), 'Committed', 'Other'
    pricing_quantity                 DECIMAL(38, 12),
    pricing_unit                     VARCHAR,
    consumed_quantity                DECIMAL(38, 12),
    consumed_unit                    VARCHAR,
    commitment_discount_id           VARCHAR,
    commitment_discount_category     VARCHAR,
    commitment_discount_type         VARCHAR,
    commitment_discount_status       VARCHAR,                 -- 'Used', 'Unused'
    capacity_reservation_id          VARCHAR,
    capacity_reservation_status      VARCHAR,                 -- 'Used', 'Unused'
    tags                             MAP(VARCHAR, VARCHAR),
    -- what the charge is to gpucost: see docs/billing.md
    kind                             VARCHAR NOT NULL,        -- 'instance', 'storage', 'network', 'support', 'commitment_unused', 'reserved_unused', 'commitment_fee', 'tax', 'credit', 'refund', 'split', 'other'
    instance_hours                   DOUBLE,                  -- billed hours of the instance, on rows that carry them; else null
    instance_key                     VARCHAR,                 -- the machine as Kubernetes' provider id names it, lower-case: 'i-0123…', 'project/zone/name', an Azure resource id; else null
    cost_cause                       VARCHAR NOT NULL,        -- why effective differs from billed: 'same', 'covered_usage', 'fee_amortized', ...
    split_parent_id                  VARCHAR,                 -- of a split row: the instance that it shares
    split_cost                       DECIMAL(38, 12),         -- of a split row: its share of the parent's cost; informs, is never added
    source_file                      VARCHAR NOT NULL,
    source_row                       BIGINT NOT NULL          -- 1 is the first row of data
);

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);
