-- reads: nothing
-- writes: progress_series, bills, gateway_calls, token_prices: tokens that gateways passed on, issuers of a bill's invoices, and prices of tokens
-- invariant: tenant, gateway and issuer are null in rows loaded before

-- The tenant of the work and, for calls through a gateway, the upstream by the gateway's name for it.
ALTER TABLE progress_series ADD COLUMN tenant VARCHAR;
-- the gateway that passed it on; null if the server itself counted it
ALTER TABLE progress_series ADD COLUMN gateway VARCHAR;
ALTER TABLE progress_series ADD COLUMN team VARCHAR;       -- the last four columns only with a gateway
ALTER TABLE progress_series ADD COLUMN provider VARCHAR;
ALTER TABLE progress_series ADD COLUMN api_base VARCHAR;
ALTER TABLE progress_series ADD COLUMN currency VARCHAR;   -- of the unit 'spend'

-- The calls in log files of gateways, so that each counts once even if several files contain it.
CREATE TABLE gateway_calls (
    source    VARCHAR NOT NULL,
    -- hash of the gateway and its id of the call, otherwise of all that is known of the call
    call_key  UBIGINT NOT NULL
);

-- Issuer of a bill's invoices, if it is a single one: a cloud may resell and bill another provider's services.
ALTER TABLE bills ADD COLUMN issuer VARCHAR;

-- Prices of tokens on a day, from collected price lists; money per million tokens.
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
