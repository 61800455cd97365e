"""Time that nobody collected counts nowhere: neither as waste, nor in what a month saves, nor at a price."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost import pipeline, savings
from gpucost.periods import Period
from gpucost.report import Query
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.scrape import scrape
from tests.unit.test_coverage_time import DAY, OwnStore, cur

PERIOD = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, DAY)))


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> OwnStore:
    """Four GPUs are held for a day of which ten hours were not seen; two of them are never used."""
    described = fleet(
        DAY,
        [node("n", "p4de.24xlarge", 0, DAY)],
        [pod("train", "n", [0, 1, 2, 3], 0, DAY)],
        busy("n", [0, 1], 0, DAY),
        ksm_silent=[[at(5), at(15)]],
    )
    answers = OwnStore(tmp_path_factory.mktemp("fleet"), described, scrape(described))
    assert answers.within() == [(5, 15)]
    return answers


def test_gpus_never_used_were_held_as_long_as_was_seen(unseen: OwnStore) -> None:
    findings = [candidate.finding for candidate in pipeline.candidates(unseen.config, unseen.store, PERIOD)]
    (one,) = [finding for finding in findings if finding.kind == "over_requested"]
    assert (one.waste_gpu_hours, one.gpu_hours) == (pytest.approx(28, abs=0.1), pytest.approx(56, abs=0.2))
    assert one.saving == pytest.approx(one.cost / 2)
    assert "28.0 of 56.0 GPU-hours on GPUs never used" in one.evidence


def test_what_is_saved_a_month_is_of_the_hours_collected(unseen: OwnStore) -> None:
    findings = savings.findings(unseen.config, unseen.store, PERIOD).findings
    assert findings
    for one in findings:
        assert float(one.saving_per_month) == pytest.approx(float(one.saving) * 730 / 14, rel=0.01)


def test_prices_are_of_the_hours_collected(unseen: OwnStore) -> None:
    query = Query(period=PERIOD, period_name="the day", namespaces=("train",))
    (one,) = pipeline.explain_cost(unseen.config, unseen.store, query, 0).nodes
    hours = [(price.end - price.start).total_seconds() / 3600 for price in one.prices]
    assert hours == [pytest.approx(5, abs=0.05), pytest.approx(9, abs=0.05)]
    assert sum(Decimal(hour) * price.price_per_hour for hour, price in zip(hours, one.prices, strict=True)) == pytest.approx(
        one.node_cost
    )


def test_a_bill_prices_hours_that_nobody_saw(unseen: OwnStore, tmp_path: Path) -> None:
    billed = unseen.copy(tmp_path)
    billed.load_bill(cur(billed.fleet))
    query = Query(period=PERIOD, period_name="the day", namespaces=("train",))
    (one,) = pipeline.explain_cost(billed.config, billed.store, query, 0).nodes
    assert float(one.not_collected_cost) == pytest.approx(219.6, abs=1)
    assert sum((price.end - price.start).total_seconds() for price in one.prices) == DAY * 3600
