-- reads: nothing
-- writes: bills, bill_rows, charges: the raw tables of billing exports
-- invariant: a charge that the provider billed once is stored once, no matter how many files contain it: in one
-- transaction, a load replaces the bills whose charges it contains

-- One row per bill: one billing account and billing period of a load, and whether it is final.
CREATE TABLE bills (
    bill_id             INTEGER NOT NULL,
    provider            VARCHAR NOT NULL,  -- 'aws', 'gcp', 'azure', ...; for FOCUS its provider column in lower case
    -- the export, 's3://bucket/prefix/name'; '<provider>/<account>' for loose files
    source              VARCHAR NOT NULL,
    format              VARCHAR NOT NULL,        -- 'aws-cur', 'focus', ...
    billing_account_id  VARCHAR NOT NULL,        -- '' if the export lacks it
    billing_period      VARCHAR NOT NULL,        -- '2026-10'
    -- true if a manifest covers the whole period: it replaces the period's earlier data from its source
    is_whole            BOOLEAN NOT NULL,
    is_final            BOOLEAN,                 -- null if the export does not state it
    digest              VARCHAR NOT NULL,        -- of the files and of the rules used to read them
    rows                BIGINT NOT NULL,
    load_id             BIGINT NOT NULL,         -- loads.load_id
    loaded_at           TIMESTAMP NOT NULL
);

-- Charges in the shape of FOCUS, one per row of an export. Costs are in billing_currency.
CREATE TABLE bill_rows (
    bill_id                          INTEGER NOT NULL,
    -- hash of the charge's identifying columns, without amounts: equal in every file that contains it
    charge_key                       UBIGINT NOT NULL,
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
    instance_type                    VARCHAR,                 -- on compute charges of an instance; otherwise null
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
    -- classification by gpucost: see docs/billing.md
    kind                             VARCHAR NOT NULL,        -- 'instance', 'storage', 'network', 'support', 'commitment_unused', 'reserved_unused', 'commitment_fee', 'tax', 'credit', 'refund', 'split', 'other'
    instance_hours                   DOUBLE,  -- billed hours of the instance, on rows that have them; otherwise null
    -- the machine as in Kubernetes' provider id, in lower case: 'i-0123…', 'project/zone/name', an Azure resource id;
    -- otherwise null
    instance_key                     VARCHAR,
    -- why effective differs from billed: 'same', 'covered_usage', 'fee_amortized', ...
    cost_cause                       VARCHAR NOT NULL,
    split_parent_id                  VARCHAR,                 -- split rows: the shared instance
    -- split rows: the share of the parent's cost; informative, never added
    split_cost                       DECIMAL(38, 12),
    source_file                      VARCHAR NOT NULL,
    source_row                       BIGINT NOT NULL          -- the first data row is 1
);

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);
