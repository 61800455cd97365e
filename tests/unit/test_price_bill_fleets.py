"""A fleet and its bill in every export format, for tests of bills; and the days that changed prices restate."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config, Discount, Prices
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.oracle import calculate, read_book
from tests.oracle.billed import billed_book
from tests.replay import bill_files
from tests.replay.billing import Charge
from tests.replay.cases.words import BOOK, HEADER, MORNING, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total, unpaid
from tests.replay.scrape import scrape

DAY = 24 * 3600


def machines(kind: str, **more: Any) -> dict[str, Any]:
    """Three nodes over two days with three namespaces; one is spot, and two start or end within an hour."""
    shapes = {"p4de.24xlarge": 8, "a2-highgpu-2g": 2, "Standard_NC24ads_A100_v4": 1}
    last = shapes[kind] - 1
    nodes = [node("n1", kind, 0, 48), node("n2", kind, 5.25, 30.75), node("n3", kind, 2, 40.5, "spot")]
    pods = [
        pod("a", "n1", [0], 1, 30, "train"),
        pod("b", "n1", [last], 30, 47.5, "serve"),
        pod("c", "n2", [0], 6, 29.25, "serve"),
        pod("d", "n3", list(range(last + 1)), 3.5, 39.25, "batch"),
    ]
    described = fleet(48, nodes, pods, busy("n1", [0], 1, 30), scrape=900, **more)
    for one in pods:
        one["keep_until"] = one["to"] + 3600
    return described


def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal]:
    """Hourly spot prices; n1 has a savings plan on the first day and a reservation on the second; n2 is on-demand."""
    if node["capacity_type"] == "spot":
        return "spot", Decimal("3.1") + Decimal(hour // 3600 % 7) / 10
    if node["name"] == "n1":
        return ("savings_plan", Decimal("11.7")) if hour < MORNING + DAY else ("reservation", Decimal("9.25"))
    return "on_demand", Decimal("21.96")


Writer = Callable[[list[Charge]], str]
FORMATS: dict[str, tuple[str, str, str | None, Writer]] = {
    "cur2": ("p4de.24xlarge", "cur.csv", "aws", bill_files.aws_cur),
    "cur": ("p4de.24xlarge", "cur.csv", "aws", lambda charges: bill_files.aws_cur(charges, legacy=True)),
    "focus": ("p4de.24xlarge", "focus.csv", None, bill_files.focus),
    "gcp": ("a2-highgpu-2g", "export.jsonl", "gcp", bill_files.gcp_jsonl),
    "azure": ("Standard_NC24ads_A100_v4", "amortized.csv", "azure", bill_files.azure_amortized),
}


# Stores without bills, by fleet: many tests share one.
_LOADED: dict[str, bytes] = {}


class Billed:
    """A fleet in a store, with a price book that differs from every bill."""

    stages: dict[str, list[str]]

    def __init__(self, folder: Path, described: dict[str, Any]) -> None:
        self.folder, self.fleet = folder, described
        (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
        self.config: Config = write_config(described, folder, folder / "prices.csv")
        self.store = Store(self.config.store)
        key = json.dumps(described)
        if key not in _LOADED:
            load(described, scrape(described, lean=True), self.config, hours_per_window=48)
            _LOADED[key] = self.config.store.read_bytes()
        self.config.store.write_bytes(_LOADED[key])

    def copy(self, folder: Path) -> Billed:
        """A copy with its bills, attributed if this one is, for tests that change it."""
        made = Billed(folder, self.fleet)
        made.config.store.write_bytes(self.config.store.read_bytes())
        return made

    def bill(self, text: str, name: str, provider: str | None) -> None:
        path = self.folder / name
        path.write_text(text)
        run = collect_bills(self.store, [LocalTree(path)], provider)
        assert not run.errors, run.errors
        assert all(result.loaded for result in run.results)

    def sharing(self, how: str) -> Config:
        prices = self.config.prices.model_copy(update={"commitment_sharing": how})
        return self.config.model_copy(update={"prices": prices})

    def check(self, charges: list[Charge], *, pooled: bool = True) -> Fraction:
        """Compare the cost of each pod and the unallocated cost with the exact cost; return the cost of all nodes."""
        pipeline.attribute(self.config if pooled else self.sharing("as_billed"), self.store)
        book = billed_book(charges, read_book(self.folder / "prices.csv"), pooled=pooled)
        truth = calculate(self.fleet, book)
        start, end = self.fleet["start"] * 1000, self.fleet["end"] * 1000
        found, exact = (
            {key: round(figures.cost, 6) for key, figures in pods.items()}
            for pods in (by_pod(self.store, start, end), truth.pods)
        )
        assert found == exact
        everything = total(self.store, start, end)
        assert round(everything.unallocated_cost, 6) == round(truth.total.unallocated_cost, 6)
        assert not unpaid(self.store)
        return everything.node_cost

    def sources(self) -> dict[str, Decimal]:
        sql = "SELECT price_source, sum(node_cost) FROM node_hourly WHERE node_cost > 0 GROUP BY ALL"
        return dict(self.store.query(sql)[1])


SPOT = """INSERT INTO spot_prices
VALUES ('aws', 'us-west-2', 'us-west-2b', 'p4de.24xlarge', 'Linux/UNIX', '', $1, NULL, $2, 'USD', 'aws us-west-2')"""
LOAD = """INSERT INTO loads
SELECT max(load_id) + 1, 9, $1, 'aws us-west-2', $2, $2 + 345600000, 1, 0, now()::TIMESTAMP FROM loads"""
DAYS = "SELECT (from_ms - $1) // 86400000, fingerprint FROM attributed_days"
COST = "SELECT sum(node_cost) FROM node_hourly JOIN nodes USING (node_id) WHERE capacity_type = 'spot'"


@pytest.mark.ci
def test_only_days_with_changed_prices_are_attributed_again(tmp_path: Path) -> None:
    described = fleet(96, [node("n", "p4de.24xlarge", 0, 96, "spot")], [], {}, scrape=1800)
    (tmp_path / "prices.csv").write_text(f"{HEADER}\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    store = load(described, scrape(described, lean=True), config)
    first = described["start"] * 1000
    less = Prices(discounts=[Discount(percent=Decimal(30), effective_start=date(2026, 3, 13))])
    before: set[tuple[int, int]] = set()
    # spot prices of two hours, a load without changes, and a discount on the last day
    for kind, prices, spot, changed, cost in (
        ("spot", Prices(), (-5, 10), {0, 1, 2, 3}, 10 * 96),
        ("spot", Prices(), (55, 20), {2, 3}, 10 * 55 + 20 * 41),
        ("prices", Prices(), None, set(), 10 * 55 + 20 * 41),
        ("prices", less, None, {3}, 10 * 55 + 20 * 17 + 14 * 24),
    ):
        with store.write() as con:
            con.execute(LOAD, [kind, first])
            if spot:
                con.execute(SPOT, [first + spot[0] * MS_PER_HOUR, spot[1]])
        pipeline.attribute(config.model_copy(update={"prices": prices}), store)
        with store.read() as con:
            after = {*con.execute(DAYS, [first]).fetchall()}
        assert ({day for day, _ in after - before}, store.query(COST)[1]) == (changed, [(cost,)])
        before = after
