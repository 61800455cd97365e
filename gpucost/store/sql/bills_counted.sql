-- reads: incoming
-- writes: bills_incoming.rows, counted again
-- invariant: rows counts what is in incoming
UPDATE bills_incoming AS b
SET rows = (
    SELECT count(*)
    FROM incoming AS i
    WHERE i.provider = b.provider AND coalesce(i.billing_account_id, '') = b.billing_account_id AND i.billing_period = b.billing_period
      AND i.format IS NOT DISTINCT FROM b.told_format
);
