-- reads: cur
-- writes: cur_costs (view): cur and what each row costs, commitments amortized: gross, and net where the export tells it after discounts
-- invariant: net is null where the column that would tell it is empty: then discounts stand on rows of their own
CREATE OR REPLACE TEMP VIEW cur_costs AS
SELECT *,
       CASE line_type
           -- What a commitment covers costs what the commitment charges for it. A blank one is told, see cost_cause.
           WHEN 'SavingsPlanCoveredUsage' THEN coalesce(plan_cost, unblended)
           WHEN 'DiscountedUsage' THEN coalesce(reservation_cost, unblended)
           -- It takes back what covered usage was billed at, and that is not what it costs.
           WHEN 'SavingsPlanNegation' THEN 0
           -- An upfront fee stands on covered usage and recurring fees, amortized.
           WHEN 'SavingsPlanUpfrontFee' THEN 0
           -- Of a commitment, what nothing used.
           WHEN 'SavingsPlanRecurringFee' THEN coalesce(committed, 0) - coalesce(used, 0)
           WHEN 'RIFee' THEN coalesce(unused_upfront, 0) + coalesce(unused_recurring, 0)
           -- A fee for a reservation or plan stands on other rows, amortized; other fees stay.
           WHEN 'Fee' THEN CASE WHEN commitment IS NULL THEN unblended ELSE 0 END
           ELSE unblended
       END AS gross,
       CASE line_type
           WHEN 'SavingsPlanCoveredUsage' THEN net_plan_cost
           WHEN 'DiscountedUsage' THEN net_reservation_cost
           WHEN 'SavingsPlanNegation' THEN 0
           WHEN 'SavingsPlanUpfrontFee' THEN 0
           -- Of the unused part no column tells it: what is left of the whole fee is.
           WHEN 'SavingsPlanRecurringFee'
               THEN CASE WHEN plan_fee > 0 AND net_plan_fee > 0 THEN gross * (net_plan_fee / plan_fee)
                         WHEN unblended > 0 THEN gross * (net_unblended / unblended) END
           WHEN 'RIFee'
               THEN CASE WHEN coalesce(net_unused_upfront, net_unused_recurring) IS NOT NULL
                         THEN coalesce(net_unused_upfront, unused_upfront, 0) + coalesce(net_unused_recurring, unused_recurring, 0) END
           WHEN 'Fee' THEN CASE WHEN commitment IS NULL THEN net_unblended ELSE 0 END
           ELSE net_unblended
       END::DECIMAL(38, 12) AS net,
       -- What is amortized elsewhere costs nothing, net or not: its own column says which.
       net IS NOT NULL AND (line_type NOT IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee', 'Fee') OR net_unblended IS NOT NULL) AS is_net
FROM cur;
