"""Closed forms for work on spot, and interruption rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, strategies as st

from gpucost.whatif.spot.formulas import Work, crossing, daly_interval, exact
from gpucost.whatif.spot.interruptions import Evidence, Place, Rate, gamma_quantile, posterior, prior_rate
from tests.text_tables import table
from tests.unit.whatif_costs import shown

MINUTE = 60_000


WORKS = st.builds(
    Work,
    per_hour=st.floats(0, 0.5),
    checkpoint=st.floats(0.05, 5),
    write=st.floats(0, 0.2),
    restart=st.floats(0, 0.5),
    hits=st.integers(1, 16),
)


@given(WORKS)
def test_rare_interruptions_cost_half_an_interval_and_the_restart(work: Work) -> None:
    """The first order 1 + w/c + hλ (c/2 + r) is a lower bound, and exact without interruptions."""

    def first_order(work: Work) -> float:
        return 1 + work.write / work.checkpoint + work.gang_rate * (work.checkpoint / 2 + work.restart)

    assert exact(work) >= first_order(work) * (1 - 1e-12)
    for rate, precision in ((1e-7, 1e-5), (0.0, 1e-12)):
        rare = replace(work, per_hour=rate)
        assert exact(rare) == pytest.approx(first_order(rare), rel=precision)


@given(WORKS.filter(lambda work: work.per_hour > 0), st.floats(1.01, 20))
def test_spot_at_the_break_even_costs_the_same_as_on_demand(work: Work, ratio: float) -> None:
    rate = crossing(lambda rate: exact(replace(work, per_hour=rate)), ratio)
    if rate is None:
        assert exact(replace(work, per_hour=0.0)) >= ratio or exact(replace(work, per_hour=5e3)) < ratio
        return
    assert exact(replace(work, per_hour=rate)) == pytest.approx(ratio, rel=1e-6)


@given(WORKS, st.floats(0.1, 10))
def test_daly_interval_is_nearly_optimal(work: Work, factor: float) -> None:
    best = daly_interval(work)
    if best is None:
        assert work.write == 0 or work.gang_rate == 0
        return
    assume(1e-9 < work.gang_rate * work.write < 0.1)
    other = replace(work, checkpoint=best * factor)
    assert exact(other) >= exact(replace(work, checkpoint=best)) * (1 - 1e-4)


PRIORS = """
    cloud | region    | type          | low   | rate  | high
    aws   | us-east-1 | g5.48xlarge   | 0.06  | 0.26  | 0.74
    aws   | us-east-1 | p4d.24xlarge  | 0.025 | 0.068 | 0.147
    gcp   |           | a3-highgpu-8g | 0.005 | 0.05  | 0.1
    oci   |           | BM.GPU.H100.8 | 0.001 | 0.1   | 0.4
"""


@pytest.mark.parametrize("case", table(PRIORS), ids=lambda case: case["type"])
def test_prior_rate_has_the_advisor_band(case: dict[str, str]) -> None:
    rate = prior_rate(Place(case["type"], case["cloud"], case.get("region")))
    assert shown(rate.low, rate.per_hour, rate.high) == " ".join(
        case[name] for name in ("low", "rate", "high")
    )
    # in other regions it is the most frequent band of the family
    assert prior_rate(Place("g4dn.metal", "aws", "nowhere-1")).low in {0.004, 0.06}


def test_own_evidence_changes_the_rate_from_the_first_hour() -> None:
    """40 nodes of one pool for a week without an interruption: 3 expected events in 168 pool-hours would show up in 95 %."""
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
    # half of the chi-squared quantiles at twice as many degrees of freedom
    [(1, 0.95, 2.995732), (9, 0.975, 15.763189), (0.5, 0.05, 0.0019660), (50, 0.05, 38.964626)],
)
def test_gamma_quantiles(shape: float, share: float, value: float) -> None:
    assert gamma_quantile(shape, share) == pytest.approx(value, rel=1e-4)
