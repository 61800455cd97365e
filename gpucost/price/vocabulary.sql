-- reads: nothing
-- writes: region_of(zone), place_rank(listed_region, listed_zone, region, zone, zone_id), purchase_fits: the places and nodes of a price
-- invariant: a place's or node's price is the one with the highest rank, then with the highest preference

-- the region in a zone's name, in lower case; null without one
-- aws spells a zone us-east-1a or us-west-2-lax-1a, gcp us-central1-a, azure eastus-1
CREATE OR REPLACE TEMP MACRO region_of(zone) AS coalesce(
    nullif(regexp_extract(lower(zone), '^([a-z]+(-[a-z]+)+-[0-9]+)', 1), ''),
    nullif(regexp_extract(lower(zone), '^(.+)-[a-z0-9]$', 1), ''));

-- How well a row of price_list matches a place, null if it doesn't: its zone (by id 4, by name 3), its region (2), the
-- median of its region's zones (1), any region (0).
CREATE OR REPLACE TEMP MACRO place_rank(listed_region, listed_zone, region, zone, zone_id) AS CASE
    WHEN listed_region IS NULL THEN CASE WHEN listed_zone IS NULL THEN 0 END
    WHEN listed_region IS DISTINCT FROM region THEN NULL
    WHEN listed_zone IS NULL THEN 2
    WHEN listed_zone = '*' THEN 1
    WHEN listed_zone = zone_id THEN 4
    WHEN listed_zone = zone THEN 3
END;

-- The purchase options that price nodes of a capacity type, in the price book and (is_list) of list prices. A higher
-- preference wins among equally specific prices. No other option prices a spot node.
CREATE OR REPLACE TEMP TABLE purchase_fits (capacity_type VARCHAR, purchase_option VARCHAR, preference INTEGER, is_list BOOLEAN);
INSERT INTO purchase_fits VALUES
    ('on_demand', 'on_demand', 0, true), ('on_demand', 'savings_plan', 0, false), ('on_demand', 'cud', 0, false),
    ('reserved', 'reserved', 3, false), ('reserved', 'savings_plan', 2, false), ('reserved', 'cud', 1, false), ('reserved', 'on_demand', 0, true),
    ('capacity_block', 'capacity_block', 0, true),
    ('flex_start', 'flex_start', 1, true), ('flex_start', 'calendar', 0, true),
    ('spot', 'spot', 0, true);
