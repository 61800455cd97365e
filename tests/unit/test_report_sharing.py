"""Unallocated cost and [[shared_costs]] in the report: receivers, remainders, and equal sums before and after."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

from gpucost import price
from gpucost.config.model import Config, Prices, SharedCost
from gpucost.errors import GpucostError, PriceError
from gpucost.periods import Period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import DIMENSIONS, Query
from gpucost.render import terminal
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView, Row
from tests.bill_table import change_bill_rows
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, Fleet
from tests.text_tables import table, text_rows, words
from tests.unit.billed import bill
from tests.unit.whatif_costs import figures, shown

ZERO = Decimal(0)


NODES = """
1 | a1      | A100 | 4 | on_demand | 8   | prod
2 | a2      | A100 | 4 | on_demand | 8   | prod
3 | west-a1 | A100 | 2 | on_demand | 4   | west
4 | t4      | T4   | 1 | spot      | 0.7 | prod"""
PODS = """
1 | 1 | train       | train-1 | Job/train        | prod
2 | 2 | serve       | serve-1 | Deployment/serve | prod
3 | 2 | kube-system | dcgm    | DaemonSet/dcgm   | prod
4 | 3 | serve       | serve-2 | Deployment/serve | west
5 | 1 | monitoring  | prom    | StatefulSet/prom | prod"""


def fleet() -> Fleet:
    """Two teams on two A100 nodes, an A100 node in another cluster, an unused T4, kube-system and monitoring."""
    made = Fleet()
    for number, name, model, gpus, capacity, cost, cluster in text_rows(NODES):
        made.node(int(number), name, model, int(gpus), capacity, cost, cluster=cluster)
    for number, node, namespace, name, workload, cluster in text_rows(PODS):
        made.pod(int(number), int(node), namespace, name, workload, cluster=cluster)
    for index in range(24):
        at = OCTOBER + index * HOUR
        made.cell(at, 1, [(1, "research", 2, 1.0, 0.5), (5, "ops", 1, 1.0, 0.5)])
        made.cell(at, 2, [(2, "product", 1, 1.0, 0.5), (3, "ops", 1, 0.0, 0.0)] if index < 12 else [])
        made.cell(at, 3, [(4, "product", 1, 1.0, 0.5)])
        made.cell(at, 4, [])
    made.rows["collected"] += [(cluster, OCTOBER, OCTOBER + 24 * HOUR) for cluster in ("prod", "west")]
    return made


# defaults of charges without a machine and hours
OF_NONE: dict[str, Any] = {"key": None, "hours": None}
CHARGES = """
    hour | length | key   | kind              | cost
    0    | 1      | i-1   | storage           | 0.1
    1    | 1      | i-1   | storage           | 0.1
    2    | 1      | i-1   | storage           | 0.1
    0    | 1      | i-web | storage           | 99
    0    | 1      | i-1   | network           | 0.05
    -12  | 24     |       | support           | 10
    12   | 48     |       | commitment_unused | 4
    3    | 0      |       | reserved_unused   | 1
    40   | 1      |       | reserved_unused   | 7
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("sharing") / "store.duckdb"
    fleet().write(path)
    with duckdb.connect(str(path)) as writing:
        bill(writing, *(OF_NONE | row for row in table(CHARGES)))
        bill(writing, OF_NONE | words("kind=support cost=5 currency=EUR"), provider="nimbus")
        writing.execute("INSERT INTO billed_nodes VALUES ('i-1', 1, false)")
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection


def rules_of(text: str) -> list[SharedCost]:
    """Rules from `of` and other keys, separated by semicolons; namespaces are separated by commas."""
    found = []
    for rule in filter(None, text.split("; ")):
        of, _, others = rule.partition(" ")
        keys: dict[str, Any] = {"name": of, "of": of, **words(others)}
        if "namespaces" in keys:
            keys["namespaces"] = keys["namespaces"].split(",")
        found.append(SharedCost.model_validate(keys))
    return found


def ask(
    con: Connection,
    *by: str,
    rules: str = "",
    share: Any = None,
    fx: str = "1.1",
    span: tuple[int, int] = (0, 24),
    **options: Any,
) -> ReportView:
    period = Period(*(datetime.fromtimestamp(OCTOBER / 1000 + hour * 3600, UTC) for hour in span))
    query = Query(
        **{"period": period, "period_name": "a day", "by": by, "now": NOW, "with_sections": False} | options,
        share_unallocated=share,
    )
    rates = {"EUR": Decimal(fx)} if fx else {}
    config = Config(shared_costs=rules_of(rules), prices=Prices(fx=rates))
    price.load_fx_rates(con, config)
    return build(con, config, query)


def charges(view: ReportView, name: str) -> dict[str | None, Decimal]:
    """The nonzero costs of a rule by the first dimension."""
    found = {next(iter(row.keys.values())): row.shared.costs[name] for row in view.rows if row.shared}
    return {key: cost for key, cost in found.items() if cost}


