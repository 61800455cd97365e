-- reads: incoming
-- writes: nothing; answers the span of the charges of one billing period, in milliseconds
-- invariant: never empty
SELECT epoch_ms(min(charge_period_start)) AS from_ms, epoch_ms(max(charge_period_end)) AS to_ms
FROM incoming
WHERE billing_period = $billing_period AND provider = $provider;
