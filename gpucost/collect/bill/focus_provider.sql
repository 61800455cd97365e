-- reads: nothing
-- writes: the macro focus_provider(service_provider, provider, publisher, issuer): whose a FOCUS row is, as `charges.provider` has it
-- invariant: the first name that is there decides
CREATE OR REPLACE TEMP MACRO focus_provider(service_provider, provider, publisher, issuer) AS
    CASE WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(aws|amazon)', 'i') THEN 'aws'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(google|gcp$)', 'i') THEN 'gcp'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(microsoft|azure)', 'i') THEN 'azure'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^oracle', 'i') THEN 'oci'
         ELSE lower(coalesce(service_provider, provider, publisher, issuer))
    END;
