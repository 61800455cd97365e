-- reads: token_charges, api_team_labels, api_team_values, api_team_categories, api_team_globs, fx_rates; $from_ms, $to_ms
-- writes: api_charges, one row per charge for bought tokens: seller (issuer of the invoice), owner, cost; null if unknown
-- invariant: each charge is in it once; is_repeated marks a cloud's charges that are on the vendor's own invoice too
CREATE OR REPLACE TEMP TABLE api_charges AS
WITH asked AS (
    SELECT row_number() OVER (ORDER BY provider, bill_id, source_file, source_row) AS charge_id,
        * REPLACE (CASE WHEN issuer IN ('aws', 'gcp', 'azure', 'oci') THEN issuer END AS issuer),
        epoch_ms(charge_period_start) AS start_ms, epoch_ms(charge_period_end) AS end_ms
    FROM token_charges
    WHERE epoch_ms(charge_period_start) < $to_ms
        AND (epoch_ms(charge_period_end) > $from_ms OR epoch_ms(charge_period_start) >= $from_ms)
),
owners AS (
    SELECT row_number() OVER () AS owner_id, *
    FROM (SELECT DISTINCT tags, cost_categories, sub_account_id, sub_account_name, resource_name FROM asked)
),
-- deliveries spell the name of a tag differently: user:Team, user_team, Team
carried AS (
    SELECT owner_id, tag.value AS value,
        regexp_replace(regexp_replace(lower(tag.key), '^(user|aws|label)s?[:_/]', ''), '[\W_]+', '', 'g') AS label
    FROM (SELECT owner_id, unnest(map_entries(tags)) AS tag FROM owners)
    WHERE tag.value <> ''
),
by_label AS (
    SELECT c.owner_id, coalesce(arg_min(v.team, v.ordinal), arg_min(c.value, t.ordinal)) AS team
    FROM carried AS c
    LEFT JOIN api_team_values AS v ON v.label = c.label AND v.value = c.value
    LEFT JOIN api_team_labels AS t ON t.label = c.label
    GROUP BY c.owner_id
),
by_category AS (
    SELECT c.owner_id, arg_min(t.team, t.ordinal) AS team
    FROM (SELECT owner_id, unnest(map_entries(cost_categories)) AS category FROM owners) AS c
    JOIN api_team_categories AS t
        ON t.category = regexp_replace(lower(c.category.key), '[\W_]+', '', 'g') AND t.value = c.category.value
    GROUP BY c.owner_id
),
by_name AS (
    SELECT o.owner_id, arg_min(g.team, g.ordinal) AS team
    FROM (SELECT owner_id, unnest([sub_account_name, sub_account_id, resource_name]) AS name FROM owners) AS o
    JOIN api_team_globs AS g ON o.name GLOB g.pattern
    GROUP BY o.owner_id
),
teams AS (
    SELECT o.*, coalesce(l.team, c.team, n.team) AS owner
    FROM owners AS o LEFT JOIN by_label AS l USING (owner_id) LEFT JOIN by_category AS c USING (owner_id)
    LEFT JOIN by_name AS n USING (owner_id)
),
resold AS (
    SELECT provider AS vendor, issuer AS seller, billing_period, max(end_ms) AS to_ms
    FROM asked WHERE issuer IS NOT NULL GROUP BY ALL
)
SELECT a.charge_id, a.bill_id, a.source_file, a.source_row, a.provider, coalesce(a.issuer, a.provider) AS seller,
    -- a cloud bills for all vendors
    CASE WHEN a.issuer IS NOT NULL THEN a.provider END AS sold_vendor, a.billing_period,
    CASE WHEN a.provider IN ('aws', 'gcp', 'azure', 'oci') THEN 'bill' ELSE 'invoice' END AS source,
    r.vendor IS NOT NULL AS is_repeated,
    a.model, model_key(a.model) AS model_key, a.token_kind, a.tokens, t.owner,
    a.start_ms, greatest(a.end_ms, a.start_ms) AS end_ms,
    a.billing_currency AS currency, (a.cost * f.rate)::DECIMAL(38, 9) AS cost
FROM asked AS a
JOIN teams AS t ON (t.tags, t.cost_categories, t.sub_account_id, t.sub_account_name, t.resource_name)
    IS NOT DISTINCT FROM (a.tags, a.cost_categories, a.sub_account_id, a.sub_account_name, a.resource_name)
LEFT JOIN resold AS r ON r.vendor = a.vendor AND r.seller = a.provider AND r.billing_period = a.billing_period
    AND a.issuer IS NULL AND a.start_ms < r.to_ms
LEFT JOIN fx_rates AS f ON f.currency = a.billing_currency AND f.from_ms <= a.start_ms AND a.start_ms < f.to_ms;
