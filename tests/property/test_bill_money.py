"""Random AWS bills: every row's money is in a machine's hours, in an unassigned discount, or in its own row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

import pytest
from duckdb import DuckDBPyConnection
from hypothesis import given, settings, strategies as st

from gpucost import price
from gpucost.collect.bill.aws import CUR
from gpucost.collect.bill.formats import sql_text
from gpucost.config.model import Bills, Config
from gpucost.store import sqlfiles
from tests.bill_table import change_bill_rows
from tests.property.fleets import RARELY_SLOW, many
from tests.text_tables import columns
from tests.unit.price_nodes import empty_store

Row = dict[str, str]
PLAN = "arn:aws:savingsplans::1:savingsplan/p"
RESERVED = "arn:aws:ec2:us-east-1:1:reserved-instances/r"
PERCENT = Decimal("0.1")
#: Covered usage and negations are billed at list price; discounts apply to final charges.
FREE = ("SavingsPlanCoveredUsage", "SavingsPlanNegation", "DiscountedUsage")
SETTINGS = settings(RARELY_SLOW, max_examples=1)


@pytest.fixture(scope="module")
def con() -> Iterator[DuckDBPyConnection]:
    with empty_store() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET VARIABLE currency = 'USD'")
        yield connection


def line(kind: str, hour: int, cost: Decimal, **more: str) -> Row:
    return (
        columns(f"""
        line_item_line_item_type         {kind}
        line_item_usage_start_date       2026-03-05T{hour:02}:00:00Z
        line_item_usage_end_date         2026-03-05T{hour + 1:02}:00:00Z
        line_item_unblended_cost         {cost}
        line_item_usage_account_id       1
        line_item_product_code           AmazonEC2
        line_item_usage_type             BoxUsage:p4d.24xlarge
        line_item_operation              RunInstances
        line_item_usage_amount           1
        line_item_currency_code          USD
        bill_billing_period_start_date   2026-03-01T00:00:00Z
        pricing_unit                     Hrs
        product_region                   us-east-1
    """)
        | more
    )


def bill(seed: int) -> list[Row]:
    """Draw machines of two accounts on demand, spot, under a plan or a reservation, with corrections, fees and unused parts."""
    dice = random.Random(seed)
    rows = []
    used = kept = Decimal(0)

    def money() -> Decimal:
        return Decimal(dice.randint(1, 5_000_000)) / 100_000

    def add(kind: str, cost: Decimal, **more: str) -> None:
        rows.append(line(kind, hour, cost, **(on | more)))

    for hour in range(dice.randint(1, 3)):  # noqa: B007 - `add` reads it
        for number in range(dice.randint(1, 4)):
            on = {"line_item_resource_id": f"i-0{number}", "line_item_usage_account_id": str(number % 2)}
            cost, option = money(), dice.choice(["Usage", "Usage", "spot", "plan", "reserved"])
            if option == "spot":
                add("Usage", cost, line_item_usage_type="SpotUsage:p4d.24xlarge")
            elif option == "plan":
                used += cost
                on["savings_plan_savings_plan_a_r_n"] = PLAN
                effective = {"savings_plan_savings_plan_effective_cost": str(cost)}
                add("SavingsPlanCoveredUsage", cost * 2, **effective)
                add("SavingsPlanNegation", -cost * 2, line_item_resource_id="")
            elif option == "reserved":
                kept += cost
                on["reservation_reservation_a_r_n"] = RESERVED
                add("DiscountedUsage", Decimal(0), reservation_effective_cost=str(cost))
            else:
                add("Usage", cost)
                if dice.random() < 0.3:
                    add("Usage", -cost / 4, line_item_usage_amount="0")
            on = {name: on[name] for name in ("line_item_resource_id", "line_item_usage_account_id")}
            for usage, product in (
                ("EKS-Auto:p4d.24xlarge-management-hours", "AmazonEKS"),
                ("DataTransfer-Out-Bytes", "AmazonEC2"),
            ):
                if dice.random() < 0.3:
                    add("Usage", money() / 10, line_item_usage_type=usage, line_item_product_code=product)
    hour, unused, upfront = 0, money(), money()
    on = columns(f"""
        line_item_product_code                 ComputeSavingsPlans
        line_item_usage_type                   ComputeSP:1yr
        line_item_resource_id                  {PLAN}
        savings_plan_savings_plan_a_r_n        {PLAN}
        savings_plan_total_commitment_to_date  {used + unused}
        savings_plan_used_commitment           {used}
    """)
    add("SavingsPlanRecurringFee", used + unused)
    on = columns(f"""
        reservation_reservation_a_r_n  {RESERVED}
        line_item_resource_id          {RESERVED}
        line_item_usage_type           HeavyUsage:p4d.24xlarge
    """)
    add("Fee", upfront)
    add("RIFee", kept + unused, reservation_unused_recurring_fee=str(unused))
    return rows


def discounted(rows: list[Row], seed: int) -> tuple[list[Row], Decimal]:
    """Draw a 10 % discount as net costs, as rows with or without a name, or none; return it with its sum."""
    dice = random.Random(seed)
    result = []
    deduction = Decimal(0)
    for row in rows:
        cost, kind = Decimal(row["line_item_unblended_cost"]), row["line_item_line_item_type"]
        if kind in FREE or cost <= 0:
            result.append(row)
            continue
        is_fee = kind in ("SavingsPlanRecurringFee", "RIFee", "Fee")
        how = dice.choice(["row", "spread", "net", "none"] if not is_fee else ["row", "none"])
        less = cost * PERCENT
        net = {"line_item_net_unblended_cost": str(cost - less)} if how == "net" else {}
        result.append(row | net)
        if how in ("row", "spread", "net"):
            deduction += less
            off = {"line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": str(-less)}
            net_cost = {"line_item_net_unblended_cost": "0"} if how == "net" and dice.random() < 0.5 else {}
            blank = {"line_item_resource_id": "", "line_item_usage_type": ""} if how != "row" else {}
            result.append(row | off | net_cost | blank)
    return result, deduction


def charge(con: DuckDBPyConnection, rows: list[Row]) -> None:
    """Load rows into the store's tables with the mapping of the Cost and Usage Report."""
    con.execute("DELETE FROM bills; DELETE FROM bill_lines; DELETE FROM bill_details")
    columns = ", ".join(f"{name} VARCHAR" for name in CUR.columns)
    maps = "tag_columns MAP(VARCHAR, VARCHAR), cost_category_columns MAP(VARCHAR, VARCHAR)"
    more = f"{maps}, row_digest UBIGINT, label_digest UBIGINT, source_file VARCHAR, file_row_number BIGINT"
    con.execute(f"CREATE OR REPLACE TEMP TABLE raw ({columns}, {more})")
    marks = ", ".join("?" * len(CUR.columns))
    cells = [(*(row.get(name) or None for name in CUR.columns), place) for place, row in enumerate(rows)]
    con.executemany(f"INSERT INTO raw VALUES ({marks}, NULL, NULL, NULL, NULL, 'cur.csv', ?)", cells)  # noqa: S608
    sqlfiles.run(con, "bill_macros")
    *statements, _findings = (
        one for name in CUR.sql.split() for one in con.extract_statements(sql_text(name))
    )
    for statement in statements:
        con.execute(statement)
    con.execute(
        "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
        " '1' AS billing_account_id, '2026-03' AS billing_period, false AS is_whole, '' AS digest, 1 AS rows,"
        " 1 AS load_id, now()::TIMESTAMP AS loaded_at"
    )
    change_bill_rows(
        con,
        "INSERT INTO bill_rows BY NAME"
        " SELECT 1 AS bill_id, * EXCLUDE (provider, billing_period, is_invoiced, label_digest) FROM mapped",
    )


