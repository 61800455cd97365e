-- reads: nothing
-- writes: list_prices, component_prices, instance_types, spot_prices: raw tables of prices, filled by collectors
-- invariant: raw tables hold a source's data, uninterpreted; one row per fact

-- List prices from a cloud's price API. The shipped catalog is not copied here: it remains the fallback.
CREATE TABLE list_prices (
    provider         VARCHAR NOT NULL,           -- 'aws', 'gcp', 'azure'
    region           VARCHAR NOT NULL,
    zone             VARCHAR NOT NULL,           -- '' for a price of the whole region
    instance_type    VARCHAR NOT NULL,
    purchase_option  VARCHAR NOT NULL,           -- 'on_demand', 'spot', 'reserved', 'savings_plan', 'cud', 'capacity_block'
    term_years       INTEGER NOT NULL,           -- 0 without a commitment
    -- 'no_upfront', 'partial_upfront', 'all_upfront', 'monthly'; '' without payment options
    payment_option   VARCHAR NOT NULL,
    -- 'standard', 'convertible', 'compute', 'ec2_instance', ...; '' if there is only one
    offering         VARCHAR NOT NULL,
    price_per_hour   DECIMAL(21, 12) NOT NULL,   -- of the whole instance, amortized including upfront
    currency         VARCHAR NOT NULL,
    effective_start  DATE,                       -- valid since, according to the cloud; null if unknown
    price_as_of      DATE NOT NULL,              -- the UTC day of the query
    source           VARCHAR NOT NULL            -- 'aws pricing get_products', ...
);

-- Unit prices of an instance's parts, if a cloud sells them separately.
CREATE TABLE component_prices (
    provider         VARCHAR NOT NULL,
    region           VARCHAR NOT NULL,
    component        VARCHAR NOT NULL,           -- 'a2/cpu', 'a2/memory_gib', 'gpu/A100-SXM4-40GB', 'local_ssd_gib'
    purchase_option  VARCHAR NOT NULL,
    term_years       INTEGER NOT NULL,
    price_per_hour   DECIMAL(21, 12) NOT NULL,   -- of one vCPU, GiB or GPU
    currency         VARCHAR NOT NULL,
    price_as_of      DATE NOT NULL,
    source           VARCHAR NOT NULL
);

-- Contents of instance types from a cloud's API; the shipped catalog is the fallback.
CREATE TABLE instance_types (
    provider         VARCHAR NOT NULL,
    instance_type    VARCHAR NOT NULL,
    gpu_model        VARCHAR NOT NULL,
    gpu_count        DOUBLE NOT NULL,
    gpu_memory_mib   INTEGER,
    vcpus            DOUBLE,
    memory_gib       DOUBLE,
    seen_on          DATE NOT NULL,
    source           VARCHAR NOT NULL
);

-- Changes of spot prices: a price is valid until the next change of its (provider, zone, instance type, product).
CREATE TABLE spot_prices (
    provider         VARCHAR NOT NULL,
    region           VARCHAR NOT NULL,
    zone             VARCHAR NOT NULL,           -- '' if the source has the region only
    instance_type    VARCHAR NOT NULL,
    product          VARCHAR NOT NULL,           -- 'Linux/UNIX', ...
    instance_id      VARCHAR NOT NULL,  -- '' for the market price, otherwise the instance that was charged this price
    at_ms            BIGINT NOT NULL,            -- valid since
    to_ms            BIGINT,                     -- end of the charged time of an instance; null: until the next change
    price_per_hour   DECIMAL(21, 12) NOT NULL,   -- of the whole instance
    currency         VARCHAR NOT NULL,
    source           VARCHAR NOT NULL
);
