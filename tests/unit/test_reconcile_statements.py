"""Every row of a bill stands in one class, on the invoice and in effective cost, and both add up to the bill's own sums."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.periods import MS_PER_HOUR
from gpucost.report.reconcile import BASES, CENT, CLASSES, ClassRow, Reconciliation, Statement, in_cents, reconcile
from tests.bill_table import bill_table
from tests.cell_tables import cell_tables
from tests.property.fleets import many
from tests.unit.billed import KEY
from tests.unit.price_nodes import DAY, NODE, START, empty_store, run

MONTH = "2026-10"
P5 = "p5.48xlarge"
EUR = Decimal("1.1")
GONE = "i-0fff"  # a machine with GPUs that no metrics saw
CLASS_OF = {
    "storage": "storage", "network": "network", "support": "support", "tax": "tax", "split": "split",
    "other": "other_services", "discount": "discounts", "credit": "credits", "refund": "refunds", "managed": "managed",
    "commitment_fee": "commitment_fees", "commitment_unused": "unused_commitments",
}  # fmt: skip
# Of a service that sells tokens, these are bought tokens.
TOKEN_KINDS = {"other", "storage", "network", "managed", "commitment_fee", "commitment_unused"}


def put(con: duckdb.DuckDBPyConnection, *rows: dict[str, Any], form: str = "aws-cur", payer: str | None = "1111") -> int:
    """A bill of rows, each with some of: kind, key, hour, hours, type, billed, cost (effective), currency, category, ..."""
    number: int = con.execute("SELECT coalesce(max(bill_id), 0) + 1 FROM bills").fetchall()[0][0]
    con.execute(
        "INSERT INTO bills (bill_id, provider, source, format, billing_account_id, billing_period, is_whole, is_final, digest,"
        " load_bills, rows, load_id, loaded_at) VALUES ($1, 'aws', $2, $2, '', $3, false, true, '', 1, $4, $1, now()::TIMESTAMP)",
        [number, form, MONTH, len(rows)],
    )
    start = DAY.replace(tzinfo=None)
    with bill_table(con):
        for place, row in enumerate(rows, 1):
            cost = Decimal(row.get("cost", "10"))
            hour, length = row.get("hour", 0), row.get("length", 1)
            values = {
                "bill_id": number,
                "charge_key": place,
                "charge_period_start": start + timedelta(hours=hour),
                "charge_period_end": start + timedelta(hours=hour + length),
                "charge_category": row.get("category", "Usage"),
                "billed_cost": Decimal(row.get("billed", cost)),
                "effective_cost": cost,
                "billing_currency": row.get("currency", "USD"),
                "billing_account_id": payer,
                "invoice_id": row.get("invoice"),
                "region": "us-east-1",
                "instance_type": row.get("type"),
                "sku_description": row.get("sku"),
                "service_code": row.get("service"),
                "pricing_category": "Standard",
                "kind": row.get("kind", "instance"),
                "instance_hours": row.get("hours"),
                "instance_key": row.get("key"),
                "cost_cause": row.get("cause", "same" if "billed" not in row else "fee_amortized"),
                # pricing takes no discount of storage off machines
                "service_category": "Storage" if row.get("kind") == "discount" else None,
                "source_file": f"{number}.csv",
                "source_row": place,
            }
            names = ", ".join(values)
            marks = ", ".join("$" + name for name in values)
            con.execute(f"INSERT INTO bill_rows ({names}) VALUES ({marks})", values)  # noqa: S608 - names of our own
    return number


def machine(hour: int = 0, key: str | None = KEY, **other: Any) -> dict[str, Any]:
    """A row of one hour of a machine with GPUs."""
    return {"kind": "instance", "key": key, "hour": hour, "hours": 1.0, "type": "p4d.24xlarge", **other}


def account(
    con: duckdb.DuckDBPyConnection, held: dict[str, float] | None = None, sharing: str = "as_billed", **config: Any
) -> Reconciliation:
    """Of the bills put: one node, i-0abc, up and collected for 24 hours, of each of which teams held the parts `held`."""
    prices = {"commitment_sharing": sharing, "fx": {"EUR": EUR}}
    run(con, [NODE], [], prices, **config)
    end = START + 24 * MS_PER_HOUR
    con.execute("DELETE FROM collected")
    con.execute("INSERT INTO collected VALUES ('prod', $1, $2)", [START, end])
    with cell_tables(con):
        con.execute("DELETE FROM cost_hourly")
        left = 1 - sum((held or {}).values())
        for kind, team, part in [*(("allocated", *one) for one in (held or {}).items()), ("unallocated", None, left)]:
            con.execute(
                "INSERT INTO cost_hourly BY NAME SELECT $kind AS kind, from_ms, to_ms, 1 AS node_id, $team AS team, "
                "0 AS allocated_gpu_ms, 0 AS active_gpu_ms, 0 AS idle_gpu_ms, 0 AS unmeasured_gpu_ms, 0 AS utilization_gpu_ms, "
                "0 AS unallocated_gpu_ms, 0 AS unavailable_gpu_ms, 0 AS idle_cost, "
                "CASE WHEN $kind = 'allocated' THEN cost ELSE 0 END AS cost, "
                "CASE WHEN $kind = 'unallocated' THEN cost ELSE 0 END AS unallocated_cost, "
                "0 AS not_collected_cost, 0 AS not_collected_gpu_ms, 0 AS estimated_cost FROM ("
                "SELECT greatest(p.from_ms, h.from_ms) AS from_ms, least(p.to_ms, h.from_ms + 3600000) AS to_ms, "
                "(p.price_per_hour * $part::DOUBLE)::DECIMAL(38, 9) AS cost "
                "FROM node_prices AS p, (SELECT unnest(range($start, $end, 3600000)) AS from_ms) AS h "
                "WHERE p.price_source = 'bill' AND p.from_ms <= h.from_ms AND h.from_ms < p.to_ms)",
                {"kind": kind, "team": team, "part": part, "start": START, "end": end},
            )
    return reconcile(con, MONTH, "USD")


def of(found: Reconciliation, basis: str, currency: str = "USD") -> dict[str, tuple[int, Decimal]]:
    """Rows and cost by class, or team."""
    (one,) = [one for one in found.statements if (one.basis, one.currency) == (basis, currency)]
    return {row.team or row.name: (row.rows, row.cost) for row in one.classes}


def check(found: Reconciliation, rows: int) -> None:
    """Both statements hold every row, and add up to the cent as they are shown."""
    for basis in BASES:
        own = [one for one in found.statements if one.basis == basis]
        assert sum(row.rows for one in own for row in one.classes) == sum(one.rows for one in own) == rows
    for one in found.statements:
        assert one.difference == 0
        assert sum((row.cost for row in one.classes), Decimal(0)) == one.cost
        assert all(abs(row.cost) < CENT for row in one.classes if row.name == "rounding")
        assert sum(cost for *_, cost in one.lines()) == one.cost.quantize(Decimal("0.01"))


def test_each_row_is_in_one_class_and_classes_add_up(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        machine(0),
        machine(1),
        machine(30),  # after the node was gone
        machine(0, GONE),
        machine(0, None),  # an export without resource ids
        {"kind": "instance", "key": "i-0cpu", "hours": 1.0, "type": "m5.large", "cost": "0.1"},
        {"kind": "reserved_unused", "type": P5, "hours": 1.0, "cost": "98.32"},
        {"kind": "reserved_unused", "type": "m5.large", "hours": 1.0, "cost": "0.1"},
        {"kind": "commitment_fee", "category": "Purchase", "billed": "700", "cost": "0"},
        {"kind": "commitment_unused", "category": "Purchase", "billed": "80", "cost": "8"},
        {"kind": "commitment_fee", "category": "Usage", "billed": "-3", "cost": "0"},
        {"kind": "node_fee", "key": "i-0cpu", "cost": "0.02"},
        {"kind": "managed", "type": "p5.48xlarge", "cost": "55"},
        *({"kind": kind, "cost": "-2"} for kind in ("discount", "credit", "refund")),
        *({"kind": kind, "cost": "3"} for kind in ("tax", "support", "storage", "network", "other")),
        {"kind": "split", "cost": "0", "key": KEY},
        {"kind": "other", "service": "AmazonBedrock", "sku": "USE1-NovaLite-output-tokens", "cost": "5"},
        {"kind": "storage", "service": "AmazonBedrock", "sku": "USE1-CustomModel-Storage", "cost": "1"},
        {"kind": "commitment_unused", "category": "Purchase", "service": "AmazonBedrock", "billed": "4", "cost": "4"},
        {"kind": "tax", "service": "AmazonBedrock", "cost": "3"},
    ]
    put(con, *rows)
    found = account(con, {"research": 0.5})
    check(found, len(rows))
    billed, effective = of(found, "billed"), of(found, "effective")
    assert billed == {
        "research": (2, 10), "unallocated": (0, 10), "outside_node_life": (1, 10), "instances_without_metrics": (1, 10),
        "gpu_without_id": (1, 10), "managed": (1, 55), "unused_gpu_reservations": (1, Decimal("98.32")),
        "commitment_fees": (2, 780), "covered_usage": (1, -3), "unused_reservations": (1, Decimal("0.1")),
        "other_machines": (2, Decimal("0.12")), "storage": (1, 3), "network": (1, 3), "support": (1, 3),
        "other_services": (1, 3), "split": (1, 0), "discounts": (1, -2), "credits": (1, -2), "refunds": (1, -2), "tax": (2, 6),
        "bought_tokens": (3, 10),
    }  # fmt: skip
    changed = {"commitment_fees": (1, 0), "unused_commitments": (1, 8), "covered_usage": (1, 0)}
    assert effective == billed | changed
    assert found.statements[0].cost == sum(Decimal(row.get("billed", row.get("cost", 10))) for row in rows)
    # 80 of fees against their unused 8, 700 of fees that are spread, 3 taken back
    assert found.statements[0].cost - found.statements[1].cost == 769
    assert found.problems == ()


def test_a_machine_s_billed_cost_is_shared_as_its_effective_cost_to_the_last_digit(con: duckdb.DuckDBPyConnection) -> None:
    put(
        con,
        machine(0, billed="0.000000000007", cost="9"),
        machine(1, billed="100", cost="9"),
        machine(1, hours=None, cost="1", billed="0"),
    )
    found = account(con, {"a": 1 / 3, "b": 1 / 3})
    check(found, 3)
    billed = of(found, "billed")
    assert sum(cost for _, cost in billed.values()) == Decimal("100.000000000007")
    assert [float(billed[name][1]) for name in ("a", "b", "unallocated")] == pytest.approx([100 / 3] * 3)
    assert sorted(rows for rows, _ in billed.values()) == [0, 0, 3]


def test_what_a_savings_plan_takes_back_is_taken_off_its_machine(con: duckdb.DuckDBPyConnection) -> None:
    taken = {"kind": "commitment_fee", "category": "Usage", "key": KEY, "billed": "-20", "cost": "0"}
    put(con, machine(0, billed="20", cost="8"), taken)
    found = account(con, {"a": 1})
    assert of(found, "billed") == {"a": (2, 0)}
    assert of(found, "effective") == {"a": (2, 8)}


def test_discounts_that_are_in_machines_cost_are_not_told_again(con: duckdb.DuckDBPyConnection) -> None:
    put(con, machine(0), machine(1), {"kind": "discount", "cost": "-3", "category": "Credit"})
    account(con, {"a": 1})
    # as if a part of it had been spread over the machine's first hour
    con.execute("UPDATE billed_hours SET discount_cost = -1, price_per_hour = 9, effective_cost = 9 WHERE from_ms = $1", [START])
    con.execute("UPDATE billed_hours SET discount_cost = 0, price_per_hour = 10, effective_cost = 10 WHERE from_ms > $1", [START])
    with cell_tables(con):
        con.execute("UPDATE cost_hourly SET cost = CASE WHEN from_ms = $1 THEN 9 ELSE 10 END WHERE kind = 'allocated'", [START])
    found = reconcile(con, MONTH, "USD")
    check(found, 3)
    assert of(found, "billed") == {"a": (2, 20), "discounts": (1, -3)}
    assert of(found, "effective") == {"a": (2, 19), "discounts": (1, -2)}
    assert "discounts that are in no other class" in [words for words, *_ in found.statements[1].lines()]


def test_bought_tokens_cost_what_their_rows_do_after_discounts(con: duckdb.DuckDBPyConnection) -> None:
    sold = {"kind": "other", "service": "AmazonBedrock", "sku": "USE1-NovaLite-output-tokens"}
    off = sold | {"kind": "discount", "category": "Credit"}
    others = [{"kind": "other", "service": "AmazonS3", "cost": "5"}, {"kind": "discount", "cost": "-2", "category": "Credit"}]
    put(con, sold | {"cost": "6"}, sold | {"cost": "4"}, off | {"cost": "-1"}, *others)
    found = account(con)
    check(found, 5)
    assert of(found, "billed") == {"bought_tokens": (2, 10), "other_services": (1, 5), "discounts": (2, -3)}
    assert of(found, "effective") == {"bought_tokens": (2, 9), "other_services": (1, 5), "discounts": (2, -2)}
    assert con.execute("SELECT list(cost ORDER BY cost) FROM token_charges").fetchall() == [([Decimal("3.6"), Decimal("5.4")],)]


@pytest.mark.parametrize("length", [1, pytest.param(720, marks=pytest.mark.slow)])
def test_a_fee_on_a_machine_is_the_machine_s(length: int, con: duckdb.DuckDBPyConnection) -> None:
    put(
        con,
        machine(0),
        machine(1),
        {"kind": "node_fee", "key": KEY, "cost": "1", "length": length, "hour": 0 if length == 1 else -1},
    )
    account(con, {"a": 1})
    # as pricing places it: on the first hour
    con.execute(
        "UPDATE billed_hours SET price_per_hour = CASE WHEN from_ms = $1 THEN 11 ELSE 10 END, "
        "effective_cost = CASE WHEN from_ms = $1 THEN 11 ELSE 10 END",
        [START],
    )
    with cell_tables(con):
        con.execute("UPDATE cost_hourly SET cost = CASE WHEN from_ms = $1 THEN 11 ELSE 10 END WHERE kind = 'allocated'", [START])
    found = reconcile(con, MONTH, "USD")
    check(found, 3)
    assert of(found, "billed") == of(found, "effective") == {"a": (3, 21)}


def test_money_of_another_currency_is_converted_and_what_has_no_rate_stands_apart(con: duckdb.DuckDBPyConnection) -> None:
    put(
        con, machine(0), machine(1, currency="EUR"), {"kind": "tax", "currency": "EUR", "cost": "5"}, {"kind": "tax", "cost": "2"}
    )
    put(con, {"kind": "support", "currency": "GBP", "cost": "7"}, {"kind": "tax", "currency": "GBP", "cost": "1"}, payer="2222")
    found = account(con, {"a": 1})
    check(found, 6)
    assert [(one.basis, one.currency) for one in found.statements] == [
        ("billed", "USD"),
        ("effective", "USD"),
        ("billed", "GBP"),
        ("effective", "GBP"),
    ]
    assert of(found, "billed") == {"a": (2, 21), "tax": (2, Decimal("7.5"))}
    assert of(found, "billed", "GBP") == {"support": (1, 7), "tax": (1, 1)}
    assert found.problems == ()
    assert "28.50 USD billed, 28.50 USD effective, 8.00 GBP billed, 8.00 GBP effective" in found.sentence


def test_each_payer_s_invoice_is_named_in_its_own_currency(con: duckdb.DuckDBPyConnection) -> None:
    put(con, machine(0, invoice="A-1"), {"kind": "tax", "invoice": "A-2", "cost": "2"}, payer="1111")
    put(con, {"kind": "storage", "currency": "EUR", "cost": "5"}, payer="2222")
    found = account(con)
    assert [(i.account, i.invoice_id, i.currency, i.rows, i.billed_cost) for i in found.invoices] == [
        ("1111", "A-1", "USD", 1, 10),
        ("1111", "A-2", "USD", 1, 2),
        ("2222", None, "EUR", 1, 5),
    ]
    assert found.statements[0].cost == 10 + 2 + 5 * EUR


def test_hours_that_two_exports_tell_are_named_and_counted_once(con: duckdb.DuckDBPyConnection) -> None:
    put(con, machine(0), {"kind": "tax", "cost": "1"})
    put(con, machine(0, cost="11"), form="focus")
    found = account(con, {"a": 1})
    check(found, 3)
    assert of(found, "billed") == {"a": (1, 11), "other_export": (1, 10), "tax": (1, 1)}


def test_an_hour_without_its_cost_is_billed_in_part(con: duckdb.DuckDBPyConnection) -> None:
    put(con, machine(0, cost="4", cause="fee_missing"), machine(1))
    found = account(con, {"a": 1})
    check(found, 2)
    assert of(found, "effective") == {"a": (1, 10), "billed_in_part": (1, 4)}


def test_what_goes_to_no_class_is_named_and_keeps_the_account_open(con: duckdb.DuckDBPyConnection) -> None:
    put(con, machine(0))
    account(con, {"a": 1})
    # a machine that costs more than its rows
    con.execute("UPDATE billed_hours SET effective_cost = effective_cost + 1")
    found = reconcile(con, MONTH, "USD")
    assert found.problems == ("-1.00 USD of effective cost went to no class",)
    assert found.sentence.endswith("-1.00 USD of effective cost went to no class")


def test_cents_that_rounding_leaves_are_a_line() -> None:
    third = Decimal("3.333333333333")
    rows = [ClassRow(name, None, 1, third) for name in ("tax", "support", "storage")]
    one = Statement.of("billed", "USD", 3, Decimal(10), rows)
    assert one.difference == 0
    assert one.classes[-1] == ClassRow("rounding", None, 0, Decimal("1E-12"))
    assert one.lines()[-1] == ("rounding", None, Decimal("0.01"))
    assert in_cents([("a", 1, Decimal("1.00"))], Decimal("1.00")) == [("a", 1, Decimal("1.00"))]
    assert [str(cost) for *_, cost in in_cents([("a", 1, Decimal("-1E-8"))], Decimal("-1E-8"))] == ["0.00"]
    assert list(CLASSES)[-1] == "rounding"


MONEY = st.decimals(min_value=-1000, max_value=5000, places=10)
COST = st.decimals(min_value=0, max_value=5000, places=10)
OTHERS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(CLASS_OF)),
        "billed": MONEY,
        "cost": MONEY,
        "currency": st.sampled_from(["USD", "USD", "EUR", "GBP"]),
        "category": st.sampled_from(["Purchase", "Tax"]),
        "hour": st.integers(0, 700),
        "service": st.sampled_from([None, None, "AmazonBedrock"]),
    }
)
MACHINES = st.fixed_dictionaries(
    {
        "kind": st.just("instance"),
        "key": st.sampled_from([KEY, KEY, KEY, GONE, "i-0cpu", None]),
        "type": st.just("p4d.24xlarge"),
        "billed": COST,
        "cost": COST,
        "hours": st.floats(0.01, 1).map(lambda hours: round(hours, 6)),
        "hour": st.integers(0, 27),
        "currency": st.sampled_from(["USD", "USD", "EUR"]),
    }
)


BILLS = given(
    machines=st.lists(MACHINES, max_size=12),
    others=st.lists(OTHERS, min_size=1, max_size=12),
    held=st.dictionaries(st.sampled_from("abc"), st.floats(0, 0.33)),
    sharing=st.sampled_from(["pooled", "as_billed"]),
)


@settings(max_examples=2)
@BILLS
def test_any_bill_is_accounted_for_to_the_last_row_and_cent(
    machines: list[dict[str, Any]], others: list[dict[str, Any]], held: dict[str, float], sharing: str
) -> None:
    for row in machines:
        row["type"] = "m5.large" if row["key"] == "i-0cpu" else row["type"]
    for row in others:
        if row["kind"] == "discount":
            row["billed"] = row["cost"] = -abs(row["cost"])
    told = [*machines, *others]
    with empty_store() as con:
        put(con, *told[::2])
        put(con, *told[1::2], payer="2222")
        found = account(con, held, sharing)
    check(found, len(told))
    rates = {"USD": Decimal(1), "EUR": EUR}
    for one in found.statements:
        own = [row for row in told if (row["currency"] if row["currency"] not in rates else "USD") == one.currency]
        cost = sum(
            (row["billed" if one.basis == "billed" else "cost"] * rates.get(row["currency"], 1) for row in own), Decimal(0)
        )
        assert one.cost == pytest.approx(cost, abs=Decimal("1e-9"))
        assert one.rows == len(own)
        classes = Counter(_class_of(row, one.basis) for row in own if row["kind"] != "instance")
        shown = {row.name: row.rows for row in one.classes}
        assert {name: shown[name] for name in classes} == classes
    assert sum(invoice.rows for invoice in found.invoices) == len(told)


test_many_more_bills = many(test_any_bill_is_accounted_for_to_the_last_row_and_cent, BILLS, settings())


def _class_of(row: dict[str, Any], basis: str) -> str:
    kind = row["kind"]
    if row["service"] and kind in TOKEN_KINDS:
        return "bought_tokens"
    return "commitment_fees" if basis == "billed" and kind == "commitment_unused" else CLASS_OF[kind]


@pytest.mark.parametrize("hours", [1.0, 1.5])
def test_an_hour_in_two_currencies_goes_to_classes_once(hours: float) -> None:
    told = {"kind": "instance", "key": KEY, "type": "p4d.24xlarge", "hour": 0}
    rows = [
        told | {"billed": Decimal(30), "cost": Decimal(30), "hours": hours, "currency": "USD"},
        told | {"billed": Decimal(60), "cost": Decimal(60), "hours": 1.0, "currency": "EUR"},
    ]
    with empty_store() as con:
        put(con, *rows)
        found = account(con, {}, "pooled")
    # 30 USD and 60 EUR at 1.1, of a machine that is up for that hour
    (effective,) = (one for one in found.statements if one.basis == "effective")
    costs = {one.name: one.cost for one in effective.classes}
    assert (effective.cost, effective.difference, sum(costs.values())) == (96, 0, 96)
    assert costs["unallocated"] == pytest.approx(Decimal(96) / Decimal(hours), abs=Decimal("1e-8"))
