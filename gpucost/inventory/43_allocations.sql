-- reads: allocated, slurm_users
-- writes: allocations (stored), one row per row of allocated, with Slurm's facts about its user
-- invariant: allocation_id is unique
INSERT INTO allocations BY NAME
SELECT a.*, u.* EXCLUDE (allocation_id) FROM allocated AS a LEFT JOIN slurm_users AS u USING (allocation_id);
