-- reads: incoming
-- writes: nothing; answers which bills each file of a load tells of
-- invariant: each once
SELECT DISTINCT source_file AS file, provider, billing_period, coalesce(billing_account_id, '') AS account, format
FROM incoming;
