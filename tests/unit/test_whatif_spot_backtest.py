"""Jobs replayed over spot price history, against a walk minute by minute; closed forms, and rates of interruptions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.spot.backtest import FALLBACK, ON_DEMAND, SWITCHING, Job, anchor_name, costs, replay
from gpucost.whatif.spot.formulas import (
    Work,
    best_checkpoints,
    break_even_rate,
    exact,
    expected_hours,
    first_order,
)
from gpucost.whatif.spot.interruptions import Evidence, Rate, gamma_quantile, posterior, prior_rate
from gpucost.whatif.spot.market import PriceChanges
from tests.text_tables import table
from tests.unit.command import run
from tests.unit.spot import change, write
from tests.unit.whatif_costs import ask, assert_refused, figures, shown

MINUTE = 60_000


def changes(zone: str, *steps: tuple[int, str], until: int = 100) -> PriceChanges:
    """Steps as (hour, price)."""
    lane = tuple((hour * MS_PER_HOUR, Decimal(price)) for hour, price in steps)
    return PriceChanges("aws", "r", zone, lane, until * MS_PER_HOUR)


def walked(lanes: list[list[tuple[int, Decimal]]], move_minutes: int) -> Fraction:
    """The cost of 10.5 h, a minute at a time: the job runs in the cheapest lane; a move adds minutes to its length."""
    at, left, place, cost = 0, 630, -1, Fraction(0)
    while left > 0:
        prices = [next(price for since, price in reversed(lane) if since <= at) for lane in lanes]
        cheapest = prices.index(min(prices))
        if place < 0:
            place = cheapest
        elif prices[cheapest] < prices[place]:
            place, left = cheapest, left + move_minutes
        cost += Fraction(prices[place]) / 60
        at, left = at + MINUTE, left - 1
    return cost


def test_every_way_of_buying_costs_what_a_walk_through_time_does() -> None:
    a = changes("a", (-1, "1.0"), (3, "2.5"), (6, "1.2"), (9, "4.0"))
    b = changes("b", (-2, "1.5"), (4, "1.1"), (7, "1.3"))
    on_demand = [(0, Decimal("2.0"))]
    job = Job(0, 10.5, 8, tuple(on_demand), (a, b), 8)
    runs = replay(job, move_hours=0.5, on_demand_share=0.3)
    paid = dict(zip(runs, map(float, costs((job, run) for run in runs.values())), strict=True))
    in_a, in_b = list(a.steps), list(b.steps)
    stay = walked([in_a], 0)
    expected = {
        ON_DEMAND: Fraction(21), "stay in a": stay, "stay in b": walked([in_b], 0), SWITCHING: walked([in_a, in_b], 30),
        FALLBACK: walked([in_a, on_demand], 30), anchor_name(0.3): Fraction(3, 10) * 21 + Fraction(7, 10) * stay,
    }  # fmt: skip
    assert paid == pytest.approx({way: float(amount) for way, amount in expected.items()}, abs=1e-6)
    assert runs[SWITCHING].moves == 3


def test_what_history_does_not_cover_is_no_way_of_buying() -> None:
    short, long = changes("a", (0, "1"), until=5), changes("b", (0, "2"), until=50)
    job = Job(0, 10, 8, ((0, Decimal(3)),), (short, long), 8)
    assert {"stay in a", "stay in b"} & {*replay(job, 0, 0.3)} == {"stay in b"}
    assert replay(Job(60 * MS_PER_HOUR, 1, 8, ((0, Decimal(3)),), (short, long), 8), 0, 0.3) == {}


def answered(arguments: str) -> dict[str, Any]:
    answer = ask(
        "spot", f"--backtest --restart-minutes 0 --checkpoint-write-minutes 0 --notice-seconds 0 {arguments}"
    )
    return answer | {"by": {row["strategy"]: row["cost"] for row in answer["strategies"]}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store of a short history in the working directory, which tests only read."""
    folder = tmp_path_factory.mktemp("history")
    days = [
        ("2026-10-01", "1.0", "a"),
        ("2026-10-01", "1.2", "b"),
        ("2026-10-02", "1.5", "a"),
        ("2026-10-04", "1.25", "b"),
    ]
    write(folder / "history.json", *(change(day, price, f"us-east-1{zone}") for day, price, zone in days))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", str(folder / "none"))
        run("collect spot history.json")
        yield


