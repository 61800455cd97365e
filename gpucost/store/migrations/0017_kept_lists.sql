-- reads: nothing
-- writes: blocks, attributed_days (as they were), compactions: lists of samples that no figure needs may go
-- invariant: what is sealed can be attributed again from what is left: where that would need a list that is gone, it is refused
ALTER TABLE blocks ALTER COLUMN vals DROP NOT NULL;        -- null: dropped, and no figure of its day needs it
ALTER TABLE attributed_days ADD COLUMN is_sealed BOOLEAN DEFAULT false;   -- lists that its figures don't need are dropped

-- When the store was written anew, and before that until when its days were sealed.
CREATE TABLE compactions (
    at_ms            BIGINT NOT NULL,
    sealed_until_ms  BIGINT                        -- null: written anew
);
