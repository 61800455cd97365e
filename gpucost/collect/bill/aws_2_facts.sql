-- reads: cur_costs
-- writes: cur_facts: whether any row of the export has a net cost, whether the export can name invoices, and whether any row needs the output of the next two files; cur_unsettled, cur_moved: views of these facts, if so; discount_shares, moved_costs: empty tables
-- invariant: one row of facts
CREATE OR REPLACE TEMP TABLE cur_facts AS
SELECT coalesce(bool_or(is_net), false) AS has_net,
       count(bill_invoice_id) + count(bill_billing_period_start_date) > 0 AS tells_invoices,
       bool_or(is_discount AND net IS NULL) AS has_unsettled,
       bool_or(of_block OR host_pool IS NOT NULL OR line_type = 'Refund' AND commitment IS NOT NULL) AS has_moved
FROM cur_costs;

CREATE OR REPLACE TEMP VIEW cur_unsettled AS FROM cur_facts WHERE has_net AND has_unsettled;
CREATE OR REPLACE TEMP VIEW cur_moved AS FROM cur_facts WHERE has_moved;
CREATE OR REPLACE TEMP TABLE discount_shares (source_file VARCHAR, file_row_number BIGINT, share DOUBLE);
CREATE OR REPLACE TEMP TABLE moved_costs (source_file VARCHAR, file_row_number BIGINT, share DECIMAL(38, 12));