def one(con: DuckDBPyConnection, sql: str) -> Decimal:
    return Decimal(con.execute(sql).fetchall()[0][0] or 0)


#: Billed hours; unassigned discounts; other rows; number of hours as in the bill; cost by prices.
_SUMS = """
    SELECT sum(effective_cost),
        coalesce((SELECT sum(effective_cost) FROM bill_rows WHERE kind = 'discount'), 0) - coalesce(sum(discount_cost), 0),
        (SELECT sum(effective_cost) FROM bill_rows WHERE kind NOT IN ('instance', 'node_fee', 'discount')),
        sum(instance_hours),
        (SELECT count(DISTINCT (instance_key, charge_period_start)) FROM bill_rows WHERE kind = 'instance'),
        sum(price_per_hour * instance_hours::DECIMAL(38, 12))
    FROM billed_hours
"""
DRAWN = given(seed=st.integers(0, 10**9), pooled=st.booleans(), spread=st.booleans())


@SETTINGS
@DRAWN
def test_money_of_a_bill_counts_exactly_once(
    con: DuckDBPyConnection, seed: int, pooled: bool, spread: bool
) -> None:
    plain = bill(seed)
    charge(con, plain)
    gross = one(con, "SELECT sum(effective_cost) FROM bill_rows")
    rows, deduction = discounted(plain, seed)
    charge(con, rows)
    # each discount counts once: in a net cost or in a row
    total = one(con, "SELECT sum(effective_cost) FROM bill_rows")
    assert abs(total - (gross - deduction)) < Decimal("1e-9")
    config = Config.model_validate(
        {
            "bills": Bills(spread_discounts=spread),
            "prices": {"commitment_sharing": "pooled" if pooled else "as_billed"},
        }
    )
    price.stage(con, config)
    billed, left, extra, hours, machine_hours, at_prices = (
        Decimal(sum_ or 0) for sum_ in con.execute(_SUMS).fetchall()[0]
    )
    assert abs(billed + left + extra - total) < Decimal("1e-9")
    assert left <= Decimal("1e-9")
    assert hours == machine_hours
    assert abs(at_prices - billed) < Decimal("1e-6")


test_money_of_many_more_bills_counts_exactly_once = many(
    test_money_of_a_bill_counts_exactly_once, DRAWN, SETTINGS
)
