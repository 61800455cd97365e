"""Rules of single SQL stages of bills and prices, over tables of a few rows."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000
_PRICE_LIST = (
    "price_list: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, zone VARCHAR,"
    " purchase_option VARCHAR, term_years INT, payment_option VARCHAR, offering VARCHAR, price_per_hour DECIMAL(24, 12),"
    " currency VARCHAR, effective_start DATE, price_as_of DATE, origin VARCHAR, source VARCHAR, from_ms BIGINT, to_ms BIGINT"
)
_CATALOG = (
    "catalog_instances: provider VARCHAR, instance_type VARCHAR, gpu_model VARCHAR, gpu_count DOUBLE, vcpus DOUBLE,"
    " memory_gib DOUBLE"
)


def test_a_row_that_two_commitments_cover_has_a_share_of_both_fees(tables: Tables) -> None:
    tables.make(_CATALOG)
    tables.make(
        "gcp_rows: row_id INT, kind VARCHAR, sku VARCHAR, cost DECIMAL(38, 12), resource_cud DECIMAL(38, 12),"
        " spend_cud DECIMAL(38, 12), spend_cud_words VARCHAR, pricing_amount DOUBLE, pricing_unit VARCHAR, region VARCHAR,"
        " component VARCHAR, family VARCHAR, service VARCHAR, billing_account_id VARCHAR, currency VARCHAR,"
        " start_at TIMESTAMP, end_at TIMESTAMP, usage_credits DECIMAL(38, 12), has_offset BOOLEAN, instance_key VARCHAR,"
        " amount DOUBLE, unit VARCHAR, cores DOUBLE, memory_gib DOUBLE, machine_type VARCHAR",
        *(
            f"{row}, 'r', 'core', 'n1', 'Compute Engine', 'a', 'USD', '2026-10-01 00:00', '2026-10-01 01:00', 0, false, NULL,"
            " NULL, NULL, NULL, NULL, NULL"
            for row in (
                "1, 'commitment_fee', 'Commitment v1: Cpu', 4, 0, 0, NULL, 1, 'hour'",
                "2, 'commitment_fee', 'Commitment - dollar based v1: GCE', 3, 0, 0, NULL, NULL, NULL",
                "3, 'instance', 'Core', 10, -5, -5, 'compute flexible', 2, 'hour'",
                "4, 'instance', 'Core', 10, 0, -5, 'compute flexible', 2, 'hour'",
            )
        ),
    )
    tables.run("collect/bill/gcp_2_shares")
    assert tables.rows("SELECT row_id, is_fee, share FROM gcp_fees ORDER BY row_id") == [
        (1, True, 0),
        (2, True, 0),
        (3, False, 5.5),
        (4, False, 1.5),
    ]


def test_a_node_that_no_bill_knows_counts_where_it_stood_at_an_end_of_a_gap(tables: Tables) -> None:
    tables.add(
        "coverage_gaps: cluster, from_ms, to_ms, kind, families, reason",
        f"'c', {HOUR}, {2 * HOUR}, 'not_collected', [], 'nobody asked'",
        f"'c', {3 * HOUR}, {4 * HOUR}, 'not_collected', [], 'nobody asked'",
    )
    tables.add(
        "collected: cluster, from_ms, to_ms",
        *(f"'c', {first * HOUR}, {until * HOUR}" for first, until in ((0, 1), (2, 3), (4, 6))),
    )
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1")
    tables.add(
        "nodes: node_id, cluster, up_from_ms, up_to_ms",
        f"1, 'c', 0, {HOUR // 2}",
        f"2, 'c', {4 * HOUR}, {6 * HOUR}",
    )
    tables.add(
        "billed_hours: provider, account, instance_key, from_ms, to_ms, instance_hours",
        f"'aws', 'a', 'i-1', 0, {HOUR}, 1",
    )
    tables.make("billed_accounts: provider VARCHAR, account VARCHAR, cluster VARCHAR", "'aws', 'a', 'c'")
    tables.make("covered_hours: cluster VARCHAR, hour BIGINT", "'c', 1", "'c', 3")
    tables.run("price/bill/60_unbilled_time")
    assert tables.rows("SELECT from_ms, to_ms, kind, reason FROM coverage_gaps ORDER BY from_ms") == [
        (HOUR, 2 * HOUR, "off", "none of its machines was billed"),
        (3 * HOUR, 4 * HOUR, "not_collected", "nobody asked"),
    ]


def test_what_discounts_take_off_an_hour_is_spread_over_all_hours_of_a_pool(tables: Tables) -> None:
    tables.add(
        "billed_hours: instance_key, from_ms, to_ms, currency, effective_cost, discount_cost, discount_rates, instance_hours,"
        " pool, price_per_hour",
        f"'i-1', 0, {HOUR}, 'USD', 7, -1, [7], 1, 5, 6",
        f"'i-2', 0, {HOUR}, 'USD', 5, -3, [7], 1, 5, 6",
    )
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1")
    tables.add("discount_rates: rate_id, rows, first_rows", "7, 2, ['f:1', 'f:2']")
    assert tables.run("price/bill/70_discount_step", node_id=1, at_ms=0) == [
        (-2, 8, "USD", 2, ["f:1", "f:2"])
    ]


@pytest.mark.parametrize(
    ("boot", "stop"), [(HOUR, (0, HOUR // 2)), (HOUR + 1, (HOUR // 2, HOUR))], ids=["at its end", "after it"]
)
def test_a_node_that_booted_in_the_gap_stood_still_before_that(
    tables: Tables, boot: int, stop: tuple[int, int]
) -> None:
    tables.add("coverage_gaps: cluster, from_ms, to_ms, kind", f"'c', 0, {HOUR}, 'bridged'")
    tables.make("covered_hours: cluster VARCHAR, hour BIGINT", "'c', 0")
    tables.add("nodes: node_id, cluster, up_from_ms, up_to_ms", f"1, 'c', 0, {3 * HOUR}")
    tables.add("billed_nodes: instance_key, node_id, is_scale_set", "'i-1', 1, false")
    tables.add("billed_hours: instance_key, from_ms, to_ms, instance_hours", f"'i-1', 0, {HOUR}, 0.5")
    tables.add("collected: cluster, from_ms, to_ms", f"'c', 0, {3 * HOUR}")
    tables.add("node_stops: node_id, from_ms, to_ms, reason", f"1, {HOUR - 10}, {boot}, 'boot'")
    tables.run("price/bill/65_node_stops")
    assert tables.rows("SELECT from_ms, to_ms, reason FROM node_stops") == [(*stop, "bill")]


def test_a_warning_of_hours_without_their_cost_spans_all_of_them(tables: Tables) -> None:
    tables.add(
        "billed_hours: provider, billing_period, instance_key, instance_type, from_ms, to_ms, instance_hours, is_unexplained",
        f"'aws', '2026-10', 'i-1', 'p5', 0, {HOUR}, 1, true",
        f"'aws', '2026-10', 'i-1', 'p5', {HOUR}, {2 * HOUR}, 1, true",
        f"'aws', '2026-10', 'i-1', 'p5', {2 * HOUR}, {3 * HOUR}, 1, false",
    )
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1")
    tables.add("nodes: node_id, cluster", "1, 'c'")
    tables.add("warnings: code")
    tables.run("price/bill/40_billed_warnings")
    assert tables.rows("SELECT code, cluster, subject, from_ms, to_ms FROM warnings") == [
        ("unexplained_zero", "c", "p5", 0, 2 * HOUR)
    ]


def test_a_median_of_zones_is_as_old_as_the_oldest_of_its_prices(tables: Tables) -> None:
    tables.run("price/vocabulary")
    tables.make(
        "priced_nodes: node_id INT, seller VARCHAR, region VARCHAR, zone VARCHAR, zone_id VARCHAR, instance_type VARCHAR,"
        " capacity_type VARCHAR, instance_id VARCHAR, machine_share DOUBLE, up_from_ms BIGINT, up_to_ms BIGINT,"
        " billed_to_ms BIGINT",
        "1, 'aws', 'r', NULL, NULL, 'p5', 'spot', NULL, 0.5, 10, 90, 90",
    )
    steps = "'r', '{}', 'p5', 'spot', NULL, 0, 100, {}, 'USD', '2026-10-{}', 'history'"
    tables.make(
        "spot_steps: provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR, capacity_type VARCHAR,"
        " instance_id VARCHAR, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 12), currency VARCHAR, price_as_of DATE,"
        " origin VARCHAR",
        *("'aws', " + steps.format(*zone) for zone in (("ra", 4, "03"), ("rb", 6, "01"), ("rc", 9, "02"))),
    )
    tables.make(_PRICE_LIST)
    tables.make(
        "book_fits: node_id INT, start_ms BIGINT, specificity INT, price_per_hour DECIMAL(38, 12), currency VARCHAR,"
        " price_as_of DATE, purchase_option VARCHAR, line INT"
    )
    tables.make(
        "bill_candidates: node_id INT, from_ms BIGINT, to_ms BIGINT, rank INT, price_per_hour DECIMAL(38, 12),"
        " currency VARCHAR, rate DECIMAL(18, 12), price_source VARCHAR, price_as_of DATE, purchase_option VARCHAR, origin VARCHAR"
    )
    tables.run("price/40_price_candidates")
    assert tables.rows(
        "SELECT from_ms, to_ms, price_per_hour, price_as_of, origin FROM price_candidates"
    ) == [(10, 90, 3, date(2026, 10, 1), "lower median of 3 zones, r spot history")]


def test_a_node_on_which_two_pods_hold_an_unknown_resource_is_one_node(tables: Tables) -> None:
    tables.make(
        "unlisted_holdings: cluster VARCHAR, namespace VARCHAR, uid VARCHAR, node_id INT, resource VARCHAR, units DOUBLE,"
        " part DOUBLE, from_ms BIGINT, to_ms BIGINT",
        f"'c', 'a', 'u1', 1, 'x.org/y', 1, 0.5, 0, {HOUR}",
        f"'c', 'b', 'u2', 1, 'x.org/y', 1, 0.5, 0, {2 * HOUR}",
    )
    tables.make(
        "price_segments: node_id INT, from_ms BIGINT, to_ms BIGINT, price_per_hour DOUBLE", f"1, 0, {HOUR}, 8"
    )
    tables.add("warnings: code")
    tables.run("price/62_unlisted_resources", currency="USD")
    ((message,),) = tables.rows("SELECT message FROM warnings")
    assert message.endswith(
        "3.0 hours of it held by 2 pods of a, b on 1 node, worth 8.00 USD of what nodes cost,"
        " 1970-01-01T00:00Z to 1970-01-01T02:00Z"
    )


def test_a_node_without_gpus_wants_no_prices(tables: Tables) -> None:
    tables.add(
        "nodes: node_id, provider, capacity_type, gpu_count, up_from_ms, up_to_ms",
        "1, 'aws', 'on_demand', 0, 0, 10",
        "2, 'gcp', 'on_demand', 1, 0, 10",
        "3, 'azure', 'spot', 1, 0, 10",
    )
    tables.add("loads: kind, source, to_ms")
    asked = tables.run("price/70_wanting_prices", from_ms=0, to_ms=10, now_ms=10, days=7)
    assert asked == [("prices", "azure"), ("prices", "gcp"), ("spot", "azure")]


def test_a_list_price_of_an_unknown_machine_is_listed_without_what_it_holds(tables: Tables) -> None:
    tables.run("price/vocabulary")
    tables.make(_CATALOG, "'aws', 'p5', 'H100', 8, 192, 2048")
    row = "'r', NULL, 'on_demand', 0, '', '', {}, 'USD', NULL, '2026-10-01', 'collected', 'aws', 0, 4000000000000"
    tables.make(_PRICE_LIST, "'aws', 'p5', 'p5', " + row.format(8), "'aws', 'new', 'new', " + row.format(9))
    tables.add("spot_prices: provider")
    tables.add("instance_types: provider")
    tables.add("loads: kind, source, to_ms")
    tables.run("price/listed_instances")
    tables.run("price/listed_prices", today="2026-10-05")
    assert tables.rows(
        "SELECT instance_type, price_per_hour, gpu_model, gpu_count, status FROM listed_prices ORDER BY price_per_hour"
    ) == [("p5", 8, "H100", 8, "current"), ("new", 9, None, None, "current")]
