"""`gpucost whatif buy` (own nodes) and `whatif reserve` (commitments): the cheapest level, its risk, its payback."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucost.config.model import Config, Prices
from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.findings.kinds import Freed
from gpucost.questions.whatif.commitments import StoredCommitments, stored_demand
from gpucost.store.connection import Store
from gpucost.whatif import buy, reserve
from gpucost.whatif.answer import Answer, Assumption, Position, old_prices
from gpucost.whatif.buy import cloud_usage
from gpucost.whatif.covered import Existing, OtherUse
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.fleet import Price, Usage
from gpucost.whatif.reserve import Demand, ReservedUse, Terms
from tests import own_catalog
from tests.text_tables import table, text_rows
from tests.unit.command import run
from tests.unit.whatif_costs import ask, figures, fleet, listed, shown

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
START, HOUR = PERIOD.start_ms, MS_PER_HOUR
NONE = Existing(is_bill_loaded=False)
TERMS = {
    name: Terms(kind, int(years), payment, offering)
    for name, kind, years, payment, offering in text_rows("""
        reserved        | reserved     | 1 | no_upfront      |
        convertible     | reserved     | 1 | no_upfront      | convertible
        three_years     | reserved     | 3 | no_upfront      |
        all_upfront     | reserved     | 1 | all_upfront     |
        partial_upfront | reserved     | 1 | partial_upfront |
        plan            | savings_plan | 1 | no_upfront      | compute
        ec2_plan        | savings_plan | 1 | no_upfront      | ec2_instance""")
}


# a year has 8,760 h: 87,600 over 2 years are 5 an hour, plus 1 an hour of running cost
def own_node(price: int) -> Any:
    """A node with a running cost of 1 an hour."""
    inputs = SimpleNamespace(
        gpus_per_node=8, years=2, purchase_price=Decimal(87600), network_per_node=None, not_given=()
    )
    parts = [SimpleNamespace(name="power", price_per_hour=Decimal(1))]
    return SimpleNamespace(inputs=inputs, parts=parts, price_per_hour=Decimal(price))


MONTH, MONTH_OF_DATA = Curve((1.0,), (730.0,)), Evidence(28)


def use(
    levels: str, offers: str = "", on_demand: str = "10", kind: str = "p5.48xlarge", hours: int = 28 * 24
) -> ReservedUse:
    """Usage by levels, repeated hour by hour: `3x7 1`; offers as `reserved 6, plan 7?` (`?` marks an old price)."""
    several: list[float] = []
    for level, _, count in (part.partition("x") for part in levels.split()):
        several += [float(level)] * int(count or 1)
    known = {}
    for name, price in (offer.split() for offer in offers.split(",") if offer):
        amount, is_stale, _ = price.partition("?")
        known[TERMS[name]] = Price(Decimal(amount), "catalog", is_stale=bool(is_stale))
    curve = Curve(tuple(several[hour % len(several)] for hour in range(hours)), (1.0,) * hours)
    return ReservedUse(kind, 8, Price(Decimal(on_demand), "option"), curve, known, "aws", "us-east-1")


def committed(*uses: ReservedUse, existing: Existing = NONE, evidence: Evidence | None = None) -> Answer:
    hours = len(uses[0].curve.levels)
    costs = [Decimal(str(one.curve.node_hours)) * one.on_demand.per_node_hour for one in uses]
    today = Position(sum(costs, Decimal(0)), "USD")
    demand = Demand(uses, existing, evidence or Evidence(hours / 24, hours), today)
    return reserve.answer(demand, period="a test")


def bought(curve: Curve, cloud: str = "10", own: int = 6, days: Evidence = MONTH_OF_DATA) -> Answer:
    price, use = Price(Decimal(cloud), "option"), Assumption("usage", "", "", "test")
    facts = {"currency": "USD", "period": "a test", "source": "test"}
    return buy.answer(own_node(own), price, curve, days, **facts, use=use)


def rows(answer: Answer) -> list[dict[str, Any]]:
    (table,) = answer.tables
    return [dict(zip(table.columns, line, strict=True)) for line in table.lines]


def test_usage_above_the_break_even_is_committed_or_bought() -> None:
    # nodes 1, 2 and 3 are in use in 10, 9 and 7 of 10 hours; a node at 6 needs 80 %
    there = use("3x7 2x2 1", "reserved 6")
    commitment, own = committed(there), bought(there.curve)
    (best,) = commitment.figures["best"]
    assert best["instances"] == own.figures["own_nodes"] == 2
    for answer, row in ((commitment, best), (own, own.figures)):
        # the third node is paid by the hour: 67 times in 7 of 10 hours, and in 2 more hours
        assert figures(answer, "scenario") == shown(2 * 672 * 6 + 10 * 471)
        assert row["break_even_utilization_percent"] == 60
    used = sum(min(level, 2) for level in there.curve.levels)
    assert best["utilization_percent"] == pytest.approx(100 * used / (2 * 672))


# a node is committed if used 80 % of the hours and five points above its share of the on-demand price (10 is excluded);
# no level is above the last week's, and no commitment is advised on less than four weeks
ADVICE = """
    usage                     | levels       | hours | offers                           | instances | obligation
    at 7.4 in 80 % of hours   | 0x4 1x16     |   700 | reserved 7.4                     |         1 |      64824
    at 7.4 in 75 %            | 0x5 1x15     |   700 | reserved 7.4                     |         0 |          0
    at 5 in 80 %              | 0x4 1x16     |   700 | reserved 5                       |         1 |      43800
    at 5 in 75 %              | 0x5 1x15     |   700 | reserved 5                       |         0 |          0
    at 8 in 85 %              | 0x3 1x17     |   700 | reserved 8                       |         1 |      70080
    at 8 in 80 %              | 0x4 1x16     |   700 | reserved 8                       |         0 |          0
    at 9.6 in 100 %           | 1            |   700 | reserved 9.6                     |         0 |          0
    parts of nodes            | 2.5x9 1.5    |   700 | reserved 6                       |         2 |     105120
    two in the last week      | 4x1008 2x168 |  1176 | reserved 6                       |         2 |     105120
    four in the last week     | 2x168 4x1008 |  1176 | reserved 6                       |         4 |     210240
    36 hours                  | 2            |    36 | reserved 6, three_years 4        |         0 |          0
    an hour less than 4 weeks | 2            |   671 | reserved 6                       |         0 |          0
    4 weeks                   | 2            |   672 | reserved 6, three_years 4        |         2 |     105120
    paid upfront              | 2            |   672 | all_upfront 2                    |         0 |          0
    an old price              | 1            |   672 | reserved 5?, convertible 6       |         1 |      52560
