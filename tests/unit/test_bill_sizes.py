"""Intermediate rows of pricing from bills grow linearly with the input, not with its square."""

from __future__ import annotations

import json
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from gpucost.catalog import load_catalog
from gpucost.engine import run_stage
from tests.bill_table import bill_table
from tests.unit.price_nodes import empty_store

BILL = """
INSERT INTO bills BY NAME
SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format, '1' AS billing_account_id,
    '2026-03' AS billing_period, false AS is_whole, true AS is_final, '' AS digest, 1 AS rows, 1 AS load_id,
    now()::TIMESTAMP AS loaded_at
"""
ROWS = """
INSERT INTO bill_rows BY NAME
SELECT 1 AS bill_id, row_number() OVER () AS charge_key, charge_category, cost AS billed_cost, cost AS effective_cost, kind,
    'USD' AS billing_currency, '1' AS billing_account_id, sub_account_id, 'AmazonEC2' AS service_code, sku_description,
    'same' AS cost_cause, 'cur.csv' AS source_file, 1 AS source_row, false AS is_net, instance_key, instance_type,
    instance_hours, TIMESTAMP '2026-03-01' + to_hours(hour::INT) AS charge_period_start,
    TIMESTAMP '2026-03-01' + to_hours((hour + hours)::INT) AS charge_period_end
FROM ({rows})
"""
USAGE = """
SELECT 'Usage' AS charge_category, 10 AS cost, 'other' AS kind, 'account ' || account AS sub_account_id,
    'type ' || usage AS sku_description, NULL AS instance_key, NULL AS instance_type, NULL AS instance_hours,
    10 AS hour, 1 AS hours
FROM range(30) AS a(account), range(20) AS t(usage)
"""
MACHINES = """
SELECT 'Usage' AS charge_category, 30 AS cost, 'instance' AS kind, '1' AS sub_account_id,
    'BoxUsage:p4d.24xlarge' AS sku_description, 'i-' || machine AS instance_key, 'p4d.24xlarge' AS instance_type,
    1 AS instance_hours, hour, 1 AS hours
FROM range(3) AS m(machine), range(720) AS h(hour)
"""
DISCOUNTS = "SELECT DISTINCT * REPLACE ('Credit' AS charge_category, -1 AS cost, 'discount' AS kind, {of}) FROM ({usage})"

STAGES: dict[str, dict[str, Any]] = {"11_borne_discounts": {"is_spread": True}, "14_discount_rates": {}}


def put(con: DuckDBPyConnection, rows: str) -> int:
    with bill_table(con):
        (count,) = con.execute(ROWS.format(rows=rows)).fetchone() or (0,)
    return int(count)


def largest(con: DuckDBPyConnection, directory: Path, stage: str, params: dict[str, Any]) -> int:
    """Rows of the largest step in a stage's statements."""
    plan = directory / "plan.json"
    # with few rows, DuckDB would match in a loop
    con.execute("SET asof_loop_join_threshold = 0")
    con.execute(f"SET enable_profiling = 'json'; SET profiling_output = '{plan}'")

    def most(step: dict[str, Any]) -> int:
        children = step.get("children", [])
        rows = int(step["intermediate_rows"])
        # a condition without equality is tried on each pair
        if " OR " in str(step["extra_info"].get("Conditions")):
            rows = prod(int(child["intermediate_rows"]) for child in children)
        return max([rows, *(most(child) for child in children)])

    sizes = []
    for statement in duckdb.extract_statements(
        (files("gpucost.price.bill") / f"{stage}.sql").read_text("utf-8")
    ):
        plan.unlink(missing_ok=True)
        con.execute(statement, {name: params[name] for name in statement.named_parameters})
        # a view has no plan
        sizes += [most(step) for step in json.loads(plan.read_text())["operator"]] if plan.exists() else []
    return max(sizes)


@pytest.mark.parametrize(
    ("of", "cost"), [("sku_description AS sku_description", -600), ("NULL AS sku_description", -30)]
)
def test_discounts_of_many_kinds_of_usage(tmp_path: Path, of: str, cost: int) -> None:
    """On each kind in each account, and on each account."""
    with empty_store() as con:
        con.execute(BILL)
        rows = put(con, USAGE) + put(con, DISCOUNTS.format(of=of, usage=USAGE))
        for stage, params in STAGES.items():
            assert largest(con, tmp_path, stage, params) <= 3 * rows
        assert con.execute("SELECT count(*), sum(discount_cost) FROM discount_rates").fetchone() == (
            600,
            cost,
        )


def test_discounts_of_a_day_on_machines(tmp_path: Path) -> None:
    of = "hour // 24 * 24 AS hour, 24 AS hours, NULL AS instance_hours"
    with empty_store() as con:
        load_catalog(con)
        con.execute(BILL)
        rows = put(con, MACHINES) + put(con, DISCOUNTS.format(of=of, usage=MACHINES))
        run_stage(con, "gpucost.price.bill", "10_billed_nodes")
        assert largest(con, tmp_path, "15_billed_rows", {}) <= 3 * rows
        found = con.execute(
            "SELECT sum(discount_cost)::DOUBLE, max(to_ms - from_ms) FROM billed_rows"
        ).fetchone()
        assert found == (pytest.approx(-90), 3_600_000)
