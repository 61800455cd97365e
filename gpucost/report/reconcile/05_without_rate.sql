-- reads: billed_hours; $month
-- writes: nothing; answers the currency and the first moment of machines that are billed in a currency without a rate then
-- invariant: at most one row; none where every cost can be told in the report's currency
SELECT currency, min(from_ms) AS from_ms
FROM billed_hours
WHERE billing_period = $month AND rate IS NULL
GROUP BY currency
ORDER BY from_ms, currency
LIMIT 1;
