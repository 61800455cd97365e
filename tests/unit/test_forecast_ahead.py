"""Forecasts after steps, at month ends and with growth, derived by hand; hit rates of ranges on simulated fleets."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from gpucost.config.model import Config
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR
from gpucost.questions.budget.outlook import Growth
from gpucost.questions.budget.patterns import anomalies
from gpucost.questions.budget.projection import CostSeries, Days, forecast, forecasts
from gpucost.questions.budget.scenarios import (
    ScenarioRow,
    Use,
    assumptions,
    grown,
    last_days,
    read_uses,
    scenarios,
)
from gpucost.store.connection import scratch_store
from tests import own_catalog
from tests.bill_table import change_bill_rows
from tests.unit.whatif_costs import listed

FLEET = CostSeries("fleet")
D = Decimal
FIRST = date(2026, 6, 29)
OCTOBER, NOVEMBER, DECEMBER = (
    [date(2026, month, 1) + timedelta(days=day) for day in range(days)]
    for month, days in ((10, 31), (11, 30), (12, 31))
)


def known(costs: dict[date, Decimal]) -> Days:
    return Days((*costs, *OCTOBER), tuple(costs), {FLEET: costs})


def until(last: date) -> list[date]:
    """The days from June 29 on."""
    return [FIRST + timedelta(days=day) for day in range((last - FIRST).days + 1)]


def stepped(day: int) -> list[float]:
    """Low, expected and high on a day of October; days cost 100 or 102, and twice that from the 11th on."""
    costs = {one: D(100 + 2 * (one.day % 2)) * (1 + (one >= OCTOBER[10])) for one in until(OCTOBER[day - 1])}
    found = forecast(known(costs), FLEET, OCTOBER)
    return [float(end or 0) for end in (found.low, found.expected, found.high)]


def test_step_widens_the_range_at_once_and_is_confirmed_on_the_fourth_day() -> None:
    # if the step lasts, 10 days of 101 and 21 of 202 make 5,252; if not, 30 of 101 and one of 204 make 3,234, with two 3,335
    low, expected, high = stepped(11)
    assert [low, high] == pytest.approx([3234, 5252], rel=0.02)
    assert expected == pytest.approx(3234, rel=0.01)
    low, expected, _ = stepped(12)
    assert expected == pytest.approx(5252, rel=0.01)
    # the step is temporary with a chance of 1 in 4, which sets the low end
    assert low == pytest.approx(3335, rel=0.03)
    assert stepped(14)[::2] == pytest.approx([5252, 5252], rel=0.03)


def test_step_before_days_of_zero_cost_has_no_range() -> None:
    # October 30 is a Friday; weekends cost 0
    costs = {day: D(0 if day.weekday() > 4 else 100) for day in until(OCTOBER[29])}
    row = forecast(known(costs | {OCTOBER[29]: D(300)}), FLEET, OCTOBER)
    assert (row.low, row.expected, row.high) == (2400, 2400, 2400)


def test_doubled_cost_at_month_ends_is_expected_again() -> None:
    ends = {day: D(200 if (day + timedelta(days=2)).day <= 2 else 100) for day in until(OCTOBER[14])}
    # the cost doubles on each of these days
    steps = [date.fromisoformat(day) for day in ("2026-07-29", "2026-08-29", "2026-09-28")]
    for costs, expected in (
        (ends, 3300),  # 29 days of 100 and 2 of 200
        (
            {day: cost if day.month in (9, 10) else D(100) for day, cost in ends.items()},
            3100,
        ),  # only one month end
        ({day: cost for day, cost in ends.items() if day >= date(2026, 9, 5)}, 3100),  # too little history
        # month ends that contradict each other
        ({day: D(50) if cost == 200 and day.month == 8 else cost for day, cost in ends.items()}, 3100),
        # steps are not a pattern
        ({day: D(50 * 2 ** sum(day >= step for step in steps)) for day in ends}, 31 * 400),
    ):
        assert forecast(known(costs), FLEET, OCTOBER).expected == pytest.approx(D(expected), rel=D("0.001"))


def test_months_ahead_grow_by_percent_and_widen() -> None:
    flat = known(dict.fromkeys(until(OCTOBER[9]), D(100)))
    months = [OCTOBER, NOVEMBER, DECEMBER, [*OCTOBER, *NOVEMBER, *DECEMBER]]
    assert [row.expected for row in forecasts(flat, FLEET, months)] == [3100, 3000, 3100, 9200]
    # 3,100, then 30 days of 110 and 31 of 121
    grown_months = [row.expected for row in forecasts(flat, FLEET, months, Growth(10, OCTOBER[-1]))]
    assert grown_months == pytest.approx([3100, 3300, 3751, 10151])
    noisy = known({day: D(100 + day.day % 7) for day in until(OCTOBER[9])})
    rows = forecasts(noisy, FLEET, months[:3])
    widths = [(row.high or 0) - (row.low or 0) for row in rows]
    assert widths == sorted(widths) and 0 < widths[0] < widths[2]
    # given growth, the trend of the data ends with October
    rising = known({day: D(100 + at) for at, day in enumerate(until(OCTOBER[30]))})
    flat_months = forecasts(rising, FLEET, months[:3], Growth(0, OCTOBER[-1]))
    assert flat_months[2].expected == pytest.approx(flat_months[1].expected * 31 / 30)


DAYS = OCTOBER[:10]
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DuckDBPyConnection]:
    """Ten days of an on-demand a3-highgpu-8g, five of another on spot, and an on-premises machine."""
    own_catalog.use(own_catalog.write(tmp_path / "pricing"), monkeypatch)
    with scratch_store() as con:
        node(con, "1 a3-highgpu-8g on_demand 10 80")
        node(con, "2 a3-highgpu-8g spot 5 30")
        node(con, "3 - on_demand 10 2")
        yield con


def node(con: DuckDBPyConnection, fields: str) -> None:
    """Insert a node: number, type ("-" on-premises), capacity type, days in October, price, and purchase option."""
    number, kind, capacity, days, price, *option = fields.split()
    place = [None] * 3 if kind == "-" else ["gcp", "us-central1", kind]
    con.execute(
        "INSERT INTO nodes BY NAME SELECT ? AS node_id, 'main' AS cluster, ? AS node, ? AS up_from_ms, ? AS up_to_ms,"
        " ? AS capacity_type, ? AS provider, ? AS region, ? AS instance_type, 'H100-SXM5-80GB' AS gpu_model, 8 AS gpu_count",
        [number, f"n{number}", START - MS_PER_HOUR, START + int(days) * MS_PER_DAY, capacity, *place],
    )
    con.execute(
        "INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms,"
        " $2::DECIMAL(38, 9) AS price_per_hour, 'price_book' AS price_source, $3 AS purchase_option"
        " FROM nodes WHERE node_id = $1::INTEGER",
        [number, price, "".join(option) or None],
    )


def costs(rows: list[ScenarioRow], scenario: str) -> dict[str, Decimal | None]:
    return {row.way: row.monthly_cost for row in rows if row.scenario == scenario}


def used(con: DuckDBPyConnection, config: Config | None = None) -> list[Use]:
    """The use of a3-highgpu-8g, and of the on-premises machine."""
    return sorted(read_uses(con, config or Config(), DAYS, NOW), key=lambda use: use.name, reverse=True)


def test_scenarios_multiply_node_hours_by_prices(store: DuckDBPyConnection) -> None:
    uses = used(store)
    # (240 + 120) h / 240 h; the last hour of September does not count
    listing = listed(uses, "name nodes most_nodes")
    assert listing == "a3-highgpu-8g gcp us-central1 1.5 2; H100-SXM5-80GB 1 1"
    rows = scenarios(uses, grown(10, 2, "2026-12"))
    assert costs(rows, "today") == {
        "as_now": (80 + 15 + 2) * 730,
        "on_demand": (D("1.5") * 80 + 2) * 730,
        "spot": (D("1.5") * 30 + 2) * 730,
        "commitment_1_year": None,
        "commitment_3_years": (2 * D("38.864") + 2) * 730,
    }
    # 1.21 x 2 nodes round up to 3 whole nodes, and so do on-premises machines
    assert costs(rows, "+10 % a month, 2026-12")["commitment_3_years"] == (3 * D("38.864") + 2 * 2) * 730
    assert costs(rows, "+50 %")["spot"] == D("1.5") * (D("1.5") * 30 + 2) * 730
    assert costs(rows, "x10")["on_demand"] == 10 * (D("1.5") * 80 + 2) * 730
    found = {row.way: row for row in rows if row.scenario == "today"}
    one, three = found["commitment_1_year"], found["commitment_3_years"]
    assert (one.missing, one.obligation) == (("a3-highgpu-8g gcp us-central1",), None)
    assert (three.obligation, found["on_demand"].obligation) == ((2 * D("38.864") + 2) * 8760 * 3, None)


def test_prices_come_from_own_nodes_then_price_book_then_list_prices(
    store: DuckDBPyConnection, tmp_path: Path
) -> None:
    store.execute("DELETE FROM node_prices WHERE node_id = 2")
    (listed, _) = used(store)
    assert "spot" not in listed.prices  # the catalog has no spot price of this type
    book = tmp_path / "prices.csv"
    book.write_text(
        "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start\n"
        "gcp,us-central1,us-central1-a,a3-highgpu-8g,spot,20,USD,\n"
        "gcp,,,,spot,40,USD,\ngcp,,,a3-highgpu-8g,spot,24,USD,\ngcp,,,a3-highgpu-8g,spot,21,USD,2027-01-01\n"
        "gcp,,,a3-highgpu-8g,cud,10,USD,\n"
    )
    config = Config.model_validate({
        "prices": {"book": str(book), "discounts": [{"percent": 10, "provider": "gcp"}]}
    })  # fmt: skip
    uses = used(store, config)
    prices = uses[0].prices
    assert (prices["spot"].per_node_hour, prices["spot"].source) == (24, "price book line 4")
    assert prices["on_demand"].source == "own nodes: price book"
    assert "less 10 %" in prices["commitment_3_years"].source
    # a price book has no commitment terms: its price is neither a 1-year price nor an on-demand price
    commitments = {way: price.per_node_hour for way, price in prices.items() if way.startswith("commitment")}
    assert commitments == {"commitment_3_years": D("34.9776")}
    assumed = {one.name: (one.value, one.source) for one in assumptions(uses, DAYS, 5.0)}
    assert assumed["a3-highgpu-8g gcp us-central1: commitment 1 year"] == ("missing", "no source")
    assert assumed["a3-highgpu-8g gcp us-central1: spot"] == (24, "price book line 4")
    assert assumed["growth"] == (5.0, "option")


def test_commitments_without_upfront_payment_and_price_book_in_another_currency(
    store: DuckDBPyConnection, tmp_path: Path
) -> None:
    # neither a cheaper price paid upfront nor a price in another currency
    for payment, price, currency in (("all_upfront", 20, "USD"), ("no_upfront", 30, "EUR")):
        store.execute(
            "INSERT INTO list_prices BY NAME SELECT 'gcp' AS provider, 'us-central1' AS region, '' AS zone, 'a3-highgpu-8g' AS"
            " instance_type, 'cud' AS purchase_option, 3 AS term_years, ? AS payment_option, ? AS offering, ? AS price_per_hour,"
            " ? AS currency, DATE '2026-11-02' AS price_as_of, 's' AS source",
            [payment, currency.lower(), price, currency],
        )
    store.execute("UPDATE node_prices SET price_source = 'none', price_per_hour = 0 WHERE node_id = 1")
    book = tmp_path / "prices.csv"
    book.write_text(
        "provider,instance_type,purchase_option,price_per_hour,currency,effective_start\n"
        "gcp,a3-highgpu-8g,,70,CHF,2026-10-01\ngcp,,spot,50,USD,\n"
    )
    config = Config.model_validate({"prices": {"book": str(book), "fx": {"CHF": "1.2"}}})
    uses = used(store, config)
    prices = {way: (price.per_node_hour, price.as_of) for way, price in uses[0].prices.items()}
    assert prices["commitment_3_years"] == (D("38.864"), "2026-11-01")
    assert prices["on_demand"] == (84, "2026-10-01")
    assert "as_now" not in prices
    today = costs(scenarios(uses, None), "today")
    assert today["as_now"] is None
    assert {row.scenario for row in scenarios(uses, None)} == {"today", "+50 %", "x10"}
    assert "growth" not in {one.name for one in assumptions(uses, DAYS, None)}


def test_price_under_a_commitment_is_not_an_on_demand_price(store: DuckDBPyConnection) -> None:
    node(store, "4 a3-highgpu-8g on_demand 10 10 cud")
    assert used(store)[0].prices["on_demand"].per_node_hour == 80
    store.execute("UPDATE node_prices SET price_source = 'bill' WHERE node_id = 1")
    assert used(store)[0].prices["on_demand"].source == "own nodes: bill"
    change_bill_rows(
        store,
        "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'gcp' AS provider, 's' AS source, 'gcp' AS format, '1' AS"
        " billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 1 AS rows, 1 AS load_id,"
        " TIMESTAMP '2026-11-01' AS loaded_at; "
        "INSERT INTO bill_rows BY NAME SELECT 1 AS bill_id, row::UBIGINT AS charge_key, TIMESTAMP '2026-10-02' AS"
        " charge_period_start, TIMESTAMP '2026-10-03' AS charge_period_end, 'Usage' AS charge_category, 0 AS billed_cost, 1 AS"
        " effective_cost, 'USD' AS billing_currency, 'cud-1' AS commitment_discount_id, 'instance' AS kind, 'same' AS cost_cause,"
        " 'f' AS source_file, row AS source_row FROM range(2) AS rows(row)",
    )
    # the price in the bill may include the commitment, so the list price is used
    (use, _) = used(store)
    assert (use.prices["on_demand"].per_node_hour, use.nodes) == (D("88.49"), D("2.5"))


def test_fewer_than_seven_days_give_no_mix() -> None:
    assert last_days(DAYS[:6]) == ()
    assert last_days(DAYS[:7]) == tuple(DAYS[:7])
    assert len(last_days(until(OCTOBER[9]))) == 28


SPAN, BEFORE = 120, 60  # the month begins after 60 days
MONTH = 30


def _levels(kind: str, dice: random.Random, noise: float) -> list[float]:
    """The cost level of each day, with noise."""
    level, stray, found = 1.0, 0.0, []
    growth, jump = dice.choice([0.005, 0.01, 0.02]), dice.choice([0.3, 0.5, 1.5, 2.5])
    jump_at = dice.randrange(20, SPAN - 5)
    jobs = [0.2] * (SPAN + 10)
    for day in range(SPAN):
        if dice.random() < 0.3:
            cost = dice.expovariate(1 / 0.3)
            for later in range(day, day + dice.randrange(1, 10)):
                jobs[later] += cost
    for day in range(SPAN):
        stray = dice.gauss(0, noise) + (0.8 * stray if kind == "alike" else 0.0)
        level = {
            "walks": level * math.exp(dice.gauss(0, 0.04)),
            "grows": 1 + growth * day,
            "shrinks": max(0.0, 3 - 0.02 * day),
            "jumps": jump if day >= jump_at else 1.0,
            "stops": 0.0 if day >= jump_at else 1.0,
            "jobs": jobs[day],
        }.get(kind, 1.0)
        far = 5 * noise * dice.choice([-1, 1]) if kind == "outliers" and dice.random() < 0.05 else 0.0
        found.append(max(0.0, level * (1 + stray + far)) if kind != "jobs" else level)
    return found


def _fleet(kind: str, dice: random.Random) -> dict[date, Decimal]:
    first = date(2026, 1, 1) + timedelta(days=dice.randrange(365))
    noise, size = dice.choice([0.03, 0.1, 0.2]), dice.choice([100, 1000, 20000])
    weekend = 1.0 if kind == "jobs" else dice.choice([0.4, 1.0])
    days = [first + timedelta(days=count) for count in range(SPAN)]
    return {
        day: Decimal(str(round(level * size * (weekend if day.weekday() > 4 else 1), 2)))
        for day, level in zip(days, _levels(kind, dice, noise), strict=True)
    }


def _holds(kind: str, dice: random.Random, known_days: int) -> bool:
    """Whether the range contains the cost of a month, given the previous 28 days and some days of the month."""
    fleet = _fleet(kind, dice)
    days = list(fleet)[BEFORE - 28 : BEFORE + MONTH]
    known = {day: fleet[day] for day in days[: 28 + known_days]}
    found = forecast(Days(tuple(days), tuple(known), {FLEET: known}), FLEET, days[28:])
    assert found.low is not None and found.high is not None
    return found.low <= sum(fleet[day] for day in days[28:]) <= found.high


KINDS = ("steady", "outliers", "alike", "grows", "shrinks", "walks", "jobs", "jumps", "stops")


@pytest.mark.parametrize(
    ("kinds", "fleets", "least", "most"),
    [(("steady",), 50, 0.78, 0.98), pytest.param(KINDS, 15, 0.76, 0.88, marks=pytest.mark.ci)],
)
def test_four_in_five_months_end_within_the_range(
    kinds: tuple[str, ...], fleets: int, least: float, most: float
) -> None:
    dice = random.Random(11)
    hits = [_holds(kind, dice, days) for kind in kinds for days in (3, 8, 15, 25) for _ in range(fleets)]
    assert least <= sum(hits) / len(hits) <= most


def _unusual(fleet: dict[date, Decimal]) -> list[date]:
    """The days of the month that are reported as unusual."""
    days = tuple(fleet)
    month = days[BEFORE : BEFORE + MONTH]
    return [one.day for one in anomalies(Days(days, days, {FLEET: fleet}), month, Decimal(1), "USD")]


@pytest.mark.parametrize(("kind", "most"), [("walks", 0.01), ("jobs", 0.03)])
def test_ordinary_day_is_rarely_reported_as_unusual(kind: str, most: float) -> None:
    dice = random.Random(3)
    assert sum(len(_unusual(_fleet(kind, dice))) for _ in range(60)) / (60 * MONTH) <= most


@pytest.mark.parametrize(("factor", "least"), [(2, 48), (0, 57)])
def test_unusual_day_is_found(factor: int, least: int) -> None:
    dice, found = random.Random(4), 0
    for _ in range(60):
        fleet = _fleet("steady", dice)
        odd = list(fleet)[dice.randrange(BEFORE, BEFORE + MONTH)]
        found += odd in _unusual(fleet | {odd: fleet[odd] * factor})
    assert found >= least


def test_weekdays_without_data_widen_the_range() -> None:
    days = [date(2026, 6, 1) + timedelta(days=count) for count in range(12)]
    known = {day: Decimal(100 + count % 2) for count, day in enumerate(days[:5])}  # from Monday to Friday
    found = forecast(Days(tuple(days), tuple(known), {FLEET: known}), FLEET, days)
    assert (found.low or 9999) < 12 * 100 < (found.high or 0)