# Unallocated A100 in prod: $48 on node 1 and 72 GPU-hours (4 GPUs x 12 h, 2 x 12 h) on node 2, $192 in total. Costs: research 96,
# ops 48 + 24, product 24. In the other cluster, product is alone, and $48 are unallocated.
SHARES = "proportional | product 72, research 96, ops 72\neven | product 112, research 64, ops 64"


@pytest.mark.parametrize(("share", "expected"), text_rows(SHARES))
def test_unallocated_cost_is_shared_by_users_of_the_same_gpus_and_cluster(
    con: Connection, share: str, expected: str
) -> None:
    rows = [row for row in ask(con, share=share).rows if row.kind == "allocated"]
    charged = [shown(row.keys["team"], row.shared and row.shared.unallocated_cost) for row in rows]
    assert sorted(charged) == sorted(expected.split(", "))


def test_unused_pool_stays_unallocated(con: Connection) -> None:
    view = ask(con, "gpu_model", share="even")
    free = {row.keys["gpu_model"]: row.shared for row in view.rows if row.kind == "unallocated"}
    assert figures(free["T4"], "remaining_unallocated_cost") == "16.8"
    assert figures(free["A100"], "remaining_unallocated_cost unallocated_cost") == "0 0"
    assert to_dict(view)["totals"]["remaining_unallocated_cost"] == Decimal("16.8")


RULES = (
    "storage; network split=even; support split=owner owner=research; "
    "commitment_waste split=owner owner=finops; namespaces namespaces=kube-*,monitoring"
)


def sums(rows: list[Row]) -> dict[str, Decimal]:
    """The sums of shared costs over rows."""
    shared = [row.shared for row in rows if row.shared]
    found = {name: sum((part.costs[name] for part in shared), ZERO) for name in shared[0].costs}
    unallocated = sum((part.unallocated_cost or ZERO for part in shared), ZERO)
    return found | {"shared": sum((part.shared_cost for part in shared), ZERO), "unallocated": unallocated}


@pytest.mark.parametrize(
    ("dimension", "share"),
    [
        ("hour", "even"),
        *(
            pytest.param(one, "proportional", marks=[pytest.mark.slow] * (one != "gpu_model"))
            for one in DIMENSIONS
        ),
    ],
)
def test_shared_costs_add_up_the_same_in_any_dimension(con: Connection, dimension: str, share: str) -> None:
    plain, view = ask(con, dimension), ask(con, dimension, rules=RULES, share=share)
    assert plain.totals_shared is None and "shared" not in str(to_dict(plain)["totals"])
    totals = to_dict(view)["totals"]
    assert totals.items() >= to_dict(plain)["totals"].items()
    assert [row.measures for row in view.rows if row.kind != "shared"] == [row.measures for row in plain.rows]
    shared, left, whole = (totals[f"{name}unallocated_cost"] for name in ("shared_", "remaining_", ""))
    assert shared + left == whole
    by_team = ask(con, "team", dimension, rules=RULES, share=share).rows
    expected = totals["shared_costs"] | {"shared": totals["shared_cost"], "unallocated": shared}
    assert sums([*view.rows]) == sums([*by_team]) == expected
    for row in ask(con, rules=RULES, share=share).rows:
        parts = [part for part in by_team if (part.kind, part.keys["team"]) == (row.kind, row.keys["team"])]
        assert sums(parts) == sums([row])


BY_PROVIDER = "support name='of aws' provider=aws; support name='of nimbus' provider=nimbus"
# The period has 12 of 24 hours of support and 5 EUR, 12 of 48 hours of the commitment, and the charge for an instant. The cost
# of kube-system (24) and monitoring (48) moves to train (96) and serve (24 + 48); the first matching rule gets a namespace.
CHARGED = """
team       support           research=10.5
team       commitment_waste  finops=2
namespace  storage           serve=0.128571428 train=0.171428572
namespace  network           serve=0.025 train=0.025
namespace  namespaces        kube-system=-24 monitoring=-48 serve=30.857142857 train=41.142857143"""


@pytest.mark.parametrize("line", CHARGED.strip().splitlines())
def test_rules_charge_teams_and_namespaces(con: Connection, line: str) -> None:
    by, name, *expected = line.split()
    found = charges(ask(con, by, rules=RULES), name)
    assert found == {key: Decimal(cost) for key, cost in (word.split("=") for word in expected)}


def test_namespaces_without_others_keep_their_cost(con: Connection) -> None:
    view = ask(con, rules="namespaces namespaces=*; storage")
    assert (charges(view, "namespaces"), charges(view, "storage")) == ({}, {None: Decimal("0.3")})


def test_totals_of_rules_in_the_period(con: Connection) -> None:
    totals = to_dict(ask(con, rules=f"{RULES}; {BY_PROVIDER}"))["totals"]["shared_costs"]
    assert ", ".join(f"{name} {shown(cost)}" for name, cost in totals.items()) == (
        "storage 0.3, network 0.05, support 10.5, commitment_waste 2, namespaces 0, of aws 5, of nimbus 5.5"
    )


