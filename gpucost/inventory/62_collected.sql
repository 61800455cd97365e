-- reads: collected_time
-- writes: collected (stored), per cluster the time that was collected
-- invariant: intervals of one cluster neither touch nor overlap
INSERT INTO collected BY NAME SELECT * FROM collected_time;
