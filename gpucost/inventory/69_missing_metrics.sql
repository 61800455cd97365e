-- reads: missing_metrics
-- writes: warnings (stored), what exporters left out, as `collect` says it
-- invariant: one row per row of missing_metrics that is a warning
INSERT INTO warnings BY NAME
SELECT code, cluster, metric AS subject, from_ms, to_ms, message, fix FROM missing_metrics WHERE level = 'warning';
