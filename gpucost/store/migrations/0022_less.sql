-- reads: progress_series, progress_values, gateway_calls
-- writes: progress_series, progress_values, loads, collect_runs (rows deleted), gateway_calls, token_prices (dropped)
-- invariant: work counted by the user's own servers and files is unchanged

DELETE FROM progress_values WHERE series_id IN (SELECT series_id FROM progress_series WHERE gateway IS NOT NULL);
DELETE FROM progress_series WHERE gateway IS NOT NULL;
-- A log of calls had no other data. A server keeps its loads: they are the collected hours.
DELETE FROM loads WHERE kind = 'progress' AND source IN (SELECT source FROM gateway_calls) AND source NOT IN (
    SELECT s.source FROM progress_values AS v JOIN progress_series AS s USING (series_id));
DELETE FROM collect_runs WHERE kind = 'progress' AND source IN (SELECT source FROM gateway_calls) AND source NOT IN (
    SELECT s.source FROM progress_values AS v JOIN progress_series AS s USING (series_id));
DELETE FROM loads WHERE kind = 'prices' AND source = 'litellm';
DELETE FROM collect_runs WHERE kind = 'prices' AND source = 'litellm';

ALTER TABLE progress_series DROP COLUMN gateway;
ALTER TABLE progress_series DROP COLUMN team;
ALTER TABLE progress_series DROP COLUMN provider;
ALTER TABLE progress_series DROP COLUMN api_base;
ALTER TABLE progress_series DROP COLUMN currency;
DROP TABLE gateway_calls;
DROP TABLE token_prices;
