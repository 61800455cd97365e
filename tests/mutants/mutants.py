"""The mutants: each puts another text in the place of one that stands in a file exactly once."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = "tests/unit/test_exact_hours.py"
ACTIVITY = "tests/unit/test_activity_metrics.py"


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
        "a metric of a newer exporter does not count",
        "gpucost/catalog.py",
        "add(part, (same or [mine]) +",
        "add(part, [mine] +",
        (f"{ACTIVITY}::test_exporter_upgraded_within_an_hour_leaves_no_gap",),
    ),
    Mutant(
        "a value above 1 proves no percentage",
        "gpucost/inventory/13_activity_series.sql",
        "WHEN t.high > 1.01 OR l.high > 1.01 THEN 1",
        "WHEN t.high > 101 OR l.high > 101 THEN 1",
        (f"{ACTIVITY}::test_percentages_under_the_name_of_a_ratio",),
    ),
    Mutant(
        "values between 0 and 1 are percentages without proof",
        "gpucost/inventory/13_activity_series.sql",
        "OR l.has_parts IS NOT TRUE THEN t.usual_scale",
        "OR true THEN t.usual_scale",
        (f"{ACTIVITY}::test_ratios_under_the_old_name_are_unmeasured_without_proof",),
    ),
    Mutant(
        "a hundredth of the engine proves a ratio",
        "gpucost/inventory/13_activity_series.sql",
        "WHEN a.part_of >= 0.1 OR",
        "WHEN a.part_of >= 0.001 OR",
        (f"{ACTIVITY}::test_averaged_percentages_of_an_idle_fleet_are_never_ratios",),
    ),
    Mutant(
        "an idle GPU's power proves a ratio",
        "gpucost/inventory/13_activity_series.sql",
        "a.of_tdp >= 0.4)",
        "a.of_tdp >= 0.1)",
        (f"{ACTIVITY}::test_averaged_percentages_of_an_idle_fleet_are_idle_by_power",),
    ),
    Mutant(
        "a later proof leaves earlier days as they are",
        "gpucost/attribute/days/20_day_fingerprints.sql",
        "WHERE scale IS DISTINCT FROM usual_scale",
        "WHERE scale < usual_scale",
        (f"{ACTIVITY}::test_later_proof_corrects_a_day_that_no_load_touches",),
    ),
    Mutant(
        "a core is a device",
        "gpucost/inventory/41_allocation_devices.sql",
        "WHEN 'core' THEN 1 / c.size",
        "WHEN 'core' THEN 1",
        (f"{ACTIVITY}::test_neuron_cores_are_parts_of_a_device",),
    ),
    Mutant(
        "levels that alternate are restarts",
        "gpucost/report/units/35_processes.sql",
        "OVER (PARTITION BY series_id ORDER BY number) < 10",
        "OVER (PARTITION BY series_id ORDER BY number) < 1",
        ("tests/unit/test_unit_serving.py::test_workers_behind_one_name_are_added_up_by_their_levels",),
    ),
    Mutant(
        "a restart is an alternation",
        "gpucost/report/units/35_processes.sql",
        "before <= after AND (value > 0 OR before < after)",
        "true",
        ("tests/unit/test_unit_serving.py::test_restarts_are_no_processes",),
    ),
    Mutant(
        "levels that lie within each other's rises are told apart",
        "gpucost/report/units/processes.py",
        "numbers if most < least else None",
        "numbers",
        ("tests/unit/test_unit_serving.py::test_workers_with_levels_alike_are_left_out_and_named",),
    ),
    Mutant(
        "a requeued job is known by its eligibility alone",
        "gpucost/inventory/63_slurm_warnings.sql",
        "r.submit_ms > r.later_ms",
        "false",
        ("tests/unit/test_slurm.py::test_requeued_jobs_without_their_earlier_runs_are_named",),
    ),
    Mutant(
        "any pod that shares a GPU explains every reservation of its node",
        "gpucost/inventory/33_reservations.sql",
        ">= any_value(h.place)",
        "> 0",
        ("tests/unit/test_resource_shares.py::test_a_reservation_whose_pod_is_hidden_holds_though_others_are_known",),
    ),
    Mutant(
        "scaled memory is divided by what there is",
        "gpucost/inventory/33_pod_parts.sql",
        "m.memory_mib * c.hami_memory_scaling",
        "m.memory_mib::DOUBLE",
        ("tests/unit/test_nothing_hidden.py::test_memory_that_hami_scales_is_divided_by_it",),
    ),
    Mutant(
        "memory beyond the GPU's goes without a word",
        "gpucost/inventory/67_resource_warnings.sql",
        "memory > most + 0.02",
        "memory > most + 9",
        ("tests/unit/test_nothing_hidden.py::test_memory_that_hami_scales_is_divided_by_it",),
    ),
    Mutant(
        "a label in conflict has one of its values",
        "gpucost/inventory/21_label_history.sql",
        "THEN 'unassigned'",
        "THEN min(entry.value)",
        ("tests/unit/test_nothing_hidden.py::test_a_label_in_conflict_with_itself_counts_where_it_agrees",),
    ),
    Mutant(
        "any labels tell that a node is on demand",
        "gpucost/inventory/26_node_facts.sql",
        "labels IS NOT NULL AND (tells_launch OR",
        "labels IS NOT NULL AND (true OR",
        ("tests/unit/test_nothing_hidden.py::test_a_node_without_a_spot_label_is_on_demand_if_the_cluster_shows_one",),
    ),
    Mutant(
        "the exporter is believed to name all pods of a claim",
        "gpucost/inventory/67_resource_warnings.sql",
        "WHERE h.cluster NOT IN (SELECT cluster FROM claim_pods)",
        "WHERE false",
        ("tests/unit/test_resource_shares.py::test_a_claim_that_the_exporter_alone_knows_is_said_to_have_other_pods",),
    ),
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
        "greatest(first_ms, from_ms), least(last_ms, to_ms) FROM exported\n",
        "greatest(first_ms, from_ms), least(last_ms, to_ms) FROM exported WHERE false\n",
        ("tests/property/test_random_coverage.py::test_exporter_that_names_a_pod_proves_that_its_metrics_are_missing",),
    ),
    Mutant(
        "a family is heard of in collected objects alone",
        "gpucost/inventory/14_family_spans.sql",
        "        WHEN metric = 'kube_family_samples' THEN labels['family']\n",
        "",
        ("tests/services/test_family_samples.py::test_family_is_collected_while_the_server_has_samples_of_any_object",),
    ),
    Mutant(
        "a family that the server lost is no gap where no GPU pod ran",
        "gpucost/inventory/16_family_gaps.sql",
        "o.metric = 'kube_family_samples' AND o.labels['family'] = g.family",
        "false",
        ("tests/services/test_family_samples.py::test_family_is_collected_while_the_server_has_samples_of_any_object",),
    ),
    Mutant(
        "pods of one namespace may be missing",
        "gpucost/inventory/16_family_gaps.sql",
        "FROM exported AS e JOIN family_spans AS s ON s.cluster = e.cluster AND s.family = 'pods'",
        "FROM exported AS e JOIN family_spans AS s ON false",
        ("tests/services/test_family_samples.py::test_family_is_collected_while_the_server_has_samples_of_any_object",),
    ),
    Mutant(
        "a family's gap is named as the time after the last sample",
        "gpucost/inventory/18_coverage_gaps.sql",
        "WHERE s.from_ms = 0 OR s.to_ms = 9223372036854775807\n",
        "WHERE false\n",
        (
            "tests/unit/test_coverage_time.py::test_a_family_that_ends_for_good_is_a_gap_where_others_show_that_there_was_something",
        ),
    ),
    Mutant(
        "a dead target is no gap",
        "gpucost/inventory/17_dead_targets.sql",
        "s.object = o.object AND s.last_ms > o.last_ms",
        "s.object = o.object AND s.last_ms >= o.last_ms",
        ("tests/unit/test_coverage_time.py::test_dead_target_whose_objects_no_other_reports_is_a_gap",),
    ),
    Mutant(
        "who takes over a dead target's objects does not end its gap",
        "gpucost/inventory/17_dead_targets.sql",
        "least(o.next_ms, any_value(r.at_ms), o.heard_ms)",
        "least(o.next_ms, o.heard_ms)",
        ("tests/unit/test_coverage_time.py::test_target_that_is_another_after_a_restart_is_no_gap",),
    ),
    Mutant(
        "the end of a slice gives way to none",
        "gpucost/inventory/35_contested_ends.sql",
        "WHERE l.gpus - f.gpu_count > 1e-6",
        "WHERE l.gpus - f.gpu_count > 0.5",
        ("tests/unit/test_contested_ends.py::test_end_of_a_slice_gives_way",),
    ),
    Mutant(
        "all ends give way",
        "gpucost/inventory/35_contested_ends.sql",
        "FROM in_order WHERE excess > 0",
        "FROM in_order",
        ("tests/unit/test_contested_ends.py::test_several_ends_give_way_to_several_successors",),
    ),
    Mutant(
        "half a scrape interval is over-allocation",
        "gpucost/inventory/47_over_allocated.sql",
        ">= coalesce(i.interval_ms, 60000)",
        ">= coalesce(i.interval_ms, 60000) / 2",
        ("tests/unit/test_contested_ends.py::test_over_allocation_is_reported_from_one_scrape_interval_on",),
    ),
    Mutant(
        "a removed label of a namespace holds",
        "gpucost/inventory/21_label_history.sql",
        "min(name) OVER near <> max(name) OVER near",
        "true",
        ("tests/services/test_hard_cases.py::test_label_of_the_only_namespace_holds_if_its_name_is_lost_too",),
    ),
    Mutant(
        "labels that all namespaces lose are lost",
        "gpucost/inventory/21_label_history.sql",
        "min(name) OVER near <> max(name) OVER near",
        "false",
        ("tests/services/test_hard_cases.py::test_labels_that_all_namespaces_lose_at_once_hold",),
    ),
)
