"""Jobs replayed over spot price history, against a plain calculation that walks through time second by second, or price by price.

GPUCOST_SPOT_PRICES names a folder of answers of `aws ec2 describe-spot-price-history` (p3.2xlarge among them) to replay, too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.spot.backtest import FALLBACK, ON_DEMAND, SWITCHING, Job, anchor_name, costs, replay
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.market import PriceChanges
from tests.shared import shared
from tests.unit.spot import change, write
from tests.unit.whatif_costs import ask, assert_refused

MINUTE = 60_000
Prices = dict[str, list[tuple[int, Decimal]]]


def changes(zone: str, *steps: tuple[int, str], until: int = 100) -> PriceChanges:
    """Steps as (hour, price)."""
    at = tuple(hour * MS_PER_HOUR for hour, _ in steps)
    return PriceChanges("r", zone, at, tuple(Decimal(price) for _, price in steps), until * MS_PER_HOUR)


def price_at(steps: list[tuple[int, Decimal]], at: int) -> Decimal:
    return next(price for since, price in reversed(steps) if since <= at)


def walked(lanes: list[list[tuple[int, Decimal]]], start: int, hours: float, move_minutes: int) -> Fraction:
    """The job's cost, a minute at a time: it runs in the cheapest lane; a move adds minutes to its length."""
    at, left, place, cost = start, round(hours * 60), -1, Fraction(0)
    while left > 0:
        prices = [price_at(lane, at) for lane in lanes]
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
    on_demand: list[tuple[int, Decimal]] = [(0, Decimal("2.0"))]
    job = Job(0, 10.5, 8, tuple(on_demand), (a, b), 8)
    runs = replay(job, move_hours=0.5, on_demand_share=0.3)
    paid = {way: amounts[0] for way, amounts in costs([job], [runs]).items()}
    steps_a, steps_b = (list(zip(zone.at_ms, zone.prices, strict=True)) for zone in (a, b))
    stay_a = walked([steps_a], 0, 10.5, 0)
    expected = {
        ON_DEMAND: Fraction(21),
        "stay in a": stay_a,
        "stay in b": walked([steps_b], 0, 10.5, 0),
        SWITCHING: walked([steps_a, steps_b], 0, 10.5, 30),
        FALLBACK: walked([steps_a, on_demand], 0, 10.5, 30),
        anchor_name(0.3): Fraction(3, 10) * 21 + Fraction(7, 10) * stay_a,
    }
    assert paid.keys() == expected.keys()
    for way, amount in expected.items():
        assert float(paid[way]) == pytest.approx(float(amount), abs=1e-6), way
    assert runs[SWITCHING].moves == 3


def test_what_history_does_not_cover_is_no_way_of_buying() -> None:
    short, long = changes("a", (0, "1"), until=5), changes("b", (0, "2"), until=50)
    job = Job(0, 10, 8, ((0, Decimal(3)),), (short, long), 8)
    assert "stay in a" not in replay(job, 0, 0.3)
    assert "stay in b" in replay(job, 0, 0.3)
    assert replay(Job(60 * MS_PER_HOUR, 1, 8, ((0, Decimal(3)),), (short, long), 8), 0, 0.3) == {}


def collect(path: str) -> None:
    assert CliRunner().invoke(app, ["collect", "spot", path]).exit_code == 0


