-- reads: nodes, loads, coverage_gaps, series
-- writes: settings, state_intervals, untracked_time, node_devices, profile_devices, node_hosts, node_parts, unit_shares, unlisted_holdings, unlisted_nodes, allocation_devices, allocation_hosts, unproven_ends, allocation_teams, closed_nodes, told_activity, told_devices, slurm_hosts, slurm_loads, slurm_users, bridged_gaps, error_series, sliced_shares, unbound_requests, unnamed_samples
-- invariant: the temporary tables that inventory hands to price and attribution, empty; each is filled by the stage of its name (settings by load_settings), which defines its rows; a described fleet fills only allocation_teams
CREATE OR REPLACE TEMP TABLE settings (
    threshold_percent DOUBLE, mig_share VARCHAR, max_bridge_ms BIGINT, hami_default_mem DOUBLE, hami_memory_scaling DOUBLE,
    teams_configured BOOLEAN, currency VARCHAR, team_namespace_label VARCHAR,
    team_pod_label VARCHAR, charge_reservations BOOLEAN, slurm_in_kubernetes VARCHAR[]);
CREATE OR REPLACE TEMP TABLE state_intervals (
    cluster VARCHAR, metric VARCHAR, labels MAP(VARCHAR, VARCHAR), namespace VARCHAR, pod VARCHAR, uid VARCHAR, container VARCHAR,
    node VARCHAR, resource VARCHAR, value DOUBLE, begin_ms BIGINT, first_ms BIGINT, last_ms BIGINT, end_ms BIGINT);
CREATE OR REPLACE TEMP TABLE untracked_time (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE node_devices (
    series_id INTEGER, cluster VARCHAR, uuid VARCHAR, gpu_instance_id VARCHAR, profile VARCHAR, host VARCHAR,
    node_label VARCHAR, model_name VARCHAR, namespace VARCHAR, pod VARCHAR, by_claim BOOLEAN, job_id UBIGINT,
    target_id UBIGINT, first_ms BIGINT, last_ms BIGINT, end_ms BIGINT, unit VARCHAR, usual_scale DOUBLE, scale
    DOUBLE, node_id UBIGINT, up_from_ms BIGINT, up_to_ms BIGINT, device_id UBIGINT);
CREATE OR REPLACE TEMP TABLE profile_devices (
    series_id INTEGER, device_id UBIGINT, scale DOUBLE, usual_scale DOUBLE, first_ms BIGINT, end_ms BIGINT, measure VARCHAR);
CREATE OR REPLACE TEMP TABLE node_hosts (node_id UBIGINT, part VARCHAR, units DOUBLE);
CREATE OR REPLACE TEMP TABLE node_parts (
    node_id UBIGINT, part_id UBIGINT, gpu_model VARCHAR, gpu_count DOUBLE, machine_gpus DOUBLE, uuids VARCHAR[], profiles VARCHAR[],
    is_sliced BOOLEAN, has_slices BOOLEAN, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE unit_shares (
    node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, resource VARCHAR, profile VARCHAR, part DOUBLE, shared BOOLEAN, share DOUBLE,
    offered_share DOUBLE, virtual BOOLEAN, guessed_virtual BOOLEAN);
CREATE OR REPLACE TEMP TABLE unlisted_holdings (
    cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node_id UBIGINT, resource VARCHAR, units DOUBLE, part DOUBLE, from_ms BIGINT,
    to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE unlisted_nodes AS FROM nodes LIMIT 0;
CREATE OR REPLACE TEMP TABLE allocation_devices (allocation_id UBIGINT, device_id UBIGINT, weight DOUBLE);
CREATE OR REPLACE TEMP TABLE allocation_hosts (allocation_id UBIGINT, part VARCHAR, units DOUBLE);
CREATE OR REPLACE TEMP TABLE unproven_ends (allocation_id UBIGINT, cluster VARCHAR, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE closed_nodes (cluster VARCHAR, node VARCHAR, cause VARCHAR, gpus DOUBLE, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE slurm_hosts (
    cluster VARCHAR, node VARCHAR, kube_cluster VARCHAR, pod_uid VARCHAR, kube_node VARCHAR, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE slurm_users (allocation_id UBIGINT, account VARCHAR, "user" VARCHAR, partition VARCHAR, qos VARCHAR);
CREATE OR REPLACE TEMP TABLE told_devices (allocation_id UBIGINT, device_id UBIGINT);
CREATE OR REPLACE TEMP TABLE told_activity (allocation_id UBIGINT, utilization DOUBLE);
CREATE OR REPLACE TEMP TABLE allocation_teams (allocation_id UBIGINT, from_ms BIGINT, to_ms BIGINT, team VARCHAR);
CREATE OR REPLACE TEMP VIEW slurm_loads AS FROM loads WHERE kind = 'slurm';
-- views by which most fleets skip stages
CREATE OR REPLACE TEMP VIEW unnamed_samples AS
    FROM state_intervals WHERE uid IS NULL AND namespace IS NOT NULL AND pod IS NOT NULL AND starts_with(metric, 'kube_pod_');
CREATE OR REPLACE TEMP VIEW unbound_requests AS
    FROM state_intervals
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND uid IS NOT NULL AND coalesce(node, '') = '';
CREATE OR REPLACE TEMP VIEW sliced_shares AS FROM unit_shares WHERE profile IS NOT NULL;
CREATE OR REPLACE TEMP VIEW error_series AS
    SELECT s.*, m.cause, m.is_last
    FROM series AS s JOIN (
        -- the code of the last error, or a count
        VALUES ('DCGM_FI_DEV_XID_ERRORS', 'xid', true), ('DCGM_FI_DEV_XID_ERROR', 'xid', true), ('DCGM_EXP_XID_ERRORS_TOTAL', 'xid', false),
            ('DCGM_FI_DEV_ECC_DBE_VOL_TOTAL', 'uncorrectable_ecc', false),
            ('DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS', 'row_remap', false), ('DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL', 'row_remap', false),
            ('DCGM_FI_DEV_ROW_REMAP_FAILURE', 'row_remap_failure', false), ('DCGM_FI_DEV_ROW_REMAP_FAILED', 'row_remap_failure', false)
    ) AS m (metric, cause, is_last) USING (metric);
CREATE OR REPLACE TEMP VIEW bridged_gaps AS FROM coverage_gaps WHERE kind = 'bridged';
