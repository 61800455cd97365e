"""Each row of a bill is in one class, in billed and in effective cost, and both add up to the sums of the bill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from gpucost.engine import answer_rows
from gpucost.errors import PriceError
from gpucost.questions.reconcile.statement import CLASSES, ClassRow, Reconciliation, Statement, in_cents
from tests.property.fleets import many
from tests.text_tables import text_rows, words
from tests.unit.accounts import EUR, GONE, MONTH, P5, Bill, Case, D, accounts, check, first_hour, of, put
from tests.unit.billed import KEY
from tests.unit.price_nodes import empty_store
from tests.unit.whatif_costs import figures, listed

# templates of rows: an hour of a machine, tokens, a discount, and other charges of a token vendor
NAMED = {
    "machine": f"kind=instance key={KEY} hours=1 type=p4d.24xlarge",
    "bedrock": "service=AmazonBedrock",
    "tokens": "service=AmazonBedrock kind=other sku=USE1-NovaLite-output-tokens",
    "off": "kind=discount category=Credit",
}


def bill(text: str, **more: str) -> Bill:
    """Rows of a bill, each with names in NAMED and other fields; "-" is null."""
    rows = []
    for line in filter(str.strip, text.split(";")):
        fields = " ".join(NAMED.get(word, word) for word in line.split())
        row: dict[str, Any] = {name: None if value == "-" else value for name, value in words(fields).items()}
        rows.append(row | {name: float(row[name]) for name in ("hour", "hours", "length") if row.get(name)})
    return Bill(rows, **more)


def classes(text: str) -> dict[str, tuple[int, Any]]:
    """Rows and cost by class or team."""
    return {
        name: (int(rows), D(cost)) for name, rows, cost in map(str.split, filter(str.strip, text.split(";")))
    }


SAVED = bill(f"machine billed=20 cost=8; kind=commitment_fee category=Usage key={KEY} billed=-20 cost=0")
CASES = {
    # an hour after the end of the node, a machine without metrics, and a machine without a resource id
    "each kind of row": Case(
        [bill(f"""
            machine; machine hour=1; machine hour=30; machine key={GONE}; machine key=-;
            kind=instance key=i-0cpu hours=1 type=m5.large cost=0.1;
            kind=reserved_unused type={P5} hours=1 cost=98.32; kind=reserved_unused type=m5.large hours=1 cost=0.1;
            kind=commitment_fee category=Purchase billed=700 cost=0; kind=commitment_unused category=Purchase billed=80 cost=8;
            kind=commitment_fee category=Usage billed=-3 cost=0; kind=node_fee key=i-0cpu cost=0.02;
            kind=managed type=p5.48xlarge cost=55; kind=discount cost=-2; kind=credit cost=-2; kind=refund cost=-2;
            kind=tax cost=3; kind=support cost=3; kind=storage cost=3; kind=network cost=3; kind=other cost=3;
            kind=split cost=0 key={KEY}; tokens cost=5; bedrock kind=storage sku=USE1-CustomModel-Storage cost=1;
            bedrock kind=commitment_unused category=Purchase billed=4 cost=4; bedrock kind=tax cost=3
        """)],
        {"research": 0.5},
        classes("""
            research 2 10; unallocated 0 10; outside_node_life 1 10; instances_without_metrics 1 10; gpu_without_id 1 10;
            managed 1 55; unused_gpu_reservations 1 98.32; commitment_fees 2 780; covered_usage 1 -3; unused_reservations 1 0.1;
            other_machines 2 0.12; storage 1 3; network 1 3; support 1 3; other_services 1 3; split 1 0; discounts 1 -2;
            credits 1 -2; refunds 1 -2; tax 2 6; bought_tokens 3 10
        """),
        # fees: 80 with 8 unused, 700 spread over usage, and 3 taken back
        classes("commitment_fees 1 0; unused_commitments 1 8; covered_usage 1 0"),
    ),
    "a savings plan with negations": Case([SAVED], {"a": 1}, classes("a 2 0"), classes("a 2 8")),
    # a part of the discount was spread over the machine's first hour
    "a discount within a machine's cost": Case(
        [bill("machine; machine hour=1; off cost=-3")],
        {"a": 1}, classes("a 2 20; discounts 1 -3"), classes("a 2 19; discounts 1 -2"), first_hour(9, 10, -1),
    ),
    "tokens after discounts": Case(
        [bill("tokens cost=6; tokens cost=4; tokens off cost=-1; kind=other service=AmazonS3 cost=5; off cost=-2")],
        {}, classes("bought_tokens 2 10; other_services 1 5; discounts 2 -3"), classes("bought_tokens 2 9; discounts 2 -2"),
    ),
    # pricing adds the fee to the first hour
    **{
        f"a fee of {length}": Case(
            [bill(f"machine; machine hour=1; kind=node_fee key={KEY} cost=1 {span}")],
            {"a": 1}, classes("a 3 21"), {}, first_hour(11, 10),
        )
        for length, span in (("an hour", ""), ("a month", "length=720 hour=-1"))
    },
    "other currencies": Case(
        [
            bill(f"machine; machine hour=1 currency=EUR; machine key={GONE} currency=EUR; kind=tax currency=EUR cost=5; "
                 "kind=tax cost=2"),
            bill("kind=support cost=7 currency=GBP; kind=tax cost=1 currency=GBP", payer="2222"),
        ],
        {"a": 1}, classes("a 2 21; tax 2 7.5; instances_without_metrics 1 11"),
    ),
    "payers": Case(
        [bill("machine invoice=A-1; kind=tax invoice=A-2 cost=2"), bill("kind=storage currency=EUR cost=5", payer="2222")],
        {}, classes("unallocated 1 10; tax 1 2; storage 1 5.5"),
    ),
    "two exports": Case(
        [bill("machine; kind=tax cost=1"), bill("machine cost=11", form="focus")],
        {"a": 1}, classes("a 1 11; other_export 1 10; tax 1 1"),
    ),
    "an hour without its cost": Case(
        [bill("machine cost=4 cause=fee_missing; machine hour=1")], {"a": 1}, classes("a 1 10; billed_in_part 1 4")
    ),
    "uneven amounts": Case(
        [bill("machine billed=0.000000000007 cost=9; machine hour=1 billed=100 cost=9; machine hour=1 hours=- cost=1 billed=0")],
        {"a": 1 / 3, "b": 1 / 3},
    ),
    "a machine that costs more than its rows": Case(
        [bill("machine")],
        {"a": 1},
        change=lambda con, of: con.execute(
            "UPDATE billed_hours SET effective_cost = effective_cost + 1 WHERE instance_key = $key", {"key": of["key"]}
        ),
    ),
    "a machine in a currency without a rate": Case([bill(f"machine key={GONE} currency=CHF")]),
}  # fmt: skip
Answers = dict[str, Callable[[], Reconciliation]]


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with empty_store() as con:
        yield {name: cache(one) for name, one in zip(CASES, accounts(con, list(CASES.values())), strict=True)}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.billed])
def test_each_row_has_one_class_and_classes_add_up(name: str, answers: Answers) -> None:
    case, found = CASES[name], answers[name]()
    check(found, case.rows)
    assert of(found, "billed") == case.billed
    assert of(found, "effective") == case.billed | case.effective
    assert found.problems == (IN_PART if name == "an hour without its cost" else ())


IN_PART = ("1.0 instance-hours were billed without all of their cost, for an unknown reason",)


def test_billed_cost_is_split_like_effective_cost_to_the_last_digit(answers: Answers) -> None:
    found = answers["uneven amounts"]()
    check(found, 3)
    billed = of(found, "billed")
    assert sum(cost for _, cost in billed.values()) == D("100.000000000007")
    assert [float(billed[name][1]) for name in ("a", "b", "unallocated")] == pytest.approx([100 / 3] * 3)
    assert sorted(rows for rows, _ in billed.values()) == [0, 0, 3]


def test_statements_name_their_classes_and_currencies(answers: Answers) -> None:
    found = answers["a discount within a machine's cost"]()
    assert "discounts that are in no other class" in [words for words, *_ in found.statements[1].lines()]
    found = answers["other currencies"]()
    names = listed(found.statements, "currency basis")
    assert names == "USD billed; USD effective; GBP billed; GBP effective"
    assert of(found, "billed", "GBP") == classes("support 1 7; tax 1 1")
    assert "39.50 USD billed, 39.50 USD effective, 8.00 GBP billed, 8.00 GBP effective" in found.sentence


def test_each_invoice_of_a_payer_is_listed_in_its_currency(answers: Answers) -> None:
    invoices = answers["payers"]().invoices
    assert [str(one.account)[:4] for one in invoices] == ["1111", "1111", "2222"]
    assert listed(invoices, "invoice_id currency billed_cost") == "A-1 USD 10; A-2 USD 2; None EUR 5"


def test_bought_tokens_have_their_cost_after_discounts(con: duckdb.DuckDBPyConnection) -> None:
    accounts(con, [CASES["tokens after discounts"]])[0]()
    found = con.execute("SELECT cost FROM token_charges ORDER BY cost").fetchall()
    assert found == [(D("3.6"),), (D("5.4"),)]


def test_cost_without_a_class_is_a_problem(answers: Answers) -> None:
    found = answers["a machine that costs more than its rows"]()
    assert found.problems == ("-1.00 USD of effective cost is in no class",)
    assert found.sentence.endswith("-1.00 USD of effective cost is in no class")


def test_machine_in_a_currency_without_a_rate_is_an_error(answers: Answers) -> None:
    """Machines without metrics need a rate, too, although they are not nodes that need a price."""
    message = "has machines in CHF: there is no rate from CHF to USD on 2026-10-01"
    with pytest.raises(PriceError, match=message):
        answers["a machine in a currency without a rate"]()


# the state in the bill, the day of its load, and whether it is final
FINAL = """
          | 2026-10-20 | False
          | 2026-11-01 | True
    false | 2026-12-01 | False
    true  | 2026-10-20 | True
