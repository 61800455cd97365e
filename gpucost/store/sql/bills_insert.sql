-- reads: bills_incoming, loads
-- writes: bills
-- invariant: a bill stands for rows that are written in the same transaction
INSERT INTO bills BY NAME
SELECT bill_id, provider, source, format, billing_account_id, billing_period, $is_whole AS is_whole, is_final,
       $digest AS digest, $file_digests AS file_digests, map($stamps, $stamped) AS file_stamps, (SELECT count(*) FROM bills_incoming)::INTEGER AS load_bills, rows, (SELECT max(load_id) FROM loads) AS load_id, $loaded_at AS loaded_at
FROM bills_incoming
WHERE bill_id = $bill_id;
