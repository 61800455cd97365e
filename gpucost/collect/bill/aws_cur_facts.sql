-- reads: cur_costs
-- writes: cur_facts: whether any row of the export has a net cost, and whether it could say an invoice
-- invariant: one row
CREATE OR REPLACE TEMP TABLE cur_facts AS
SELECT coalesce(bool_or(is_net), false) AS has_net,
       count(bill_invoice_id) + count(bill_billing_period_start_date) > 0 AS tells_invoices
FROM cur_costs;