"""


def test_bill_without_a_state_is_not_final_before_the_end_of_its_month(
    con: duckdb.DuckDBPyConnection,
) -> None:
    put(con, bill("machine"))
    for stated, loaded_at, is_final in text_rows(FINAL):
        con.execute(
            "UPDATE bills SET is_final = nullif($1, '')::BOOLEAN, loaded_at = $2", [stated, loaded_at]
        )
        (row,) = answer_rows(con, "gpucost.questions.reconcile", "60_charges", {"month": MONTH})
        assert str(row["is_final"]) == is_final


def test_rounding_remainder_has_its_own_line() -> None:
    third = Decimal("3.333333333333")
    rows = [ClassRow(name, None, 1, third) for name in ("tax", "support", "storage")]
    one = Statement.of("billed", "USD", 3, Decimal(10), rows)
    assert one.difference == 0
    assert one.classes[-1] == ClassRow("rounding", None, 0, Decimal("1E-12"))
    assert one.lines()[-1] == ("rounding", None, Decimal("0.01"))
    assert in_cents([("a", 1, Decimal("1.00"))], Decimal("1.00")) == [("a", 1, Decimal("1.00"))]
    assert [str(cost) for *_, cost in in_cents([("a", 1, Decimal("-1E-8"))], Decimal("-1E-8"))] == ["0.00"]
    assert list(CLASSES)[-1] == "rounding"


KINDS = """storage network support tax split other discount credit refund managed commitment_fee commitment_unused"""
MONEY = st.decimals(min_value=-1000, max_value=5000, places=10)
COST = st.decimals(min_value=0, max_value=5000, places=10)
OTHERS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS.split()),
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
def test_random_bill_reconciles_to_the_last_row_and_cent(
    machines: list[dict[str, Any]], others: list[dict[str, Any]], held: dict[str, float], sharing: str
) -> None:
    for row in machines:
        row["type"] = "m5.large" if row["key"] == "i-0cpu" else "p4d.24xlarge"
    for row in others:
        if row["kind"] == "discount":
            row["billed"] = row["cost"] = -abs(row["cost"])
    rows = [*machines, *others]
    with empty_store() as con:
        (answer,) = accounts(con, [Case([Bill(rows[::2]), Bill(rows[1::2], payer="2222")], held)], sharing)
        found = answer()
    check(found, len(rows))
    rates = {"USD": Decimal(1), "EUR": EUR}
    for one in found.statements:
        own = [
            row for row in rows if one.currency == (row["currency"] if row["currency"] == "GBP" else "USD")
        ]
        amounts = [
            row["billed" if one.basis == "billed" else "cost"] * rates.get(row["currency"], 1) for row in own
        ]
        assert one.cost == pytest.approx(sum(amounts, Decimal(0)), abs=Decimal("1e-9")) and one.rows == len(
            own
        )
    assert sum(invoice.rows for invoice in found.invoices) == len(rows)


test_many_more_bills = many(test_random_bill_reconciles_to_the_last_row_and_cent, BILLS, settings())


def test_hour_in_two_currencies_is_classified_once() -> None:
    rows = bill("machine cost=30 hours=1.5; machine cost=60 currency=EUR")
    with empty_store() as con:
        found = accounts(con, [Case([rows])], "pooled")[0]()
    # 30 USD and 60 EUR at 1.1, for a machine that is up for that hour
    (effective,) = (one for one in found.statements if one.basis == "effective")
    assert figures(effective, "cost difference") == "96 0"
    costs = of(found, "effective")
    assert sum(cost for _, cost in costs.values()) == 96
    assert costs["unallocated"][1] == pytest.approx(Decimal(64), abs=Decimal("1e-8"))