"""


@pytest.mark.parametrize("case", table(ADVICE), ids=lambda case: case["usage"])
def test_advised_commitments(case: dict[str, str]) -> None:
    answer = committed(use(case["levels"], case["offers"], hours=int(case["hours"])))
    instances = sum(row["instances"] for row in answer.figures["best"])
    assert shown(instances, answer.figures["obligation"]) == f"{case['instances']} {case['obligation']}"
    assert answer.title == "Committing instead of paying on demand"


def test_prices_over_90_days_old_are_named() -> None:
    days = ("2026-07-02", "2026-07-03")
    prices = [(day, Price(Decimal(1), "catalog", day)) for day in days]
    assert old_prices(prices, date(2026, 10, 1), 90) == (
        " (prices over 90 days old: 2026-07-02 of 2026-07-02)"
    )


def test_36_hours_of_data_commit_to_nothing() -> None:
    """36 hours of two p5 in the sample: two were advised for three years, without their obligation."""
    offers = "reserved 40, three_years 23.777"
    short, answer = (committed(use("2", offers, "55.04", hours=hours)) for hours in (36, 672))
    assert (short.saving, short.figures["obligation"], short.figures["best"]) == (0, 0, [])
    assert short.break_even == ("1.5 days of data: advice that binds for years needs at least 28 days",)
    assert answer.saving == 672 * 2 * (Decimal("55.04") - 40)
    # three years save more and are listed below, but never in the headline
    assert listed(rows(answer), "commitment instances obligation") == (
        f"reserved, 1 year, no upfront 2 {2 * 40 * 8760}; reserved, 3 years, no upfront 2 1249719.12"
    )


def test_last_week_is_the_last_week_with_data() -> None:
    there = use("4x1008 2x168", "reserved 6", hours=1176)
    # a gap after the data is not a fall in usage
    assert listed(committed(there, evidence=Evidence(42, 6 * 168)).figures["best"], "instances") == "4"
    own, short = bought(there.curve, days=Evidence(49, 7 * 168)), bought(MONTH, days=Evidence(27.9))
    assert [figures(one, "own_nodes obligation") for one in (own, short)] == ["2 175200", "0 0"]
    assert short.saving == 0
    assert short.findings[0].startswith("27.9 days of data")


def test_saving_if_usage_or_prices_change() -> None:
    # two nodes at 10 are committed at 6; at 80 % of the usage 1.6 of them are in use
    answer = committed(use("2", "reserved 6"))
    ranges = [(one.figure, float(one.low), float(one.high)) for one in answer.ranges]  # type: ignore[arg-type]
    assert ranges == [
        ("saving", 672 * (1.6 * 10 - 12), 672 * 2 * 4),
        ("saving", 672 * 2 * (8 - 6), 672 * 2 * (9 - 6)),
    ]
    # nodes in use for 90 % of the hours at 7.5 of 10 lose money at 8
    there = use("1x9 0", "reserved 7.5")
    used = sum(there.curve.levels)
    assert shown(committed(there).ranges[1].low) == shown(used * 8 - 672 * 7.5)
    assert not committed(use("1 0", "reserved 6")).ranges


def test_curve_may_have_partial_hours() -> None:
    half_hours = counted([(START + HOUR // 2, START + 2 * HOUR, 2.0)], START, START + 5 * HOUR // 2)
    assert half_hours == Curve((1.0, 2.0, 0.0), (1.0, 1.0, 0.5))


# EC2 instance plans cover a type, others all families. Machines without GPUs cost 12 an hour on demand and 8 under plans: they
# fill the rest of a plan next to GPUs, up to the mean usage of GPUs. The expected advice, in money an hour, and its saving:
PLANS = """
    usage                | kind        | levels | price | offers                   | best           | saving
    plans of two types   | g5.12xlarge | 1      | 10    | reserved 7, ec2_plan 6   | g5.12xlarge 6  | 5376
    plans of two types   | g5.24xlarge | 1      | 20    | ec2_plan 16              | g5.24xlarge 16 |
    two families in turn | g5.12xlarge | 1 0    | 10    | reserved 6, plan 6       | all families 6 | 2208
    two families in turn | g6.12xlarge | 0 1    | 10    | reserved 6, plan 7       |                |
    two families always  | g5.12xlarge | 1      | 10    | reserved 6, plan 6       | g5.12xlarge 6  | 5376
    two families always  | g6.12xlarge | 1      | 10    | reserved 6, plan 7       | g6.12xlarge 6  |
    half of the time     | g5.12xlarge | 1 0    | 10    | plan 6                   |                | 0
    and other machines   | g5.12xlarge | 1 0    | 10    | plan 6                   | all families 3 | 1176
    and other machines   | cpu         | 8      | 1.5   |                          |                |
    not by a type's      | g5.12xlarge | 1 0    | 10    | ec2_plan 6, reserved 6   |                | 0
    not by a type's      | cpu         | 8      | 1.5   |                          |                |
    605 of 672 hours     | g5.12xlarge | 1x9 0  | 10    | plan 6                   | all families 6 | 2018
    others in 67 hours   | g5.12xlarge | 1x9 0  | 10    | plan 6                   | all families 6 | 2621
    others in 67 hours   | cpu         | 8      | 1.5   |                          |                |
