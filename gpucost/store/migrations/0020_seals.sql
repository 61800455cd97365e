-- reads: nothing
-- writes: seals, what the bundles of closed months were made from and what they say; staged, a view of files that loads of bills left behind, is dropped
-- invariant: each is added when a bundle is written that the month did not have before, and never changed

DROP VIEW IF EXISTS staged;

CREATE TABLE seals (
    month       VARCHAR NOT NULL,            -- '2026-10'
    sealed_at   TIMESTAMP NOT NULL,          -- UTC
    state       VARCHAR NOT NULL,            -- 'final', 'estimate'
    charge      DECIMAL(38, 9) NOT NULL,     -- what teams are charged
    currency    VARCHAR NOT NULL,
    figures     VARCHAR NOT NULL,            -- SHA-256 of what teams are charged, and of the ledger
    digest      VARCHAR NOT NULL,            -- SHA-256 of the bundle's index.json, which has the digest of every other file
    sharing     VARCHAR,                     -- --share-unallocated; bundles are restated by those of the same
    reasons     VARCHAR[] NOT NULL           -- what changed since the seal before; none for a month's first
);