def test_first_matching_rule_takes_a_namespace(con: Connection) -> None:
    rules = "namespaces name=kube namespaces=kube-*; namespaces name=all namespaces=*-system,monitoring"
    view = ask(con, "namespace", rules=rules)
    assert charges(view, "kube")["kube-system"] == -24
    assert {"kube-system", "monitoring"} & {*charges(view, "all")} == {"monitoring"}


EDITS = """
UPDATE bill_rows SET zone = 'z', sub_account_id = 'p', resource_name = 'vm', resource_id = '//x/VM/1';
UPDATE bill_rows SET resource_id = '//x/disks/2' WHERE source_row = 2;
UPDATE bill_rows SET resource_id = '//x/vm/1', resource_name = 'other' WHERE source_row = 1;
UPDATE bill_rows SET resource_id = '//x/vm/3', zone = 'y' WHERE source_row = 3"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Connection]:
    """A writable store of the fleet."""
    fleet().write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s")) as connection:
        yield connection


VOLUMES = "kind | cost\nnetwork | 1\nstorage | 2\nnetwork | 4"


def test_volumes_and_traffic_belong_to_a_machine_by_resource_or_disk_name(own: Connection) -> None:
    bill(own, {"key": "p/z/vm"}, *(OF_NONE | row for row in table(VOLUMES)), provider="gcp")
    own.execute("INSERT INTO billed_nodes VALUES ('p/z/vm', 1, false)")
    for edit in EDITS.split(";"):
        change_bill_rows(own, edit)
    totals = to_dict(ask(own, rules="storage; network"))["totals"]
    assert totals["shared_costs"] == {"storage": 2, "network": 1}


def test_adjacent_periods_add_up_to_the_charge(con: Connection) -> None:
    rules = "support; commitment_waste"
    parts = [to_dict(ask(con, rules=rules, span=span))["totals"]["shared_cost"] for span in ((0, 7), (7, 24))]
    assert sum(parts) == to_dict(ask(con, rules=rules))["totals"]["shared_cost"]


def test_bill_without_an_exchange_rate_is_refused(con: Connection) -> None:
    message = "shared cost support is billed in EUR: there is no rate from EUR to USD"
    with pytest.raises(PriceError, match=message) as error:
        ask(con, rules="support", fx="")
    assert "set [prices] fx = { EUR" in str(error.value.fix)
    assert ask(con, rules="storage", fx="").totals_shared


def test_owner_without_gpus_has_its_own_row(con: Connection) -> None:
    row = ask(con, rules=RULES).rows[-1]
    assert (row.kind, row.keys, row.measures.cost) == ("shared", {"team": "finops"}, 0)
    alone = ask(con, rules=RULES, teams=("finops",), with_sections=True)
    assert [(part.kind, part.keys) for part in alone.rows] == [("shared", {"namespace": None})]
    assert to_dict(alone)["totals"]["shared_cost"] == 2
    assert "$2.00" in terminal.render(alone, 80, color=False)
    with pytest.raises(GpucostError, match="no team 'finops'"):
        ask(con, teams=("finops",))


@pytest.mark.parametrize(("name", "value"), text_rows("team | product\ncluster | west"))
def test_filtered_report_has_the_shares_of_the_full_report(con: Connection, name: str, value: str) -> None:
    report = partial(ask, con, "team", "namespace", "cluster", rules=RULES, share="proportional")
    whole, view = report(), report(**{f"{name}s": (value,)})
    rows = [row for row in whole.rows if row.keys[name] == value and row.kind == "allocated"]
    assert [row for row in view.rows if row.kind != "unallocated"] == rows
    assert (to_dict(view)["totals"]["remaining_unallocated_cost"] is None) is (name == "team")


def test_rule_with_zero_cost_gives_a_warning(con: Connection) -> None:
    rules = "storage name='of gcp' provider=gcp; namespaces name=none namespaces=no-such-*; storage"
    warnings = ask(con, rules=rules).coverage.warnings
    found = [one.message.partition(":")[0] for one in warnings if one.code == "shared_cost_empty"]
    assert found == ["shared cost of gcp is zero", "shared cost none is zero"]


def test_discount_on_a_commitment_fee_reduces_its_unused_cost(own: Connection) -> None:
    unused = OF_NONE | words("hour=1 kind=commitment_unused")
    bill(own, *(unused | {"cost": cost} for cost in "481"))
    change_bill_rows(
        own,
        "UPDATE bill_rows SET commitment_discount_id = if(source_row = 2, 'other', 'plan'), is_net = source_row = 1",
    )
    own.execute(
        "INSERT INTO discount_rates (rate_id, provider, billing_period, currency, commitment, discounted_cost, "
        "discount_cost, rows, first_rows) VALUES (1, 'aws', '2026-10', 'USD', 'plan', 40, -10, 1, ['f.csv:9'])"
    )
    # the first is discounted by a quarter, the second is already net, the third is of another commitment
    assert charges(ask(own, rules=RULES), "commitment_waste") == {"finops": 3 + 8 + 1}
