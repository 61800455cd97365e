-- reads: nothing
-- writes: list_prices, component_prices, instance_types, spot_prices: the raw tables of prices that collectors fill
-- invariant: raw tables hold what a source said, uninterpreted; one row per fact

-- List prices as a cloud's price API gave them. The shipped catalog is not copied here: it stays beside them as the fallback.
CREATE TABLE list_prices (
    provider         VARCHAR NOT NULL,           -- 'aws', 'gcp', 'azure'
    region           VARCHAR NOT NULL,
    zone             VARCHAR NOT NULL,           -- '' where the price holds for the whole region
    instance_type    VARCHAR NOT NULL,
    purchase_option  VARCHAR NOT NULL,           -- 'on_demand', 'spot', 'reserved', 'savings_plan', 'cud', 'capacity_block'
    term_years       INTEGER NOT NULL,           -- 0 without a commitment
    payment_option   VARCHAR NOT NULL,           -- 'no_upfront', 'partial_upfront', 'all_upfront', 'monthly'; '' where there is none
    offering         VARCHAR NOT NULL,           -- 'standard', 'convertible', 'compute', 'ec2_instance', ...; '' where there is one kind
    price_per_hour   DECIMAL(21, 12) NOT NULL,   -- of the whole instance, amortized including upfront
    currency         VARCHAR NOT NULL,
    effective_start  DATE,                       -- since when the cloud says it holds; null where it does not say
    price_as_of      DATE NOT NULL,              -- the UTC day it was asked for
    source           VARCHAR NOT NULL            -- 'aws pricing get_products', ...
);

-- Unit prices of an instance's parts, where a cloud sells them apart.
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

-- What instance types hold, as a cloud's API told; the shipped catalog stays the fallback.
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

-- Changes of spot prices: a price holds until the next change of its (provider, zone, instance type, product).
CREATE TABLE spot_prices (
    provider         VARCHAR NOT NULL,
    region           VARCHAR NOT NULL,
    zone             VARCHAR NOT NULL,           -- '' where the source knows the region only
    instance_type    VARCHAR NOT NULL,
    product          VARCHAR NOT NULL,           -- 'Linux/UNIX', ...
    instance_id      VARCHAR NOT NULL,           -- '' for the market's price; else what this very instance was charged
    at_ms            BIGINT NOT NULL,            -- since when it holds
    to_ms            BIGINT,                     -- for an instance's charge the end of the time charged; null: until the next change
    price_per_hour   DECIMAL(21, 12) NOT NULL,   -- of the whole instance
    currency         VARCHAR NOT NULL,
    source           VARCHAR NOT NULL
);
