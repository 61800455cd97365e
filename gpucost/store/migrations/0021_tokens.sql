-- reads: nothing
-- writes: progress_series, bills, gateway_calls, token_prices: what gateways tell of the tokens that they passed on, who issued a bill's invoices, and what tokens are sold for
-- invariant: what was loaded before names no tenant, gateway and issuer: null

-- Whom work was done for; of what a gateway passed on, where to, as the gateway names it.
ALTER TABLE progress_series ADD COLUMN tenant VARCHAR;
ALTER TABLE progress_series ADD COLUMN gateway VARCHAR;    -- of what it passed on; null: who did the work counted it
ALTER TABLE progress_series ADD COLUMN team VARCHAR;       -- the last four only where there is a gateway
ALTER TABLE progress_series ADD COLUMN provider VARCHAR;
ALTER TABLE progress_series ADD COLUMN api_base VARCHAR;
ALTER TABLE progress_series ADD COLUMN currency VARCHAR;   -- of the unit 'spend'

-- The calls that log files of gateways tell of, so that none counts twice, whichever files tell of it.
CREATE TABLE gateway_calls (
    source    VARCHAR NOT NULL,
    call_key  UBIGINT NOT NULL        -- hash of the gateway and its id of the call, else of what is known of it
);

-- Who issued the invoices of a bill, where one issuer is named: a cloud may sell what another provides, and bill it, too.
ALTER TABLE bills ADD COLUMN issuer VARCHAR;

-- What tokens were sold for on a day, as price lists that were collected have it; money per million tokens.
CREATE TABLE token_prices (
    provider                        VARCHAR NOT NULL,
    model                           VARCHAR NOT NULL,
    input_price_per_million         DECIMAL(38, 9) NOT NULL,
    cached_input_price_per_million  DECIMAL(38, 9),
    output_price_per_million        DECIMAL(38, 9) NOT NULL,
    currency                        VARCHAR NOT NULL,
    price_as_of                     DATE NOT NULL,
    source                          VARCHAR NOT NULL
);