"""


@pytest.mark.parametrize("usage", dict.fromkeys(row["usage"] for row in table(PLANS)))
def test_plans_cover_usage_without_reservations(usage: str) -> None:
    cases = [row for row in table(PLANS) if row["usage"] == usage]
    uses = [use(row["levels"], row.get("offers", ""), row["price"], row["kind"]) for row in cases]
    others = {one.provider: OtherUse(one.on_demand, one.curve) for one in uses if one.instance_type == "cpu"}
    answer = committed(
        *(one for one in uses if one.instance_type != "cpu"), existing=Existing(True, others=others)
    )
    best = sorted(listed([row], "family committed_per_hour") for row in answer.figures["best"])
    assert [one.removeprefix("aws ").removeprefix("us-east-1 ") for one in best] == [
        row["best"] for row in cases if "best" in row
    ]
    assert shown(answer.saving) == cases[0]["saving"]


def test_obligation_of_a_plan_covers_all_its_hours() -> None:
    one, other = (
        use(levels, "plan 6", kind=f"{family}.12xlarge") for levels, family in (("1 0", "g5"), ("0 1", "g6"))
    )
    (best,) = committed(one, other).figures["best"]
    assert figures(best, "instances obligation utilization_percent") == "None 52560 100"
    with pytest.raises(GpucostError, match="prices of commitments are missing"):
        committed(use("1"))


def test_commitments_from_options() -> None:
    answer = ask(
        "reserve",
        "--nodes 8 --on-demand-price 32 --commitment-discount 1=37.5 --commitment-discount savings_plan:3=60",
    )
    assert figures(answer, "today saving obligation") == shown(186880, 8 * 730 * 12, 8 * 20 * 8760)
    names = [row["commitment"] for row in answer["tables"]["commitments"]]
    assert names == ["reserved, 1 year, no upfront", "savings plan, 3 years, no upfront"]
    part = ask("reserve", "--nodes 2 --hours 365 --on-demand-price 10 --commitment-discount 1=40")
    assert figures(part, "today saving") == "7300 0"
    text = " ".join(
        run("whatif reserve --nodes 2 --on-demand-price 20 --commitment-discount 1=50").stdout.split()
    )
    assert "Obligation $175,200.00 owed, used or not" in text


def test_list_prices_of_an_instance() -> None:
    answer = ask("reserve", "--nodes 2 --instance-type a2-highgpu-8g --region us-central1")
    assert {row["commitment"].split(",")[0] for row in answer["tables"]["commitments"]} == {"cud"}
    assert answer["today"]["gpu_hours"] == 2 * 8 * 730
    assert all(a["as_of"] for a in answer["assumptions"] if a["name"].startswith("a2-highgpu-8g"))
    place = "--nodes 1 --instance-type a2-highgpu-8g --region us-central1 --gpus-per-node 4"
    own = ask("buy", f"{OPTIONS} {place}")
    (cloud,) = (one["value"] for one in own["assumptions"] if one["name"] == "cloud")
    assert cloud * 2 * 2 * 730 == pytest.approx(answer["today"]["cost"])


# A node of 24 hours, half of it held by a pod for 12: a finding about it, and the node-hours left for commitments.
FREED = """
    spot         |                                             | 24
    on_demand    |                                             | 6
    spot unknown |                                             | 6
                 | default/StatefulSet/x default/Job/train-7   | 18
                 | other/Job/train-7 default/Job/train-70      | 24