def test_a_job_is_started_once_a_day_over_the_history(store: None) -> None:
    answer = answered("--instance-type p3.2xlarge --region us-east-1 --hours 24")
    # three starts: 24 h at 1.0, then 1.5 in zone a; 1.2 in zone b; 3.06 on demand
    assert figures(answer, "jobs scenario.strategy today.gpu_hours") == f"3 {SWITCHING} 24"
    means = {"stay in us-east-1a": 4 / 3, "stay in us-east-1b": 1.2, SWITCHING: 3.4 / 3, ON_DEMAND: 3.06}
    assert {way: answer["by"][way] / 24 for way in means} == pytest.approx(means, abs=1e-6)
    assert answer["today"]["cost"] == answer["by"][ON_DEMAND]


def test_discounts_of_today_come_off_spot_and_on_demand(store: None, tmp_path: Path) -> None:
    rules = [
        ("", "spot_history"),
        ('gpu_model = "V100-SXM2-16GB"', "catalog"),
        ("effective_end = 2026-01-01", "catalog"),
    ]
    text = "".join(
        f'[[prices.discounts]]\npercent = 10\n{rule}\nprice_sources = ["{source}"]\n'
        for rule, source in rules
    )
    (tmp_path / "less.toml").write_text(f'store = "{Path("gpucost.duckdb").absolute()}"\n{text}')
    job = "--instance-type p3.2xlarge --region us-east-1 --hours 24"
    whole, less = answered(job)["by"], answered(f"{job} --config {tmp_path / 'less.toml'}")["by"]
    assert {way: less[way] / whole[way] for way in whole} == pytest.approx(
        dict.fromkeys(whole, 0.9), abs=1e-6
    )


def test_nodes_and_interruptions_count(store: None) -> None:
    job = "--instance-type p3.2xlarge --region us-east-1 --hours 24 --on-demand-price 4 --interruptions-per-hour 0.2"
    one, two = answered(job), answered(f"{job} --nodes 2")
    # the third start's interruptions take it past the end of what is known
    assert [figures(found, "today") for found in (one, two)] == ["96", "192"] and one["jobs"] == 2
    assert one["by"]["stay in us-east-1b"] == pytest.approx(24 * 1.2 * exact(Work(0.2, 0.5)), rel=1e-6)


def test_job_longer_than_the_history_and_type_without_prices_are_refused(store: None) -> None:
    for kind, hours, message in (
        ("p3.2xlarge", 240, "shorter than the job"),
        ("p4d.24xlarge", 2, "no spot prices of"),
    ):
        words = f"--backtest --instance-type {kind} --region us-east-1 --hours {hours}"
        assert_refused("spot", words, message, 1)


WORKS = st.builds(
    Work,
    per_hour=st.floats(0, 0.5),
    checkpoint=st.floats(0.05, 5),
    write=st.floats(0, 0.2),
    restart=st.floats(0, 0.5),
    notice=st.sampled_from([0.0, 2 / 60]),
    hits=st.integers(1, 16),
)


@given(WORKS)
def test_exact_is_never_below_first_order_and_meets_it_without_interruptions(work: Work) -> None:
    assert exact(work) >= first_order(work) * (1 - 1e-12)
    rare = replace(work, per_hour=1e-7)
    assert exact(rare) == pytest.approx(first_order(rare), rel=1e-5)
    # the difference vanishes faster than the rate: it is of second order beside w/c, which multiplies interruptions too
    none = replace(work, per_hour=0.0)
    assert exact(none) == pytest.approx(first_order(none), rel=1e-12)


@given(WORKS.filter(lambda work: work.per_hour > 0), st.floats(1.01, 20))
def test_at_the_break_even_spot_costs_what_on_demand_does(work: Work, ratio: float) -> None:
    rate = break_even_rate(work, ratio)
    if rate is None:
        assert exact(replace(work, per_hour=0.0)) >= ratio or exact(replace(work, per_hour=5e3)) < ratio
        return
    assert exact(replace(work, per_hour=rate)) == pytest.approx(ratio, rel=1e-6)
    early = break_even_rate(work, ratio, first_order)
    if early is not None:
        assert first_order(replace(work, per_hour=early)) == pytest.approx(ratio, rel=1e-6)
        assert rate <= early * (1 + 1e-6)


