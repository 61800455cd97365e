-- reads: nothing
-- writes: bill_moment, bill_decimal: text to a UTC time, text to a number; bill_date, bill_time: a time with its year first, given the first part of dates in its file; bill_number: a number with a decimal point; azure_machine: the machine of a row, in lower case; charge_lack: the column that a mapped row lacks, or null; charge_detail: distinguishes charges with one charge key and no resource, if their line items have ids, otherwise null
-- invariant: every mapping sets a row's class (kind, cost_cause, charge_key); charge_detail does not include amounts of
-- money, so a restated charge keeps it; text in an unknown format stays unchanged
CREATE OR REPLACE TEMP MACRO bill_moment(value) AS TRY_CAST(value AS TIMESTAMPTZ)::TIMESTAMP;
CREATE OR REPLACE TEMP MACRO bill_decimal(value) AS TRY_CAST(value AS DECIMAL(38, 12));
-- '20261001' and '01.10.2026' are unambiguous. '10/1/26' uses the first part of dates in its file: 'month', 'day' or
-- 'year'.
CREATE OR REPLACE TEMP MACRO bill_date(value, first_part) AS regexp_replace(
    regexp_replace(
        regexp_replace(value, '^(20\d\d)(\d\d)(\d\d)(\.0+)?$', '\1-\2-\3'),
        '^(\d\d?)\.(\d\d?)\.(?:20)?(\d\d)(\D|$)', '20\3-\2-\1\4'),
    CASE first_part WHEN 'year' THEN '^(\d\d)[/-](\d\d?)[/-](\d\d?)(\D|$)' ELSE '^(\d\d?)[/-](\d\d?)[/-](?:20)?(\d\d)(\D|$)' END,
    CASE first_part WHEN 'year' THEN '20\1-\2-\3\4' WHEN 'day' THEN '20\3-\2-\1\4' ELSE '20\3-\1-\2\4' END);
CREATE OR REPLACE TEMP MACRO bill_time(value, first_part) AS coalesce(
    try_strptime(bill_date(value, first_part), ['%Y-%m-%d %I:%M:%S %p', '%Y-%m-%d %I:%M %p'])::VARCHAR, bill_date(value, first_part));
CREATE OR REPLACE TEMP MACRO bill_number(value, decimal_mark) AS
    translate(value, CASE decimal_mark WHEN ',' THEN ',.   ' ELSE ',   ' END, CASE decimal_mark WHEN ',' THEN '.' ELSE '' END);

-- Kubernetes names a machine of a scale set …/virtualMachineScaleSets/<set>/virtualMachines/<number>; AKS bills name
-- the set as the resource, and the machine as '<set>_<number>' in other details. Machines of a flexible set are virtual
-- machines of their own.
CREATE OR REPLACE TEMP MACRO azure_machine(resource_key, vm_name) AS CASE
    WHEN vm_name IS NULL OR resource_key NOT LIKE '%/virtualmachinescalesets/%' OR resource_key LIKE '%/virtualmachinescalesets/%/virtualmachines/%'
    THEN resource_key
    WHEN starts_with(vm_name, regexp_extract(resource_key, '/virtualmachinescalesets/([^/]+)', 1) || '_')
    THEN resource_key || '/virtualmachines/' || regexp_extract(vm_name, '_([^_]+)$', 1)
    ELSE coalesce(regexp_replace(resource_key, '/virtualmachinescalesets/[^/]+$', '/virtualmachines/'), '') || vm_name
END;

CREATE OR REPLACE TEMP MACRO charge_lack(charge) AS CASE
    WHEN charge.charge_period_end < charge.charge_period_start THEN 'the end of the charge is before its start'
    ELSE CASE
        WHEN charge.charge_period_start IS NULL THEN 'the start of the charge'
        WHEN charge.charge_period_end IS NULL THEN 'the end of the charge'
        WHEN charge.billing_period IS NULL THEN 'the billing period'
        WHEN charge.billed_cost IS NULL THEN 'the billed cost'
        WHEN charge.effective_cost IS NULL THEN 'the effective cost'
        WHEN charge.instance_hours < 0 AND charge.effective_cost > 0 THEN 'the cost of hours below 0'
        WHEN charge.billing_currency IS NULL THEN 'the currency'
        WHEN charge.charge_category IS NULL THEN 'the category of the charge'
        WHEN charge.provider IS NULL THEN 'the provider'
    END || ' is empty or cannot be read'
END;

CREATE OR REPLACE TEMP MACRO charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, description, quantity) AS
    CASE WHEN line_item_id IS NOT NULL AND resource_id IS NULL
         THEN hash(CAST(tags AS VARCHAR), zone, sku_id, sku_price_id, description, quantity) END;
