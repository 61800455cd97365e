-- reads: the rules of [[shared_costs]], bound as one list per column
-- writes: report_rules, one row per rule, numbered in their order from 1
-- invariant: patterns is empty for rules on what is billed
CREATE OR REPLACE TEMP TABLE report_rules AS
SELECT
    unnest($rule::INTEGER[])       AS rule,
    unnest($of::VARCHAR[])         AS of,
    unnest($split::VARCHAR[])      AS split,
    unnest($owner::VARCHAR[])      AS owner,
    unnest($provider::VARCHAR[])   AS provider,
    unnest($patterns::VARCHAR[][], max_depth := 1) AS patterns;