@given(WORKS, st.floats(0.1, 10))
def test_no_other_interval_beats_the_best(work: Work, factor: float) -> None:
    work = replace(work, notice=0.0)
    best = best_checkpoints(work)
    if best is None:
        assert work.write == 0 or work.gang_rate == 0
        return
    assume(work.gang_rate * work.write > 1e-9)
    optimal = exact(replace(work, checkpoint=best.exact))
    assert exact(replace(work, checkpoint=best.exact * factor)) >= optimal * (1 - 1e-9)
    assert best.young == pytest.approx(math.sqrt(2 * work.write / work.gang_rate))
    if work.gang_rate * work.write < 0.01:
        assert best.daly == pytest.approx(best.exact, rel=0.01)


@pytest.mark.parametrize(
    "work",
    [
        Work(1 / 3, 0.5),
        Work(0.05, 0.5, write=0.05, restart=0.25),
        Work(0.1, 0.5, write=0.05, restart=0.2, hits=4),
        Work(0.1, 0.5, write=0.02, restart=0.2, notice=2 / 60, hits=2),
        Work(3.0, 0.5, write=0.02, restart=0.2),
    ],
)
def test_a_job_takes_what_its_intervals_take_and_the_last_may_be_shorter(work: Work) -> None:
    short = replace(work, checkpoint=0.2)
    assert expected_hours(work, 100) == pytest.approx(100 * exact(work))
    assert expected_hours(work, 0.7) == pytest.approx(0.5 * exact(work) + 0.2 * exact(short))
    # by rounding, 0.1 h + 0.2 h are a little more than three intervals of 0.1 h
    tenths = replace(work, checkpoint=0.1)
    assert expected_hours(tenths, 0.1 + 0.2) == pytest.approx(0.3 * exact(tenths))


PRIORS = """
    cloud | region    | type          | low   | rate  | high
    aws   | us-east-1 | g5.48xlarge   | 0.06  | 0.26  | 0.74
    aws   | us-east-1 | p4d.24xlarge  | 0.025 | 0.068 | 0.147
    gcp   |           | a3-highgpu-8g | 0.005 | 0.05  | 0.1
    oci   |           | BM.GPU.H100.8 | 0.001 | 0.1   | 0.4
"""


@pytest.mark.parametrize("case", table(PRIORS), ids=lambda case: case["type"])
def test_a_prior_is_the_one_of_the_advisors_band(case: dict[str, str]) -> None:
    rate = prior_rate(case["cloud"], case.get("region"), case["type"])
    assert shown(rate.low, rate.per_hour, rate.high) == " ".join(
        case[name] for name in ("low", "rate", "high")
    )
    # elsewhere it is the most frequent one of the family
    assert prior_rate("aws", "nowhere-1", "g4dn.metal").low in {0.004, 0.06}


def test_own_evidence_moves_the_rate_from_the_first_hour() -> None:
    """40 nodes of one pool for a week without an interruption: 3 events in 168 pool-hours would be seen in 95 %."""
    prior = Rate(0.1, "wide", None, 0.001, 0.4)  # as wide as an exponential distribution: shape 1
    rate = posterior(prior, Evidence(node_hours=6720, pool_hours=168))
    assert rate.per_hour == pytest.approx(1 / (10 + 6720))
    assert rate.high == pytest.approx(2.9957 / (10 + 168), rel=1e-4)
    more = posterior(prior, Evidence(node_hours=1486, reclaims=6, pool_hours=743, ends=8))
    assert more.per_hour == pytest.approx(7 / 1496)
    assert more.high == pytest.approx(
        14.4347 / 753, rel=1e-4
    )  # half of the chi-squared quantile of 18 degrees
    assert posterior(prior, Evidence()) is prior


@pytest.mark.parametrize(
    ("shape", "share", "value"),
    # half of the chi-squared quantiles of twice as many degrees of freedom
    [(1, 0.95, 2.995732), (9, 0.975, 15.763189), (0.5, 0.05, 0.0019660), (50, 0.05, 38.964626)],
)
def test_quantiles_of_the_gamma_distribution(shape: float, share: float, value: float) -> None:
    assert gamma_quantile(shape, share) == pytest.approx(value, rel=1e-4)
