-- reads: machine_charges; $month
-- writes: nothing; answers what else is billed on the machines with GPUs, by kind and currency: storage, network and other services
-- invariant: nothing that is in the machines' cost, such as a discount, is in it
SELECT kind, billing_currency AS currency, sum(effective_cost) AS cost
FROM machine_charges
WHERE billing_period = $month AND kind IN ('storage', 'network', 'other')
GROUP BY ALL
HAVING sum(effective_cost) <> 0
ORDER BY ALL;