def answered(arguments: str) -> dict[str, Any]:
    answer = ask(
        "spot", f"--backtest --restart-minutes 0 --checkpoint-write-minutes 0 --notice-seconds 0 {arguments}"
    )
    return answer | {"by": {row["strategy"]: row["cost"] for row in answer["strategies"]}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store of a short history in the working directory, which tests only read."""
    folder = tmp_path_factory.mktemp("history")
    rows = (
        ("2026-10-01", "1.0", "a"),
        ("2026-10-01", "1.2", "b"),
        ("2026-10-02", "1.5", "a"),
        ("2026-10-04", "1.25", "b"),
    )
    write(folder / "history.json", *(change(day, price, f"us-east-1{zone}") for day, price, zone in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", str(folder / "none"))
        collect("history.json")
        yield


def test_a_job_is_started_once_a_day_over_the_history(store: None) -> None:
    answer = answered("--instance-type p3.2xlarge --region us-east-1 --hours 24")
    # three starts: 24 h at 1.0, then 1.5 in zone a; 1.2 in zone b; 3.06 on demand
    assert answer["jobs"] == 3
    assert answer["today"]["cost"] == pytest.approx(24 * 3.06)
    assert answer["by"]["stay in us-east-1a"] == pytest.approx(24 * (1.0 + 1.5 + 1.5) / 3, abs=1e-5)
    assert answer["by"]["stay in us-east-1b"] == pytest.approx(24 * 1.2)
    assert answer["by"][SWITCHING] == pytest.approx(24 * (1.0 + 1.2 + 1.2) / 3, abs=1e-5)
    assert answer["scenario"]["strategy"] == SWITCHING
    assert answer["today"]["gpu_hours"] == 24


def test_nodes_and_interruptions_count(store: None) -> None:
    job = "--instance-type p3.2xlarge --region us-east-1 --hours 24 --on-demand-price 4 --interruptions-per-hour 0.2"
    one, two = answered(job), answered(f"{job} --nodes 2")
    # the third start's interruptions take it past the end of what is known
    assert (one["today"]["cost"], two["today"]["cost"], one["jobs"]) == (96, 192, 2)
    assert one["by"]["stay in us-east-1b"] == pytest.approx(24 * 1.2 * exact(Work(0.2, 0.5)), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--instance-type p3.2xlarge --region us-east-1 --hours 240", 1, "shorter than the job"),
        ("--instance-type p4d.24xlarge --region us-east-1 --hours 2", 1, "no spot prices of p4d.24xlarge"),
    ],
)
def test_wrong_input_is_told(store: None, arguments: str, code: int, message: str) -> None:
    assert_refused("spot", f"--backtest {arguments}", message, code)


def market_of(folder: Path) -> Prices:
    """Plainly: every change of p3.2xlarge by zone; a fact told twice counts once."""
    known: dict[tuple[str, int], Decimal] = {}
    for path in sorted(folder.rglob("*.json")):
        for row in json.loads(path.read_text())["SpotPriceHistory"]:
            if row["InstanceType"] == "p3.2xlarge" and row["ProductDescription"] == "Linux/UNIX":
                at = datetime.fromisoformat(row["Timestamp"].replace("Z", "+00:00"))
                known[row["AvailabilityZone"], round(at.timestamp() * 1000)] = Decimal(row["SpotPrice"])
    zones: Prices = defaultdict(list)
    for (zone, at_ms), price in sorted(known.items()):
        zones[zone].append((at_ms, price))
    return dict(zones)


@pytest.mark.slow
@pytest.mark.shared
def test_real_history_against_a_plain_calculation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shared("data/gpu/spot-prices-stanford-2020")
    zones = market_of(folder)
    monkeypatch.chdir(tmp_path)
    collect(str(folder))
    # minutes are walked: the job starts and ends on whole minutes, and prices between are taken at their milliseconds
    begin = max(steps[0][0] for steps in zones.values())
    start = datetime.fromtimestamp(begin / 1000, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    hours, start_ms = 120, round(start.timestamp() * 1000)
    end = start + timedelta(hours=hours)
    answer = answered(
        f"--instance-type p3.2xlarge --region us-east-1 --hours {hours} --from {start.isoformat().replace('+00:00', 'Z')} "
        f"--to {end.isoformat().replace('+00:00', 'Z')} --on-demand-price 3.06"
    )
    assert answer["jobs"] == 1
    end_ms = start_ms + hours * MS_PER_HOUR
    moments = sorted(
        {start_ms, end_ms} | {at for steps in zones.values() for at, _ in steps if start_ms < at < end_ms}
    )
    ways = {f"stay in {zone}": [steps] for zone, steps in zones.items()} | {SWITCHING: list(zones.values())}
    for way, lanes in ways.items():
        cost = sum(
            min(Fraction(price_at(lane, at)) for lane in lanes) * (until - at)
            for at, until in pairwise(moments)
        )
        assert answer["by"][way] == pytest.approx(float(cost / MS_PER_HOUR), abs=2e-6), way
    assert answer["by"][ON_DEMAND] == pytest.approx(3.06 * hours)
