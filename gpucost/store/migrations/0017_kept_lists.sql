-- reads: nothing
-- writes: blocks, attributed_days (altered), compactions: lists of samples that no figure needs can be dropped
-- invariant: sealed days can be attributed again from the remaining data; if that needs a dropped list, it is refused
ALTER TABLE blocks ALTER COLUMN vals DROP NOT NULL;        -- null: dropped, and no figure of its day needs it
-- lists that its figures don't need are dropped
ALTER TABLE attributed_days ADD COLUMN is_sealed BOOLEAN DEFAULT false;

-- When the store was rewritten, and before that until when its days were sealed.
CREATE TABLE compactions (
    at_ms            BIGINT NOT NULL,
    sealed_until_ms  BIGINT                        -- null: rewritten
);
