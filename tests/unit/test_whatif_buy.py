"""`gpucost whatif buy`: how many own nodes, and when they have paid for themselves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.answer import Answer
from gpucost.whatif.buy import Own, Purchase, answer, cloud_usage
from gpucost.whatif.curve import Curve
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from tests.unit.whatif_costs import answered, plain_cost

pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
# 8,760 h a year: 87,600 over 2 years are 5 an hour, and 1 an hour as it runs
OWN = Own(Decimal(6), Decimal(1), Decimal(87600), Decimal(0), 2.0, 8.0, "test")


def ask(curve: Curve, cloud: str = "10", own: Own = OWN, **options: Any) -> Answer:
    price, purchase = Price(Decimal(cloud), "option"), Purchase(**options)
    return answered(answer(own, price, curve, currency="USD", period="a test", purchase=purchase), plain_cost)


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["whatif", "buy", *words, "--format", "json", "-q"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_base_load_is_owned_and_peaks_are_rented() -> None:
    found = ask(Curve.hourly([3, 2, 2, 1]))
    assert found.figures["own_nodes"] == 2
    assert found.today.cost == 80
    assert found.scenario.cost == 2 * 4 * 6 + 10
    assert found.figures["break_even_utilization_percent"] == pytest.approx(60)
    assert found.figures["base_load_percent"] == pytest.approx(87.5)


def test_break_even_month_is_where_cumulative_cash_meets() -> None:
    found = ask(Curve.constant(1, 730, 730))
    # a month in the cloud is 7,300, the node as it runs 730: 87,600 / 6,570 = 13.3
    assert found.figures["break_even_months"] == pytest.approx(87600 / 6570, abs=1e-6)
    assert found.figures["break_even_month"] == 14
    assert ask(Curve.constant(1, 730, 730), lead_months=3).figures["break_even_month"] == 17
    (cash,) = [table for table in found.tables if table.title == "cumulative cash"]
    assert cash.lines[0] == (0, 0, 87600, -87600)
    assert cash.lines[-1] == (2, 24 * 7300, 87600 + 24 * 730, 24 * 6570 - 87600)


def test_residual_value_comes_back_at_the_end() -> None:
    own = Own(Decimal(5), Decimal(1), Decimal(87600), Decimal(17520), 2.0, 8.0, "test")
    (cash,) = [table for table in ask(Curve.constant(1, 730, 730), own=own).tables if table.title == "cumulative cash"]
    assert cash.lines[-1][2] == 87600 + 24 * 730 - 17520


def test_what_never_pays() -> None:
    found = ask(Curve.constant(1, 730, 730), cloud="5")
    assert found.figures["own_nodes"] == 0
    assert found.figures["break_even_month"] is None
    assert found.saving == 0
    forced = ask(Curve.constant(1, 730, 730), cloud="5", own_nodes=1)
    assert forced.saving < 0
    assert forced.figures["break_even_month"] is None


@given(levels=st.lists(st.floats(0, 8), min_size=1, max_size=20).filter(any), cloud=st.decimals("0.5", "20", places=2))
def test_no_other_number_of_nodes_costs_less(levels: list[float], cloud: Decimal) -> None:
    curve = Curve.hourly(levels)
    best = ask(curve, str(cloud))
    others = [ask(curve, str(cloud), own_nodes=nodes).scenario.cost for nodes in range(10)]
    assert all(best.scenario.cost <= other + Decimal("0.001") for other in others)
    assert best.saving >= Decimal("-0.001")


def fleet() -> Fleet:
    start, end = PERIOD.start_ms, PERIOD.end_ms
    price = (Price(Decimal(10), "price_book"),)
    nodes = (
        Node("a", 4, start, end, price, "spot", gpu_model="A100"),
        Node("b", 8, start, start + 12 * MS_PER_HOUR, price, gpu_model="A100"),
        Node("c", 8, start, end, price, gpu_model="T4"),
    )
    return Fleet(nodes, (Pod("a", "Job/x", 4, start, end), Pod("b", "Job/x", 8, start, start + 12 * MS_PER_HOUR)))


def test_usage_of_the_store_counts_in_own_nodes() -> None:
    curve, cloud = answered(cloud_usage(fleet(), PERIOD, "A100", 8, is_narrowed=False), plain_cost)
    assert curve.node_hours == pytest.approx(12 + 12)
    # 360 for 192 GPU-hours
    assert cloud.per_node_hour == Decimal("15")
    assert curve.peak == pytest.approx(1.5)
    with pytest.raises(GpucostError, match="no H100 was used"):
        answered(cloud_usage(fleet(), PERIOD, "H100", 8, is_narrowed=False), plain_cost)


OPTIONS = ("--purchase-price", "280000", "--gpu-watts", "700", "--years", "4", "--price-per-kwh", "0.12")


def test_calculator() -> None:
    found = run(*OPTIONS, "--nodes", "4", "--on-demand-price", "55")
    assert found["today"]["cost"] == 4 * 730 * 55
    assert found["own_nodes"] == 4
    # 280,000 over 35,040 h, and 5.6 kW at 0.12
    assert found["own_price"] == pytest.approx(280000 / 35040 + 0.672)
    assert found["own_running_price"] == pytest.approx(0.672)
    assert found["capex"] == 4 * 280000
    assert found["break_even_months"] == pytest.approx(280000 / (730 * (55 - 0.672)), abs=1e-3)
    per_gpu = run(*OPTIONS, "--nodes", "4", "--on-demand-price", "6.875", "--price-per", "gpu")
    assert per_gpu["today"]["cost"] == found["today"]["cost"]


def test_list_price_is_that_of_as_many_gpus() -> None:
    place = ("--instance-type", "a2-highgpu-4g", "--region", "us-central1")
    eight = run(*OPTIONS, "--nodes", "1", *place)
    four = run(*OPTIONS, "--gpus-per-node", "4", "--nodes", "1", *place)
    assert eight["cloud_price"] == pytest.approx(2 * four["cloud_price"])
