"""`gpucost whatif egress`: downloads at every start against a cache."""

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
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.answer import Answer
from gpucost.whatif.egress import Downloads, Transfer, answer, starts_of
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from tests.unit.whatif_costs import answered, plain_cost

pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))


def ask(*downloads: Downloads, gb: str = "100", **changes: Any) -> Answer:
    transfer = Transfer(Decimal(gb), **changes)
    return answered(answer(downloads, transfer, hours=730, currency="USD", period="a test"), plain_cost)


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["whatif", "egress", *words, "--format", "json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_hundred_gb_on_fifty_nodes_for_thirty_days() -> None:
    found = run("--gb-per-start", "100", "--nodes", "50", "--days", "30", "--price-per-gb", "0.09")
    assert found["today"]["cost"] == 13500
    assert found["starts"] == 1500
    assert found["downloaded_gb"] == 150000
    # once 100 GB at 0.09, and 100 GB kept for 720 of 730 hours at 0.30
    assert found["scenario"]["cost"] == pytest.approx(9 + 30 * 720 / 730, abs=1e-6)
    assert run("--gb-per-start", "100", "--starts-per-day", "50", "--price-per-gb", "0.09")["today"]["cost"] == 13500


def test_cache_is_for_what_pays() -> None:
    found = ask(Downloads("often", 10, 4), Downloads("once", 1, 8))
    assert found.today.cost == 99
    assert found.scenario.cost == 9 + 30 + 9
    assert found.figures["cached_gb"] == 100
    assert found.figures["break_even_starts"] == pytest.approx(39 / 9)
    # 800 s a download, 80 s from the cache
    assert found.figures["gpu_hours_waiting"] == pytest.approx(48 * 800 / 3600)
    assert found.figures["gpu_hours_waiting_with_cache"] == pytest.approx((40 * 80 + 8 * 800) / 3600)
    assert "1 of 2 sets" in found.findings[0]


def test_versions_and_reads_are_paid() -> None:
    found = ask(Downloads("often", 100), changes=3, cache_read_price_per_gb=Decimal("0.01"))
    assert found.scenario.cost == 27 + 30 + 100
    never = ask(Downloads("often", 100), cache_read_price_per_gb=Decimal("0.09"))
    assert never.figures["break_even_starts"] is None
    assert never.saving == 0


@given(starts=st.integers(1, 500), more=st.integers(0, 100), price=st.decimals("0", "1", places=3))
def test_cost_never_falls_as_starts_rise_and_a_cache_never_costs_more(starts: int, more: int, price: Decimal) -> None:
    few, many = (ask(Downloads("a", count), price_per_gb=price) for count in (starts, starts + more))
    assert few.today.cost <= many.today.cost
    assert few.scenario.cost <= many.scenario.cost
    assert 0 <= few.saving <= few.today.cost


def test_starts_are_pods_that_began_in_the_period() -> None:
    start, hour = PERIOD.start_ms, MS_PER_HOUR
    nodes = tuple(Node(name, 8, start, PERIOD.end_ms, (Price(Decimal(1), "x"),)) for name in ("n", "m"))
    pods = (
        Pod("n", "Job/a", 2, start, start + 5 * hour, uid="before"),
        Pod("n", "Job/a", 2, start + hour, start + 2 * hour, uid="1"),
        Pod("n", "Job/a", 4, start + hour, start + 2 * hour, uid="2"),
        Pod("n", "Job/b", 1, start + hour, start + 2 * hour, uid="3", namespace="other"),
        # two parts of one pod, around time that was not collected
        Pod("m", "Job/b", 1, start + 3 * hour, start + 4 * hour, uid="3", namespace="other"),
    )
    fleet = Fleet(nodes, pods)
    assert starts_of(fleet, PERIOD, "workload") == (Downloads("default/Job/a", 2, 3.0), Downloads("other/Job/b", 1, 1.0))
    assert [one.name for one in starts_of(fleet, PERIOD, "namespace")] == ["default", "other"]
    assert [one.starts for one in starts_of(fleet, PERIOD, "all")] == [3]
