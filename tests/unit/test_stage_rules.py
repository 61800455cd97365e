"""Rules of single SQL stages of stored samples, prices and tokens, over tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables


def test_a_window_takes_the_place_of_what_it_covers_and_no_moment_more(tables: Tables) -> None:
    run = "series_id INT, value DOUBLE, first_ms BIGINT, last_ms BIGINT"
    tables.make(f"window_runs: {run}", "1, 5, 100, 200")
    tables.make(f"touched: {run}, from_ms BIGINT, to_ms BIGINT", "1, 7, 50, 300, 100, 200")
    tables.run("store/sql/states_merged", silence=1000)
    assert tables.rows("SELECT value, first_ms, last_ms FROM merged ORDER BY first_ms") == [
        (7, 50, 99),
        (5, 100, 200),
        (7, 201, 300),
    ]


def test_prices_before_a_node_is_up_are_left_out(tables: Tables) -> None:
    tables.add("nodes: node_id, cluster, node, up_from_ms, up_to_ms", "1, 'c', 'n', 10, 20")
    tables.add("node_prices: node_id")
    steps = {
        "cluster": ["c", "c"],
        "node": ["n", "n"],
        "from_ms": [0, 5],
        "price_source": ["book", "book"],
        "price_per_hour": ["1", "2"],
    }
    tables.run("store/sql/fleet_prices", **steps)
    assert tables.rows("SELECT from_ms, to_ms, price_per_hour FROM node_prices") == [(10, 20, 2)]


def test_the_list_price_of_a_type_is_of_the_purchase_that_is_preferred(tables: Tables) -> None:
    tables.make(
        "price_offers: provider VARCHAR, type_name VARCHAR, instance_type VARCHAR, region VARCHAR, purchase_option VARCHAR,"
        " price_per_hour DECIMAL(38, 9), is_of_region BOOLEAN, term_years INT",
        "'aws', 'P5', 'p5', 'r', 'a', 3, true, 0",
        "'aws', 'P5', 'p5', 'r', 'b', 8, true, 0",
    )
    tables.make(
        "purchase_fits: purchase_option VARCHAR, is_list BOOLEAN, capacity_type VARCHAR, preference INT",
        "'a', true, 'on_demand', 1",
        "'b', true, 'on_demand', 2",
    )
    tables.make("catalog_instances: instance_type VARCHAR, gpu_count INT", "'P5', 8")
    assert [row["per_hour"] for row in tables.answers("publish/listed_prices")] == [8]


def test_a_current_price_is_the_last_that_is_known(tables: Tables) -> None:
    tables.add(
        "nodes: node_id, node, instance_type, region, capacity_type, up_to_ms",
        "1, 'n', 'p5', 'r', 'spot', 100",
    )
    tables.add(
        "node_prices: node_id, from_ms, price_per_hour, price_source", "1, 0, 4, 'bill'", "1, 50, 0, 'none'"
    )
    assert [row["per_hour"] for row in tables.answers("publish/current_prices")] == [4]


def test_bought_tokens_of_a_model_are_the_sum_of_their_rows(tables: Tables) -> None:
    tables.make(
        "api_rows: team VARCHAR, provider VARCHAR, model VARCHAR, source VARCHAR, api_cost INT, commitment_cost INT,"
        " prompt_cost INT, generation_cost INT, prompt_tokens INT, cached_tokens INT, generation_tokens INT",
        "'a', 'aws', 'm', 's', 2, 0, 2, 2, 20, 2, 10",
        "'a', 'aws', 'm', 's', 3, 0, 3, 3, 30, 3, 15",
    )
    rows = tables.answers("report/api_cost/70_api_models", each_team=False)
    assert [(row["prompt_tokens"], row["cached_tokens"], row["generation_tokens"]) for row in rows] == [
        (50, 5, 25)
    ]