"""


@pytest.mark.parametrize(("empty", "workloads", "hours"), text_rows(FREED))
def test_hours_of_findings_are_subtracted_first(empty: str, workloads: str, hours: str) -> None:
    there = fleet(
        "name | hours | prices | capacity_type\na | 0-24 | 10 | on_demand",
        "node | gpus | hours | workload\na | 4 | 0-12 | Job/train-7",
        START,
    )
    known: Any = SimpleNamespace(read=(NONE, MONTH_OF_DATA, {}), period=PERIOD)
    named = [name.partition("/") for name in workloads.split()]
    owners = frozenset(("default", namespace, workload) for namespace, _, workload in named)
    demand = stored_demand(known, Usage(there, "USD", "a test", ""), Freed(owners, frozenset(empty.split())))
    assert shown(demand.uses[0].curve.node_hours, demand.today.cost) == f"{hours} 240"


# The remaining percentage of the on-demand and the reserved price; a savings plan is discounted like on-demand nodes.
DISCOUNTS = """
    [{"gpu_model": "Tesla T4"}]                       | 70 70
    [{"instance_family": "G4dn", "provider": "AWS"}]  | 70 70
    [{"purchase_option": "on_demand"}]                | 70 100
    [{"purchase_option": "savings_plan"}]             | 70 100
    [{"purchase_option": "reserved"}]                 | 100 70
    [{"gpu_model": "T4G"}, {"instance_family": "g4"}] | 100 100
    [{"price_sources": ["price_book"]}]               | 100 100
    [{"effective_end": "2026-10-01"}]                 | 100 100
