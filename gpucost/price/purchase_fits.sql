-- reads: nothing
-- writes: purchase_fits, which purchase options price a node of a capacity type, in the price book and (is_list) of list prices
-- invariant: a higher preference comes first among prices as specific; no other option prices a spot node
CREATE OR REPLACE TEMP TABLE purchase_fits (capacity_type VARCHAR, purchase_option VARCHAR, preference INTEGER, is_list BOOLEAN);
INSERT INTO purchase_fits VALUES
    ('on_demand', 'on_demand', 0, true), ('on_demand', 'savings_plan', 0, false), ('on_demand', 'cud', 0, false),
    ('reserved', 'reserved', 3, false), ('reserved', 'savings_plan', 2, false), ('reserved', 'cud', 1, false), ('reserved', 'on_demand', 0, true),
    ('capacity_block', 'capacity_block', 0, true),
    ('flex_start', 'flex_start', 1, true), ('flex_start', 'calendar', 0, true),
    ('spot', 'spot', 0, true);
