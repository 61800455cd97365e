-- reads: nothing
-- writes: basis_spans, one row per (node, stretch in which its price is split): the parts of GPU and CPU in it; as yet none
-- invariant: with the cost basis `node` it stays empty, and no stage after this one is run
CREATE OR REPLACE TEMP TABLE basis_spans (
    node_id UBIGINT NOT NULL, from_ms BIGINT NOT NULL, to_ms BIGINT NOT NULL, gpu_fraction DOUBLE NOT NULL, cpu_fraction DOUBLE NOT NULL);
