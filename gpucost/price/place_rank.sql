-- reads: nothing
-- writes: place_rank(listed_region, listed_zone, region, zone, zone_id): how well a row of price_list fits a place; null where it doesn't
-- invariant: the highest is the place's price: of its zone (by id 4, by name 3), of its region (2), the median of its region's zones (1), of any region (0)
CREATE OR REPLACE TEMP MACRO place_rank(listed_region, listed_zone, region, zone, zone_id) AS CASE
    WHEN listed_region IS NULL THEN CASE WHEN listed_zone IS NULL THEN 0 END
    WHEN listed_region IS DISTINCT FROM region THEN NULL
    WHEN listed_zone IS NULL THEN 2
    WHEN listed_zone = '*' THEN 1
    WHEN listed_zone = zone_id THEN 4
    WHEN listed_zone = zone THEN 3
END;
