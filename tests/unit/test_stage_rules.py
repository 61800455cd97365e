"""Rules of single SQL stages, over tables of a few rows."""

from __future__ import annotations

from decimal import Decimal

import duckdb

from gpucost.engine import answer_rows
from gpucost.store import sqlfiles


def test_a_window_takes_the_place_of_what_it_covers_and_no_moment_more() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE window_runs AS SELECT 1 AS series_id, 5.0 AS value, 100 AS first_ms, 200 AS last_ms"
        )
        con.execute(
            "CREATE TABLE touched AS SELECT 1 AS series_id, 7.0 AS value, 50 AS first_ms, 300 AS last_ms,"
            " 100 AS from_ms, 200 AS to_ms"
        )
        sqlfiles.run(con, "states_merged", {"silence": 1000})
        rows = con.execute("SELECT value, first_ms, last_ms FROM merged ORDER BY first_ms").fetchall()
    assert rows == [(7, 50, 99), (5, 100, 200), (7, 201, 300)]


def test_prices_before_a_node_is_up_are_left_out() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE nodes AS SELECT 1 AS node_id, 'c' AS cluster, 'n' AS node, 10 AS up_from_ms, 20 AS up_to_ms"
        )
        con.execute(
            "CREATE TABLE node_prices (node_id INTEGER, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 9),"
            " price_source VARCHAR, price_as_of TIMESTAMP)"
        )
        steps = {
            "cluster": ["c", "c"],
            "node": ["n", "n"],
            "from_ms": [0, 5],
            "price_source": ["book", "book"],
        }
        sqlfiles.run(con, "fleet_prices", steps | {"price_per_hour": ["1", "2"]})
        rows = con.execute("SELECT from_ms, to_ms, price_per_hour FROM node_prices").fetchall()
    assert rows == [(10, 20, 2)]


def test_the_list_price_of_a_type_is_of_the_purchase_that_is_preferred() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE price_offers AS SELECT 'aws' AS provider, 'P5' AS type_name, 'p5' AS instance_type, 'r' AS region,"
            " o.option AS purchase_option, o.price::DECIMAL(38, 9) AS price_per_hour, true AS is_of_region, 0 AS term_years"
            " FROM (VALUES ('a', 3), ('b', 8)) AS o(option, price)"
        )
        con.execute(
            "CREATE TABLE purchase_fits AS SELECT * FROM (VALUES ('a', true, 'on_demand', 1), ('b', true, 'on_demand', 2))"
            " AS f(purchase_option, is_list, capacity_type, preference)"
        )
        con.execute("CREATE TABLE catalog_instances AS SELECT 'P5' AS instance_type, 8 AS gpu_count")
        rows = list(answer_rows(con, "gpucost.publish", "listed_prices"))
    assert [row["per_hour"] for row in rows] == [Decimal(8)]


def test_a_current_price_is_the_last_that_is_known() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE nodes AS SELECT 1 AS node_id, 'n' AS node, 'p5' AS instance_type, 'r' AS region,"
            " 'spot' AS capacity_type, 100 AS up_to_ms"
        )
        con.execute(
            "CREATE TABLE node_prices AS SELECT 1 AS node_id, * FROM (VALUES (0, 4.0, 'bill'), (50, 0.0, 'none'))"
            " AS p(from_ms, price_per_hour, price_source)"
        )
        rows = list(answer_rows(con, "gpucost.publish", "current_prices"))
    assert [row["per_hour"] for row in rows] == [Decimal(4)]


def test_bought_tokens_of_a_model_are_the_sum_of_their_rows() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE api_rows AS SELECT 'a' AS team, 'aws' AS provider, 'm' AS model, 's' AS source, cost AS api_cost,"
            " 0 AS commitment_cost, cost AS prompt_cost, cost AS generation_cost, 10 * cost AS prompt_tokens,"
            " cost AS cached_tokens, 5 * cost AS generation_tokens FROM (VALUES (2), (3)) AS v(cost)"
        )
        rows = list(
            answer_rows(con, "gpucost.questions.report.api_cost", "70_api_models", {"each_team": False})
        )
    assert [(row["prompt_tokens"], row["cached_tokens"], row["generation_tokens"]) for row in rows] == [
        (50, 5, 25)
    ]