"""


def test_list_prices_get_the_discounts_of_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = (("on_demand", "", ""), ("reserved", "1", "no_upfront"))
    place = ("aws", "us-east-1", "", "g4dn.xlarge")
    monkeypatch.setattr(
        own_catalog, "PRICES", [(*place, *term, "0.5", "USD", "2024-11-01") for term in terms]
    )
    own_catalog.use(own_catalog.write(tmp_path / "pricing"), monkeypatch)
    store = Store(tmp_path / "s.duckdb")
    with store.write() as con:
        con.execute(
            "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'n' AS node, 0 AS up_from_ms, 1 AS up_to_ms,"
            " 'on_demand' AS capacity_type, 1 AS gpu_count, 'G4dn.xlarge' AS instance_type"
        )

    def prices(discounts: str) -> dict[str, Decimal]:
        rules = [{"percent": 30} | rule for rule in json.loads(discounts)]
        config = Config(store=store.path, prices=Prices.model_validate({"discounts": rules}))
        offers = StoredCommitments(config, store, PERIOD).read[2]["aws", "us-east-1", "g4dn.xlarge"]
        assert all(price.is_stale for price in offers.values())
        return {terms.kind: price.per_node_hour for terms, price in offers.items()}

    before = prices("[]")
    for discounts, left in text_rows(DISCOUNTS):
        after = prices(discounts)
        assert shown(*(100 * after[name] / before[name] for name in ("on_demand", "reserved"))) == left


def test_break_even_month_is_when_cumulative_cash_is_equal() -> None:
    # a node with a saving of 80,000 only at the end of its life has no break-even within it
    answer, kept = bought(MONTH), bought(MONTH, "5", 2)
    # a month in the cloud costs 7,300, running the node 730: 87,600 / 6,570 = 13.3
    assert figures(answer, "break_even_month monthly_cash_saving") == "14 6570"
    # never paid back: at 5 an hour a month costs 3,650, and 87,600 / 2,920 = 30 months, after its life
    assert figures(bought(MONTH, cloud="5"), "own_nodes saving break_even_month") == "0 0 None"
    assert kept.figures["break_even_month"] is None and kept.saving > 0


def test_stored_usage_is_converted_to_own_nodes() -> None:
    there = fleet(
        """
        name | gpus | hours | prices | capacity_type | gpu_model
        a    | 4    | 0-24  | 10     | spot          | A100
        b    | 8    | 0-12  | 10     | on_demand     | A100
        c    | 8    | 0-24  | 10     | on_demand     | T4""",
        "node | gpus | hours\na | 4 | 0-24\nb | 4 | 0-12",
        START,
    )
    # 360 for 192 GPU-hours; for a team that holds half of b, 300 for 144
    for is_narrowed, right in ((False, "24 1.5 15"), (True, "18 1 16.66666667")):
        usage = Usage(there, "USD", "a test", "", is_narrowed=is_narrowed)
        curve, cloud = cloud_usage(usage, PERIOD, "A100", 8)
        assert shown(curve.node_hours, curve.peak, cloud.per_node_hour) == right
    with pytest.raises(GpucostError, match="no H100 with a price was used"):
        cloud_usage(usage, PERIOD, "H100", 8)


OPTIONS = "-q --purchase-price 280000 --gpu-watts 700 --years 4 --price-per-kwh 0.12"


def test_own_nodes_from_options() -> None:
    answer = ask("buy", f"{OPTIONS} --nodes 4 --on-demand-price 55")
    # 280,000 over 35,040 h, and 5.6 kW at 0.12
    assert figures(answer, "today own_nodes obligation") == "160600 4 1120000"
    prices = {one["name"]: one["value"] for one in answer["assumptions"]}
    assert prices["own node, as it runs"] == pytest.approx(0.672)
    assert prices["own node, whole cost"] == pytest.approx(280000 / 35040 + 0.672)
    assert answer["break_even_month"] == 8 > 280000 / (730 * (55 - 0.672)) > 7
    (missing,) = (one for one in answer["assumptions"] if one["name"] == "own node, missing parts")
    assert "staff_per_year" in missing["unit"]


def test_price_book_has_priority_over_list_prices(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('[prices]\nbook = "prices.csv"\n')
    (tmp_path / "prices.csv").write_text("instance_type,price_per_hour,currency\np5.48xlarge,40,USD\n")
    place = "--instance-type p5.48xlarge --region us-east-1"
    commitment = ask("reserve", f"--nodes 2 {place} --commitment-discount 1=50")
    assert figures(commitment, "today saving") == shown(2 * 730 * 40, 2 * 730 * 20)
    tokens = "--prompt-tokens-per-day 1 --generation-tokens-per-day 1 --peak-factor 1 --replica-tokens-per-second 1"
    prices = "--gpus-per-replica 1 --input-price-per-million 1 --output-price-per-million 1"
    for answer, name, price in (
        (commitment, "p5.48xlarge: on demand", 40),
        (ask("tokens", f"{tokens} {prices} {place}"), "p5.48xlarge", 40),
        # half a node
        (ask("buy", f"{OPTIONS} --nodes 1 --gpus-per-node 4 {place}"), "cloud", 20),
    ):
        (found,) = (one for one in answer["assumptions"] if one["name"] == name)
        assert (found["value"], found["source"]) == (price, "price book line 2")


def test_prices_without_a_commitment_are_not_assumptions() -> None:
    answer = committed(use("1", "reserved 6"), use("1", kind="g5.48xlarge"))
    names = [one.name for one in answer.assumptions if one.unit.startswith("money")]
    assert names == ["p5.48xlarge: on demand", "p5.48xlarge: reserved, 1 year, no upfront"]
    assert any(text.startswith("g5.48xlarge: stays on demand") for text in answer.findings)
