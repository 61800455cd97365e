"""The mutants: each puts another text in the place of one that stands in a file exactly once."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = "tests/unit/test_exact_hours.py"


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
    Mutant(
        "a mixed node is cut like its label",
        "gpucost/inventory/27_unit_shares.sql",
        "ELSE least(1, compute_slices(d.profile) / coalesce(v.mig_slices, d.mig_slices))",
        "ELSE least(1, compute_slices(d.profile) / d.mig_slices)",
        ("tests/unit/test_machines.py::test_two_models_in_a_node",),
    ),
    Mutant(
        "a pod on one of two models holds both",
        "gpucost/inventory/42_node_parts.sql",
        "QUALIFY count(*) OVER (PARTITION BY node_id) > 1;",
        "QUALIFY count(*) OVER (PARTITION BY node_id) > 2;",
        ("tests/unit/test_machines.py::test_two_models_in_a_node",),
    ),
    Mutant(
        "GPUs that are added were there all along",
        "gpucost/inventory/28_gpu_counts.sql",
        "QUALIFY count(*) OVER (PARTITION BY node_id) > 1;",
        "QUALIFY count(*) OVER (PARTITION BY node_id) > 2;",
        ("tests/unit/test_machines.py::test_gpus_added_at_noon",),
    ),
    Mutant(
        "an instance type grows",
        "gpucost/inventory/26_node_facts.sql",
        "catalog_count > 0 OR unit_profile IS NOT NULL AS has_fixed_count",
        "unit_profile IS NOT NULL AS has_fixed_count",
        ("tests/unit/test_machines.py::test_an_instance_type_has_all_its_gpus_from_the_start",),
    ),
    Mutant(
        "a GPU that the node lost could have been held",
        "gpucost/attribute/days/17_absences.sql",
        "WHERE machine_gpus - gpus > 1e-6",
        "WHERE false",
        ("tests/unit/test_machines.py::test_a_lost_gpu_is_unavailable",),
    ),
    Mutant(
        "a GPU in the place of another is one more",
        "gpucost/inventory/25_node_models.sql",
        "max(last_ms) + 1 AS to_ms",
        "max(last_ms) + 360000000 AS to_ms",
        ("tests/unit/test_machines.py::test_a_gpu_in_the_place_of_another_is_not_one_more",),
    ),
    Mutant(
        "slots are as many as at last all day",
        "gpucost/inventory/27_unit_shares.sql",
        "coalesce(r.units, o.units) AS units",
        "o.units AS units",
        ("tests/unit/test_machines.py::test_slots_that_change_without_labels",),
    ),
    Mutant(
        "a machine is paid once for each of its Node objects",
        "gpucost/inventory/20_shared_machines.sql",
        "least(a.up_to_ms, b.up_to_ms) AS to_ms,",
        "least(a.up_to_ms, b.up_to_ms) - 3600000 AS to_ms,",
        ("tests/unit/test_machines.py::test_a_stale_node_object_is_not_paid",),
    ),
    Mutant(
        "a uuid that no mainboard has is an identity",
        "gpucost/inventory/20_shared_machines.sql",
        "(0{8}|1{8}|",
        "(1{8}|",
        ("tests/unit/test_machines.py::test_placeholder_uuids_prove_nothing",),
    ),
    Mutant(
        "two ready nodes of one uuid are one machine",
        "gpucost/inventory/20_shared_machines.sql",
        "coalesce(b.both_ms, 0) <= 600000",
        "coalesce(b.both_ms, 0) >= 0",
        ("tests/unit/test_machines.py::test_one_uuid_of_two_ready_nodes_proves_nothing",),
    ),
    Mutant(
        "a provider id outweighs other GPUs",
        "gpucost/inventory/20_shared_machines.sql",
        "WHEN l.gpus > 0 AND o.gpus > 0 THEN false ",
        "",
        ("tests/unit/test_machines.py::test_other_gpus_are_another_machine",),
    ),
    Mutant(
        "a GPU that two nodes measure is two GPUs",
        "gpucost/inventory/20_shared_machines.sql",
        "WHEN p.same_gpu THEN true",
        "WHEN p.same_gpu THEN false",
        ("tests/unit/test_machines.py::test_one_gpu_is_one_machine",),
    ),
    Mutant(
        "a pod named as a node of Slurm is that node",
        "gpucost/inventory/19_slurm_hosts.sql",
        "w.in_set AS is_proven",
        "true AS is_proven",
        ("tests/unit/test_slurm.py::test_a_pod_with_the_name_of_a_node_of_slurm_pays",),
    ),
    Mutant(
        "a node of Slurm is the Kubernetes node of its name",
        "gpucost/inventory/19_slurm_hosts.sql",
        "NULL, f.node, false,",
        "NULL, f.node, true,",
        ("tests/unit/test_slurm.py::test_a_name_alone_makes_no_node_of_slurm_one_of_kubernetes",),
    ),
    Mutant(
        "hpc_job ties no node of Slurm to Kubernetes",
        "gpucost/inventory/19_slurm_hosts.sql",
        "h.job_id::VARCHAR = k.pod",
        "h.job_id::VARCHAR = 'x' || k.pod",
        ("tests/unit/test_slurm.py::test_slurm_inside_kubernetes_counts_once",),
    ),
    Mutant(
        "a node name that two machines have is one node",
        "gpucost/inventory/17_twofold_nodes.sql",
        "HAVING sum(to_ms - from_ms) > 600000",
        "HAVING sum(to_ms - from_ms) > 600000000",
        ("tests/unit/test_machines.py::test_two_machines_of_one_name_are_not_collected",),
    ),
    Mutant(
        "nobody is told of a machine that may be paid for twice",
        "gpucost/attribute/days/30_warnings.sql",
        "FROM costs CROSS JOIN settings AS c;",
        "FROM costs CROSS JOIN settings AS c WHERE false;",
        ("tests/unit/test_slurm.py::test_a_name_alone_makes_no_node_of_slurm_one_of_kubernetes",),
    ),
    Mutant(
        "a lost cluster label makes another cluster",
        "gpucost/inventory/20_shared_machines.sql",
        "(t.cluster, t.node) <> (s.cluster, s.node)",
        "t.cluster = s.cluster AND t.node <> s.node",
        ("tests/unit/test_machines.py::test_a_cluster_label_lost_for_an_hour_is_paid_once",),
    ),
)
