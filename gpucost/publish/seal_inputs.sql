-- reads: series, blocks, states, bills, bill_lines, bill_details, spot_prices, list_prices, component_prices, instance_types, slurm_runs, slurm_steps, slurm_devices, slurm_nodes, slurm_events, slurm_reservations, slurm_accounts, progress_series, progress_values, progress_runs; $start, $end in milliseconds; $month
-- writes: nothing: one row per (kind, source) with the store's data for the month: rows, and a checksum
-- invariant: a checksum depends neither on the order of rows nor on the numbers that a load assigns; continuing data counts up to the month's end
WITH blocks_of AS (
    -- sums of each series, weighted by hour, so that moving a value to another hour changes them
    SELECT s.cluster, s.source, count(*) AS rows,
        md5_number_lower(row(s.metric, s.labels, count(*), sum(b.samples), sum(b.hour::HUGEINT * b.samples),
            sum(b.hour::HUGEINT * (b.value_sum * 1000)::HUGEINT), sum(b.hour::HUGEINT * b.first_offset_ms),
            sum(b.hour::HUGEINT * b.last_offset_ms))::VARCHAR) AS checksum
    FROM blocks AS b JOIN series AS s USING (series_id)
    WHERE b.hour >= $start // 3600000 - 24 AND b.hour < ($end + 3599999) // 3600000
    GROUP BY s.cluster, s.source, s.metric, s.labels
),
inputs AS (
    SELECT 'metrics' AS kind, concat(cluster, ' from ', source) AS source, rows, checksum FROM blocks_of
    UNION ALL
    SELECT 'metrics', concat(s.cluster, ' from ', s.source), 1,
        md5_number_lower(row(s.metric, s.labels, t.value, t.first_ms, least(t.last_ms, $end))::VARCHAR)
    FROM states AS t JOIN series AS s USING (series_id)
    WHERE t.first_ms < $end AND t.last_ms >= $start - 86400000
    UNION ALL
    SELECT 'bill', concat_ws(' ', b.source, b.billing_period), b.rows,
        md5_number_lower(row(b.digest, b.is_final, sum(l.billed_cost), sum(l.effective_cost))::VARCHAR)
    FROM bills AS b
    LEFT JOIN bill_details AS d USING (bill_id)
    LEFT JOIN bill_lines AS l USING (batch_id, detail_id)
    WHERE b.billing_period IN ($month, strftime(make_timestamp($start * 1000), '%Y-%m'), strftime(make_timestamp(($end - 1) * 1000), '%Y-%m'))
    GROUP BY b.bill_id, b.source, b.billing_period, b.rows, b.digest, b.is_final
    UNION ALL
    SELECT 'spot prices', provider, 1, md5_number_lower(t::VARCHAR)
    FROM spot_prices AS t WHERE at_ms >= $start - 604800000 AND at_ms < $end
    UNION ALL
    SELECT 'list prices', provider, 1, md5_number_lower(t::VARCHAR) FROM list_prices AS t
    UNION ALL
    SELECT 'list prices', provider, 1, md5_number_lower(t::VARCHAR) FROM component_prices AS t
    UNION ALL
    SELECT 'list prices', provider, 1, md5_number_lower(t::VARCHAR) FROM instance_types AS t
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR)
    FROM slurm_runs AS t WHERE coalesce(start_ms, submit_ms) < $end AND coalesce(end_ms, $end) > $start
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR)
    FROM slurm_steps AS t WHERE start_ms < $end AND coalesce(end_ms, $end) > $start
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR)
    FROM slurm_devices AS t WHERE submit_ms < $end
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR) FROM slurm_nodes AS t WHERE seen_ms < $end
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR)
    FROM slurm_events AS t WHERE from_ms < $end AND coalesce(to_ms, $end) > $start
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR)
    FROM slurm_reservations AS t WHERE from_ms < $end AND to_ms > $start
    UNION ALL
    SELECT 'Slurm', cluster, 1, md5_number_lower(t::VARCHAR) FROM slurm_accounts AS t
    UNION ALL
    SELECT 'progress', s.source, 1, md5_number_lower(row(s.mapping, s.unit, s.labels, v.at_ms, v.value)::VARCHAR)
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE v.at_ms >= $start AND v.at_ms < $end
    UNION ALL
    SELECT 'progress', source, 1, md5_number_lower(row(run_id, status, started_ms, ended_ms, workload)::VARCHAR)
    FROM progress_runs WHERE started_ms < $end AND coalesce(ended_ms, $end) > $start
)
SELECT kind, source, sum(rows)::BIGINT AS rows, printf('%032x', sum(checksum)::UHUGEINT) AS checksum
FROM inputs
GROUP BY kind, source
ORDER BY kind, source;
