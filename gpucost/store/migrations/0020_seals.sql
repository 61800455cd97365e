-- reads: nothing
-- writes: seals: inputs and figures of the bundles of closed months; staged: a view of files left behind by loads of bills, dropped
-- invariant: a row is added when a new bundle is written for a month, and never changed

DROP VIEW IF EXISTS staged;

CREATE TABLE seals (
    month       VARCHAR NOT NULL,            -- '2026-10'
    sealed_at   TIMESTAMP NOT NULL,          -- UTC
    state       VARCHAR NOT NULL,            -- 'final', 'estimate'
    charge      DECIMAL(38, 9) NOT NULL,     -- amount charged to teams
    currency    VARCHAR NOT NULL,
    figures     VARCHAR NOT NULL,            -- SHA-256 of the charges to teams and of the ledger
    digest      VARCHAR NOT NULL,  -- SHA-256 of the bundle's index.json, which has the digests of all other files
    sharing     VARCHAR,  -- --share-unallocated; a bundle is restated only by bundles with the same value
    reasons     VARCHAR[] NOT NULL           -- changes since the previous seal; empty for a month's first
);
