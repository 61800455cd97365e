"""`gpucost whatif spot` from options alone: the published figures, what it says of time and range, and wrong input."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.unit.whatif_costs import ask

EXAMPLE = "--on-demand-price 32 --spot-price 12 --interruptions-per-hour 0.3333333333 --checkpoint-minutes 30"


pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")


@cache
def ask_once(arguments: str) -> dict[str, Any]:
    """The answer, which no test may change: it is asked once."""
    return ask("spot", f"{arguments} --runs 500")


def test_one_interruption_in_three_hours() -> None:
    answer = ask_once(EXAMPLE)
    assert answer["effective_price_first_order"] == 13.0
    assert answer["effective_price_exact"] == pytest.approx(13.05795)
    assert round(answer["saving_percent"]) == 59
    assert answer["today"]["cost"] == 23_360.0
    assert answer["scenario"]["cost_first_order"] == pytest.approx(13 * 730, abs=0.005)
    assert answer["optimal_checkpoint_minutes"] is None
    assert answer["break_even_interruptions_per_hour_first_order"] == pytest.approx(20 / 12 / 0.25)
    # a checkpoint twice as often halves what is lost
    assert ask_once(EXAMPLE.replace("minutes 30", "minutes 15"))["effective_price_first_order"] == 12.5


@pytest.mark.parametrize(
    ("arguments", "cost", "node_hours"),
    [
        ("--on-demand-price 3 --price-per gpu --gpus 16 --hours 168", 8_064.0, 168),
        ("--on-demand-price 98.32 --hours 8760 --nodes 32", 27_561_062.40, 8760 * 32),
        ("--on-demand-price 32 --active-hours-per-day 10 --days 20 --nodes 2", 32 * 200 * 2, 200 * 2),
    ],
)
def test_cost_is_price_times_hours(arguments: str, cost: float, node_hours: float) -> None:
    answer = ask_once(f"{arguments} --spot-price 1 --interruptions-per-hour 0")
    spot = node_hours * (16 if "gpu" in arguments else 1)
    assert (answer["today"]["cost"], answer["today"]["node_hours"], answer["scenario"]["cost"]) == (cost, node_hours, spot)


def test_a_nodes_price_is_not_a_gpus() -> None:
    often = "--interruptions-per-hour 0.25 --checkpoint-minutes 30"
    per_node = ask_once(f"--on-demand-price 32.77 --spot-price 12.50 {often}")
    assert per_node["lost_per_interruption"] == 3.125
    assert per_node["saved_between_interruptions"] == 81.08
    per_gpu = ask_once(f"--on-demand-price 4.09625 --spot-price 1.5625 --price-per gpu --gpus 8 {often}")
    assert (per_gpu["lost_per_interruption"], per_gpu["saved_between_interruptions"]) == (3.125, 81.08)
    assert per_gpu["today"] == per_node["today"]
    assert per_gpu["scenario"]["cost"] == per_node["scenario"]["cost"]
    assert per_gpu["price_per"] == "gpu"
    assert per_gpu["effective_price_exact"] == pytest.approx(per_node["effective_price_exact"] / 8, abs=1e-6)


def test_a_gang_is_interrupted_as_often_as_all_its_nodes() -> None:
    one, four = ask_once(EXAMPLE), ask_once(EXAMPLE + " --nodes 4")
    assert four["effective_price_first_order"] == pytest.approx(12 * (1 + 4 / 12), abs=1e-6)
    assert four["break_even_interruptions_per_hour"] == pytest.approx(one["break_even_interruptions_per_hour"] / 4)


def test_a_checkpoint_that_fits_the_notice_saves_the_loss() -> None:
    saved = ask_once(EXAMPLE + " --notice-seconds 120 --checkpoint-write-minutes 0")
    assert saved["effective_price_first_order"] == 12.0
    too_short = ask_once(EXAMPLE + " --notice-seconds 30 --checkpoint-write-minutes 1")
    unnoticed = ask_once(EXAMPLE + " --checkpoint-write-minutes 1")
    assert too_short["effective_price_exact"] == unnoticed["effective_price_exact"]


def test_waits_for_capacity_and_free_first_hours_cost_no_money() -> None:
    plain, waiting = ask_once(EXAMPLE), ask_once(EXAMPLE + " --capacity-wait-minutes 60")
    assert waiting["scenario"] == plain["scenario"]
    assert ask_once(EXAMPLE + " --first-hour-free")["scenario"]["cost"] < plain["scenario"]["cost"]
    interruptions = plain["makespan_hours"]["expected_interruptions"]
    assert waiting["makespan_hours"]["expected"] == pytest.approx(plain["makespan_hours"]["expected"] + interruptions, abs=1e-5)


def test_cost_rises_with_interruptions_and_the_simulated_mean_meets_it() -> None:
    rates = (0, 0.01, 0.1, 0.5, 2)
    base = "--on-demand-price 32 --spot-price 12 --restart-minutes 6 --checkpoint-write-minutes 1 --interruptions-per-hour"
    answers = [ask_once(f"{base} {rate}") for rate in rates]
    paid = [answer["scenario"]["cost"] for answer in answers]
    assert paid == sorted(paid)
    assert len(set(paid)) == len(paid)
    for makespan in (answer["makespan_hours"] for answer in answers):
        assert makespan["mean_low"] - 1e-6 <= makespan["expected"] <= makespan["mean_high"] + 1e-6


def test_the_reverse_swaps_sides() -> None:
    to_spot, back = ask_once(EXAMPLE), ask_once(EXAMPLE + " --move-to on-demand")
    assert back["today"]["cost"] == to_spot["scenario"]["cost"]
    assert back["saving"] == -to_spot["saving"]


def test_spot_at_the_on_demand_price_is_no_discount() -> None:
    answer = ask_once("--on-demand-price 12 --spot-price 12 --interruptions-per-hour 0.1")
    assert answer["has_discount"] is False
    assert answer["break_even_interruptions_per_hour"] is None
    assert any("no discount" in finding for finding in answer["findings"])


def test_the_same_seed_simulates_the_same() -> None:
    assert ask_once(EXAMPLE + " --seed 7") == ask_once.__wrapped__(EXAMPLE + " --seed 7")
    assert ask_once(EXAMPLE + " --seed 7")["makespan_hours"] != ask_once(EXAMPLE + " --seed 8")["makespan_hours"]


def test_the_catalog_knows_prices_and_interruptions_of_an_instance_type() -> None:
    answer = ask_once("--instance-type P4D.24xlarge --region us-east-1")
    sources = {item["name"]: item for item in answer["assumptions"]}
    assert sources["on-demand price"]["source"].startswith("catalog")
    assert sources["spot price"]["as_of"]
    assert "of instances a month" in sources["interruptions"]["source"]
    assert answer["today"]["gpu_hours"] == 8 * 730


def test_lines_take_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["whatif", "spot", *EXAMPLE.split(), "--runs", "100"]
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = CliRunner().invoke(app, words).stdout
        assert max(map(len, text.splitlines())) <= columns and "13.0000 by first order" in text
    assert max(map(len, CliRunner().invoke(app, [*words, "--format", "markdown"]).stdout.splitlines())) > columns
