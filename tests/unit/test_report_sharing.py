"""Unallocated cost and [[shared_costs]] in the report: who takes part, what stays, and that nothing is lost or made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import price
from gpucost.config.model import Config, Prices, SharedCost
from gpucost.errors import ConfigError, GpucostError, PriceError
from gpucost.periods import Period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import DIMENSIONS, Query
from gpucost.render import markdown, terminal
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView, Row
from tests.bill_table import change_bill_rows
from tests.golden.report_fleet import HOUR, NOW, OCTOBER, Fleet
from tests.unit.billed import bill, hours

ZERO = Decimal(0)


def fleet() -> Fleet:
    """Two teams on two A100 nodes, an A100 in another cluster, a T4 that nobody used, kube-system and monitoring."""
    made = Fleet()
    made.node(1, "a1", "A100", 4, "on_demand", "8")
    made.node(2, "a2", "A100", 4, "on_demand", "8")
    made.node(3, "west-a1", "A100", 2, "on_demand", "4", cluster="west")
    made.node(4, "t4", "T4", 1, "spot", "0.7")
    made.pod(1, 1, "train", "train-1", "Job/train")
    made.pod(2, 2, "serve", "serve-1", "Deployment/serve")
    made.pod(3, 2, "kube-system", "dcgm", "DaemonSet/dcgm")
    made.pod(4, 3, "serve", "serve-2", "Deployment/serve", cluster="west")
    made.pod(5, 1, "monitoring", "prom", "StatefulSet/prom")
    for index in range(24):
        at = OCTOBER + index * HOUR
        made.cell(at, 1, [(1, "research", 2, 1.0, 0.5), (5, "ops", 1, 1.0, 0.5)])
        made.cell(at, 2, [(2, "product", 1, 1.0, 0.5), (3, "ops", 1, 0.0, 0.0)] if index < 12 else [])
        made.cell(at, 3, [(4, "product", 1, 1.0, 0.5)])
        made.cell(at, 4, [])
    made.rows["collected"] += [(cluster, OCTOBER, OCTOBER + 24 * HOUR) for cluster in ("prod", "west")]
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path_factory.mktemp("sharing") / "store.duckdb"
    fleet().write(path)
    with duckdb.connect(str(path)) as writing:
        bill(
            writing,
            *hours(0, 1, 2, key="i-1", kind="storage", hours=None, cost="0.1"),
            *hours(0, key="i-web", kind="storage", hours=None, cost="99"),
            *hours(0, key="i-1", kind="network", hours=None, cost="0.05"),
            {"hour": -12, "length": 24, "key": None, "kind": "support", "hours": None, "cost": "10"},
            {"hour": 12, "length": 48, "key": None, "kind": "commitment_unused", "hours": None, "cost": "4"},
            {"hour": 3, "length": 0, "key": None, "kind": "reserved_unused", "hours": None, "cost": "1"},
            {"hour": 40, "key": None, "kind": "reserved_unused", "hours": None, "cost": "7"},
        )
        bill(
            writing,
            {"key": None, "kind": "support", "hours": None, "cost": "5", "currency": "EUR"},
            provider="nimbus",
        )
        writing.execute("INSERT INTO billed_nodes VALUES ('i-1', 1, false)")
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection


def rule(of: str, name: str | None = None, **other: Any) -> SharedCost:
    return SharedCost.model_validate({"name": name or of, "of": of} | other)


def ask(
    con: duckdb.DuckDBPyConnection,
    *by: str,
    rules: tuple[SharedCost, ...] = (),
    share: Any = None,
    fx: dict[str, Decimal] | None = None,
    span: tuple[int, int] = (0, 24),
    with_sections: bool = False,
    **filters: tuple[str, ...],
) -> ReportView:
    period = Period(*(datetime.fromtimestamp((OCTOBER + hour * HOUR) / 1000, UTC) for hour in span))
    query = Query(
        period=period,
        period_name="a day",
        by=by,
        now=NOW,
        share_unallocated=share,
        with_sections=with_sections,
        **filters,
    )  # type: ignore[arg-type]
    config = Config(shared_costs=list(rules), prices=Prices(fx={"EUR": Decimal("1.1")} if fx is None else fx))
    price.load_fx_rates(con, config)
    return build(con, config, query)


def plain_of(row: dict[str, Any]) -> dict[str, Any]:
    """What is there without sharing."""
    return {key: value for key, value in row.items() if "shared" not in key and "remaining" not in key}


def shares(view: ReportView, key: str = "team") -> dict[str | None, Decimal | None]:
    return {
        row.keys[key]: row.shared.unallocated_cost
        for row in view.rows
        if row.shared and row.kind == "allocated"
    }


def charges(view: ReportView, name: str) -> dict[str | None, Decimal]:
    """What a rule came to, by the first dimension, without zeros."""
    found = {next(iter(row.keys.values())): row.shared.costs[name] for row in view.rows if row.shared}
    return {key: cost for key, cost in found.items() if cost}


def test_nothing_is_shared_unless_asked_for(con: duckdb.DuckDBPyConnection) -> None:
    view = ask(con)
    assert view.totals_shared is None
    assert not any(
        "shared" in key or "remaining" in key
        for row in [*to_dict(view)["rows"], to_dict(view)["totals"]]
        for key in row
    )


def test_unallocated_cost_goes_to_who_used_such_gpus_in_that_cluster_by_cost(
    con: duckdb.DuckDBPyConnection,
) -> None:
    # prod A100: 48 of node 1 + 72 of 4 GPUs x 12 h and 2 x 12 h free on node 2; research 96, ops 48 + 24, product 24
    free = 24 * 2 + 12 * 8 + 12 * 4
    assert shares(ask(con, share="proportional")) == {
        "research": free * Decimal(96) / 192,
        "ops": free * Decimal(72) / 192,
        "product": free * Decimal(24) / 192 + 48,  # alone in the other cluster
    }


def test_evenly_per_team(con: duckdb.DuckDBPyConnection) -> None:
    assert shares(ask(con, share="even")) == {
        "research": Decimal(64),
        "ops": Decimal(64),
        "product": Decimal(64 + 48),
    }


def test_a_pool_that_nobody_used_stays_unallocated(con: duckdb.DuckDBPyConnection) -> None:
    view = ask(con, "gpu_model", share="even")
    free = {row.keys["gpu_model"]: row for row in view.rows if row.kind == "unallocated"}
    assert free["T4"].shared is not None and free["T4"].shared.remaining_unallocated_cost == Decimal("16.8")
    assert free["A100"].shared is not None and free["A100"].shared.remaining_unallocated_cost == 0
    assert free["A100"].shared.unallocated_cost == 0
    totals = to_dict(view)["totals"]
    assert totals["remaining_unallocated_cost"] == Decimal("16.8")
    assert (
        totals["shared_unallocated_cost"] + totals["remaining_unallocated_cost"] == totals["unallocated_cost"]
    )


RULES = (
    rule("storage"),
    rule("network", split="even"),
    rule("support", split="owner", owner="research"),
    rule("commitment_waste", split="owner", owner="finops"),
    rule("namespaces", namespaces=["kube-*", "monitoring"]),
)


SHOWN = ("gpu_model",)


@pytest.mark.parametrize(
    ("dimension", "share"),
    [
        *((dimension, "proportional") for dimension in SHOWN),
        ("hour", "even"),
        *(
            pytest.param(one, "proportional", marks=pytest.mark.slow)
            for one in DIMENSIONS
            if one not in SHOWN
        ),
        pytest.param("pod", "even", marks=pytest.mark.slow),
    ],
)
def test_any_dimension_adds_up_to_the_same(
    con: duckdb.DuckDBPyConnection, dimension: str, share: str
) -> None:
    plain, view = ask(con, dimension), ask(con, dimension, rules=RULES, share=share)
    by_team = ask(con, "team", dimension, rules=RULES, share=share)
    totals = to_dict(view)["totals"]
    assert plain_of(totals) == to_dict(plain)["totals"]
    assert [row.measures for row in view.rows if row.kind != "shared"] == [row.measures for row in plain.rows]
    assert (
        totals["shared_unallocated_cost"] + totals["remaining_unallocated_cost"] == totals["unallocated_cost"]
    )
    for rows in (view.rows, by_team.rows):
        told = [row.shared for row in rows if row.shared]
        assert sum(part.unallocated_cost or ZERO for part in told) == totals["shared_unallocated_cost"]
        assert sum(part.shared_cost for part in told) == totals["shared_cost"]
        for name in totals["shared_costs"]:
            assert sum(part.costs[name] for part in told) == totals["shared_costs"][name]
    teams = ask(con, rules=RULES, share=share)
    for row in teams.rows:
        parts = [
            part for part in by_team.rows if part.kind == row.kind and part.keys["team"] == row.keys["team"]
        ]
        assert row.shared is not None
        assert (
            sum(part.shared.unallocated_cost or ZERO for part in parts if part.shared)
            == row.shared.unallocated_cost
        )
        assert sum(part.shared.shared_cost for part in parts if part.shared) == row.shared.shared_cost


def test_what_is_billed_of_gpu_machines_in_the_period(con: duckdb.DuckDBPyConnection) -> None:
    totals = to_dict(ask(con, rules=RULES))["totals"]["shared_costs"]
    # of support 12 of 24 hours and 5 EUR; of the commitment 12 of 48 hours, and what is charged for an instant
    assert totals == {
        "storage": Decimal("0.3"),
        "network": Decimal("0.05"),
        "support": 5 + Decimal("5.5"),
        "commitment_waste": 1 + Decimal(1),
        "namespaces": ZERO,
    }


def test_volumes_and_traffic_are_a_machines_by_its_resource_or_the_name_of_its_disk(tmp_path: Path) -> None:
    fleet().write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s")) as con:
        of_vm = {"hours": None, "kind": "network", "key": None}
        bill(
            con,
            {"key": "p/z/vm"},
            of_vm | {"cost": "1"},
            of_vm | {"cost": "2", "kind": "storage"},
            of_vm | {"cost": "4"},
            provider="gcp",
        )
        con.execute("INSERT INTO billed_nodes VALUES ('p/z/vm', 1, false)")
        change_bill_rows(
            con,
            "UPDATE bill_rows SET zone = 'z', sub_account_id = 'p', resource_name = 'vm', resource_id = '//x/VM/1'",
        )
        change_bill_rows(con, "UPDATE bill_rows SET resource_id = '//x/disks/2' WHERE source_row = 2")
        change_bill_rows(
            con, "UPDATE bill_rows SET resource_id = '//x/vm/1', resource_name = 'other' WHERE source_row = 1"
        )
        change_bill_rows(
            con, "UPDATE bill_rows SET resource_id = '//x/vm/3', zone = 'y' WHERE source_row = 3"
        )
        totals = to_dict(ask(con, rules=(rule("storage"), rule("network"))))["totals"]
    assert totals["shared_costs"] == {"storage": 2, "network": 1}


def test_periods_that_adjoin_add_up_to_the_charge(con: duckdb.DuckDBPyConnection) -> None:
    asked = (rule("support"), rule("commitment_waste"))
    spans = [(0, 7), (7, 24)]
    parts = [to_dict(ask(con, rules=asked, span=span))["totals"]["shared_cost"] for span in spans]
    assert sum(parts) == to_dict(ask(con, rules=asked))["totals"]["shared_cost"]


def test_one_provider(con: duckdb.DuckDBPyConnection) -> None:
    asked = (rule("support", "of aws", provider="aws"), rule("support", "of nimbus", provider="nimbus"))
    assert to_dict(ask(con, rules=asked))["totals"]["shared_costs"] == {
        "of aws": 5,
        "of nimbus": Decimal("5.5"),
    }


def test_a_bill_without_a_rate_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(
        PriceError, match="shared cost support is billed in EUR: there is no rate from EUR to USD"
    ) as error:
        ask(con, rules=(rule("support"),), fx={})
    assert "set [prices] fx = { EUR" in str(error.value.fix)
    assert ask(con, rules=(rule("storage"),), fx={}).totals_shared


def test_the_cost_of_namespaces_moves_to_others(con: duckdb.DuckDBPyConnection) -> None:
    view = ask(con, "namespace", rules=RULES)
    # kube-system 24, monitoring 48; train 96, serve 24 + 48
    assert charges(view, "namespaces") == {
        "kube-system": Decimal(-24),
        "monitoring": Decimal(-48),
        "train": 72 * Decimal(96) / 168 // Decimal("1e-9") * Decimal("1e-9") + Decimal("1e-9"),
        "serve": 72 * Decimal(72) / 168 // Decimal("1e-9") * Decimal("1e-9"),
    }
    assert set(charges(view, "storage")) == {"train", "serve"}


def test_namespaces_without_anybody_else_keep_their_cost(con: duckdb.DuckDBPyConnection) -> None:
    everything = (rule("namespaces", namespaces=["*"]), rule("storage"))
    view = ask(con, rules=everything)
    assert charges(view, "namespaces") == {}
    assert charges(view, "storage") == {None: Decimal("0.3")}
    assert view.rows[-1].kind == "shared"


def test_of_two_rules_the_first_takes_a_namespace(con: duckdb.DuckDBPyConnection) -> None:
    rules = (
        rule("namespaces", "kube", namespaces=["kube-*"]),
        rule("namespaces", "all", namespaces=["*-system", "monitoring"]),
    )
    view = ask(con, "namespace", rules=rules)
    assert (charges(view, "kube")["kube-system"], charges(view, "all")["monitoring"]) == (-24, -48)
    assert "kube-system" not in charges(view, "all")


def test_an_owner_without_gpus_has_a_row_of_its_own(con: duckdb.DuckDBPyConnection) -> None:
    view = ask(con, rules=RULES)
    row = view.rows[-1]
    assert (row.kind, row.keys, row.measures.cost) == ("shared", {"team": "finops"}, 0)
    assert charges(view, "commitment_waste") == {"finops": 2}
    alone = ask(con, rules=RULES, teams=("finops",), with_sections=True)
    assert [(part.kind, part.keys) for part in alone.rows] == [("shared", {"namespace": None})]
    assert to_dict(alone)["totals"]["shared_cost"] == 2
    for text in (terminal.render(alone, 80, color=False), markdown.render(alone)):
        assert "$2.00" in text
    with pytest.raises(GpucostError, match="no team 'finops'"):
        ask(con, teams=("finops",))


def test_a_narrowed_report_shows_the_part_of_the_whole(con: duckdb.DuckDBPyConnection) -> None:
    def of(view: ReportView, **keys: str) -> list[Row]:
        return [row for row in view.rows if row.kind == "allocated" and keys.items() <= row.keys.items()]

    whole = ask(con, "team", "namespace", "cluster", rules=RULES, share="proportional")
    team = ask(con, "team", "namespace", "cluster", rules=RULES, share="proportional", teams=("product",))
    assert list(team.rows) == of(whole, team="product")
    assert "remaining_unallocated_cost" in to_dict(team)["totals"]
    assert to_dict(team)["totals"]["remaining_unallocated_cost"] is None
    cluster = ask(con, "team", "namespace", "cluster", rules=RULES, share="proportional", clusters=("west",))
    assert [row for row in cluster.rows if row.kind == "allocated"] == of(whole, cluster="west")
    assert not [row for row in cluster.rows if row.kind == "shared"]


def test_a_rule_that_comes_to_nothing_is_said(con: duckdb.DuckDBPyConnection) -> None:
    rules = (
        rule("storage", "of gcp", provider="gcp"),
        rule("namespaces", "none", namespaces=["no-such-*"]),
        rule("storage"),
    )
    view = ask(con, rules=rules)
    assert [
        notice.message.split(":")[0]
        for notice in view.coverage.warnings
        if notice.code == "shared_cost_empty"
    ] == ["shared cost of gcp came to nothing", "shared cost none came to nothing"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"of": "storage", "split": "owner"}, 'split = "owner" needs owner'),
        ({"of": "storage", "owner": "x"}, 'owner needs split = "owner"'),
        ({"of": "namespaces"}, 'of = "namespaces" needs namespaces'),
        ({"of": "storage", "namespaces": ["x"]}, 'namespaces needs of = "namespaces"'),
        ({"of": "namespaces", "namespaces": ["x"], "provider": "aws"}, "provider is about bills"),
        ({"of": "gpus"}, "shared_costs"),
    ],
)
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    from gpucost.config.load import load_config

    lines = [f"{key} = {json.dumps(value)}" for key, value in ({"name": "n"} | wrong).items()]
    (tmp_path / "gpucost.toml").write_text("\n".join(["[[shared_costs]]", *lines]))
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "gpucost.toml", environ={})
    assert message in str(error.value.message)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two are called storage"):
        Config(shared_costs=[rule("storage"), rule("storage")])


def test_a_discount_on_a_commitments_fee_is_off_what_nothing_used_of_it_too(tmp_path: Path) -> None:
    fleet().write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s")) as con:
        unused = {"hour": 1, "key": None, "kind": "commitment_unused", "hours": None, "cost": "4"}
        bill(con, unused, unused | {"cost": "8"}, unused | {"cost": "1"})
        change_bill_rows(
            con,
            "UPDATE bill_rows SET commitment_discount_id = if(source_row = 2, 'other', 'plan'), is_net = source_row = 1",
        )
        con.execute(
            "INSERT INTO discount_rates (rate_id, provider, billing_period, currency, commitment, discounted_cost, "
            "discount_cost, rows, first_rows) VALUES (1, 'aws', '2026-10', 'USD', 'plan', 40, -10, 1, ['f.csv:9'])"
        )
    with duckdb.connect(str(tmp_path / "s"), read_only=True) as con:
        # a quarter off the first; the second is after discounts, the third another commitment's
        assert charges(ask(con, rules=RULES), "commitment_waste") == {"finops": 3 + 8 + 1}
