"""The mutants: each puts another text in the place of one that stands in a file exactly once."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = "tests/unit/test_exact_hours.py"
PLAIN = "tests/unit/test_plain_hosts.py"


@dataclass(frozen=True)
class Mutant:
    """A broken formula. `tests` are part of `make test`; one of them at least has to fail by an assertion."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "whole hours are 2 % more idle",
        "gpucost/attribute/66_device_hours.sql",
        "idle_samples * each_ms",
        "idle_samples * 1.02 * each_ms",
        (f"{EXACT}::test_a_whole_hour_that_is_idle_in_part",),
    ),
    Mutant(
        "a sample speaks over 4.5 intervals",
        "gpucost/attribute/72_sample_intervals.sql",
        "<= 2.5 *",
        "<= 4.5 *",
        (f"{EXACT}::test_a_sample_before_a_gap_speaks_for_one_interval",),
    ),
    Mutant(
        "a holding that ends between even samples has part of their sum",
        "gpucost/attribute/71_device_readings.sql",
        "OR (r.first_offset_ms < h.to_offset_ms AND h.to_offset_ms < r.last_offset_ms)",
        "OR (false)",
        (f"{EXACT}::test_a_pod_on_an_unlabeled_device_has_the_activity_of_its_own_minutes",),
    ),
    Mutant(
        "a run of equal hours goes on though a pod ended",
        "gpucost/attribute/11_node_segments.sql",
        "unnest([held_from_ms, held_to_ms]) FROM allocations",
        "unnest([held_from_ms, held_from_ms]) FROM allocations",
        (f"{EXACT}::test_equal_hours_cost_alike_up_to_the_minute_that_one_changes",),
    ),
    Mutant(
        "a slot is cut by the least that its node ever offered",
        "gpucost/inventory/27_unit_shares.sql",
        "arg_max(f.value, f.last_ms)",
        "min(f.value)",
        (f"{EXACT}::test_a_slot_is_cut_by_what_the_node_offers_at_last",),
    ),
    Mutant(
        "labels are as of the cell, not of its hour",
        "gpucost/attribute/60_cost_runs.sql",
        "t.from_ms <= s.from_ms // 3600000 * 3600000 AND s.from_ms // 3600000 * 3600000 < t.to_ms",
        "t.from_ms <= s.from_ms AND s.from_ms < t.to_ms",
        ("tests/services/test_hard_cases.py::test_a_report_of_an_odd_period_leaves_other_reports_as_they_are",),
    ),
    Mutant(
        "a share is a fifth of a percent too small",
        "gpucost/attribute/50_shares.sql",
        "greatest(h.capacity_unit_ms, h.held_unit_ms) AS share",
        "greatest(h.capacity_unit_ms, h.held_unit_ms) * 0.998 AS share",
        (f"{EXACT}::test_a_whole_hour_that_is_idle_in_part", f"{EXACT}::test_more_held_than_there_is"),
    ),
    Mutant(
        "what rounding leaves goes to the smallest share",
        "gpucost/attribute/51_allocated_costs.sql",
        "ORDER BY round(s.share, 12) DESC, s.uid",
        "ORDER BY round(s.share, 12), s.uid",
        (f"{EXACT}::test_what_rounding_leaves_goes_to_the_largest_share",),
    ),
    Mutant(
        "a sentinel is a value",
        "gpucost/store/metrics.py",
        "[0, 1, 2], -1)",
        "[0, -1, 2], -1)",
        ("tests/services/test_hard_cases.py::test_four_of_five_samples_make_no_sense",),
    ),
    Mutant(
        "a spot price begins with the next whole hour",
        "gpucost/price/13_spot_steps.sql",
        "at_ms AS from_ms,",
        "(at_ms + 3599999) // 3600000 * 3600000 AS from_ms,",
        ("tests/unit/test_price_sources.py::test_a_spot_price_holds_until_the_next_change",),
    ),
    Mutant(
        "a pool's price is the mean of its machines' prices",
        "gpucost/price/bill/30_billed_hours.sql",
        "greatest(sum(cost), 0) / sum(hours)",
        "greatest(avg(cost / hours), 0)",
        ("tests/unit/test_price_bill.py::test_machines_of_one_kind_share_commitments_or_keep_what_they_were_billed",),
    ),
    Mutant(
        "a host on which a pod of Kubernetes runs is a machine of its own",
        "gpucost/inventory/20_plain_hosts.sql",
        "WHERE o.has_nodes AND f.metric = 'kube_pod_info'",
        "WHERE false",
        (f"{PLAIN}::test_a_plain_host_in_a_cluster_of_kubernetes_is_a_node_if_it_is_named",),
    ),
    Mutant(
        "every host is a node of its cluster",
        "gpucost/inventory/20_plain_hosts.sql",
        "WHERE r.ordinal IS NOT NULL OR NOT h.has_nodes",
        "WHERE true",
        (f"{PLAIN}::test_a_plain_host_in_a_cluster_of_kubernetes_is_a_node_if_it_is_named",),
    ),
    Mutant(
        "two exporters on a machine are two machines",
        "gpucost/inventory/20_plain_hosts.sql",
        "WHERE q.node IS NULL OR q.node > p.node",
        "WHERE false",
        (f"{PLAIN}::test_two_exporters_on_a_machine_are_one_machine",),
    ),
    Mutant(
        "the last of [[hosts]] that names a host wins",
        "gpucost/inventory/20_plain_hosts.sql",
        "ORDER BY r.ordinal) = 1",
        "ORDER BY r.ordinal DESC) = 1",
        (f"{PLAIN}::test_the_first_of_the_settings_that_names_a_host_wins",),
    ),
    Mutant(
        "UUIDs of two exporters differ",
        "gpucost/inventory/13_device_series.sql",
        "'GPU-\\0'",
        "'\\0'",
        (f"{PLAIN}::test_two_exporters_on_a_machine_are_one_machine",),
    ),
    Mutant(
        "nvidia_gpu_exporter tells no model",
        "gpucost/inventory/13_device_series.sql",
        "WHERE metric = 'nvidia_smi_gpu_info'",
        "WHERE false",
        (f"{PLAIN}::test_hosts_without_a_user_label_are_unallocated_and_the_report_says_how_busy",),
    ),
    Mutant(
        "an exporter that never names a user ends what another says of users",
        "gpucost/inventory/41_plain_allocated.sql",
        'count("user") OVER (PARTITION BY d.device_id, d.target_id) > 0',
        "true",
        (f"{PLAIN}::test_two_exporters_on_a_machine_are_one_machine",),
    ),
    Mutant(
        "an hour of a series is one run, whatever its pauses",
        "gpucost/inventory/41_plain_allocated.sql",
        "(samples - 1) * gap_ms <= 600000",
        "(samples - 1) * gap_ms <= 6000000",
        (f"{PLAIN}::test_a_pause_within_an_hour_is_bridged_as_far_as_the_settings_say",),
    ),
    Mutant(
        "a host that is silent for long is paid for",
        "gpucost/inventory/41_plain_allocated.sql",
        "WHERE s.to_ms - s.from_ms > c.max_bridge_ms",
        "WHERE false",
        (f"{PLAIN}::test_a_host_that_is_silent_for_long_costs_nothing_then",),
    ),
    Mutant(
        "a user holds a GPU through any silence",
        "gpucost/inventory/41_plain_allocated.sql",
        "from_ms - lag(to_ms) OVER w > c.max_bridge_ms",
        "false",
        (f"{PLAIN}::test_a_host_that_is_silent_for_long_costs_nothing_then",),
    ),
    Mutant(
        "one user follows another and holds the GPU from the first on",
        "gpucost/inventory/41_plain_allocated.sql",
        '"user" IS DISTINCT FROM lag("user") OVER w OR',
        "",
        (f"{PLAIN}::test_users_by_label_hold_the_gpus_whose_series_carry_them",),
    ),
    Mutant(
        "a slice of a plain host is a whole GPU",
        "gpucost/inventory/41_plain_allocated.sql",
        "compute_slices(max(s.profile)) / n.mig_slices",
        "compute_slices(max(s.profile)) / 1",
        (f"{PLAIN}::test_a_slice_of_a_plain_host_is_a_part_of_its_gpu",),
    ),
    Mutant(
        "nobody is missed on hosts without users",
        "gpucost/inventory/63_warnings.sql",
        "WHERE h.labels IS NOT NULL AND h.node_id NOT IN",
        "WHERE false AND h.node_id NOT IN",
        (f"{PLAIN}::test_hosts_without_a_user_label_are_unallocated_and_the_report_says_how_busy",),
    ),
    Mutant(
        "kube-state-metrics is to be installed for hosts that are described",
        "gpucost/inventory/63_warnings.sql",
        "AND (code <> 'no_kube_state_metrics' OR",
        "AND (true OR",
        (f"{PLAIN}::test_hosts_without_a_user_label_are_unallocated_and_the_report_says_how_busy",),
    ),
    Mutant(
        "users of hosts have no proven end",
        "gpucost/inventory/46_unproven_ends.sql",
        "a.resource <> 'plain_gpu' AND ",
        "",
        (f"{PLAIN}::test_users_by_label_hold_the_gpus_whose_series_carry_them",),
    ),
    Mutant(
        "a day begins twelve hours before its noon",
        "gpucost/periods.py",
        "return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)",
        "return datetime(day.year, day.month, day.day, 12, tzinfo=tz).astimezone(UTC) - timedelta(hours=12)",
        ("tests/unit/test_report_periods.py::test_days_of_a_clock_change_have_23_and_25_hours",),
    ),
    Mutant(
        "only the last epoch before a restart is lost",
        "gpucost/report/units/work.py",
        "parts = _lose(parts, level + 1)",
        "parts = [*parts[:-1], *_lose(parts[-1:], level + 1)]",
        ("tests/unit/test_unit_epochs.py::test_work_after_a_restart_from_nothing_loses_what_was_done",),
    ),
    Mutant(
        "an exchange rate begins at midnight in UTC",
        "gpucost/price/fx.py",
        "else to_ms(local_midnight(day, config.tz))",
        "else round((day - date(1970, 1, 1)).total_seconds() * 1000)",
        ("tests/unit/test_price_fx_discounts.py::test_prices_are_cut_where_the_rate_of_a_local_day_changes",),
    ),
    Mutant(
        "an exporter names its pod in the pauses of a series, too",
        "gpucost/inventory/16_family_gaps.sql",
        "WHERE next_ms - offset_ms <= 600000",
        "WHERE next_ms > offset_ms",
        ("tests/property/test_random_coverage.py::test_pause_of_a_notebook_is_collected",),
    ),
    Mutant(
        "no exporter is evidence of a missing pod",
        "gpucost/inventory/16_family_gaps.sql",
        "    SELECT cluster, unnest(['pods', 'requests']), first_ms, last_ms FROM exported",
        "    SELECT cluster, unnest(['pods', 'requests']), first_ms, last_ms FROM exported WHERE false",
        ("tests/property/test_random_coverage.py::test_exporter_that_names_a_pod_proves_that_its_metrics_are_missing",),
    ),
)
