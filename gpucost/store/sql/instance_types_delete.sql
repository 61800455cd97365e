-- reads: instance_types
-- writes: instance_types, without what $provider said of $instance_type on $seen_on
-- invariant: what was said on other days stays
DELETE FROM instance_types
WHERE provider = $provider AND seen_on = $seen_on AND list_contains($instance_type::VARCHAR[], instance_type);
