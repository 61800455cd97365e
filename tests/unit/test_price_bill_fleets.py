"""A fleet and its bill, in every export format: what a namespace costs is exactly what the bill says, not what the book would."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.oracle import calculate, read_book
from tests.oracle.billed import billed_book
from tests.replay import bill_files
from tests.replay.billing import Charge, charges
from tests.replay.cases.words import BOOK, HEADER, MORNING, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.result import by_pod, total, unpaid
from tests.replay.scrape import scrape

pytestmark = pytest.mark.slow

DAY = 24 * 3600


def machines(kind: str, **more: Any) -> dict[str, Any]:
    """Three nodes over two days, one of them spot, two that come or go within an hour, and three namespaces on them."""
    shapes = {"p4de.24xlarge": 8, "a2-highgpu-2g": 2, "Standard_NC24ads_A100_v4": 1}
    last = shapes[kind] - 1
    nodes = [node("n1", kind, 0, 48), node("n2", kind, 5.25, 30.75), node("n3", kind, 2, 40.5, "spot")]
    pods = [
        pod("a", "n1", [0], 1, 30, "train"),
        pod("b", "n1", [last], 30, 47.5, "serve"),
        pod("c", "n2", [0], 6, 29.25, "serve"),
        pod("d", "n3", list(range(last + 1)), 3.5, 39.25, "batch"),
    ]
    told = fleet(48, nodes, pods, busy("n1", [0], 1, 30), scrape=900, **more)
    for one in pods:
        one["keep_until"] = one["to"] + 3600
    return told


def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal]:
    """Spot by the hour; n1 under a savings plan on the first day and a reservation on the second; n2 on demand."""
    if node["capacity_type"] == "spot":
        return "spot", Decimal("3.1") + Decimal(hour // 3600 % 7) / 10
    if node["name"] == "n1":
        return ("savings_plan", Decimal("11.7")) if hour < MORNING + DAY else ("reservation", Decimal("9.25"))
    return "on_demand", Decimal("21.96")


Writer = Callable[[list[Charge]], str]
FORMATS: dict[str, tuple[str, str, str | None, Writer]] = {
    "cur2": ("p4de.24xlarge", "cur.csv", "aws", bill_files.aws_cur),
    "cur": ("p4de.24xlarge", "cur.csv", "aws", lambda told: bill_files.aws_cur(told, legacy=True)),
    "focus": ("p4de.24xlarge", "focus.csv", None, bill_files.focus),
    "gcp": ("a2-highgpu-2g", "export.jsonl", "gcp", bill_files.gcp_jsonl),
    "azure": ("Standard_NC24ads_A100_v4", "amortized.csv", "azure", bill_files.azure_amortized),
}


# Stores before any bill, by their fleets: many tests have the same one.
_LOADED: dict[str, bytes] = {}


class Billed:
    """A fleet in a store, with a price book that no bill would agree with."""

    stages: dict[str, list[str]]

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.folder, self.fleet = folder, told
        (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
        self.config: Config = write_config(told, folder, folder / "prices.csv")
        self.store = Store(self.config.store)
        key = json.dumps(told)
        if key not in _LOADED:
            load(told, scrape(told, lean=True), self.config, hours_per_window=48)
            _LOADED[key] = self.config.store.read_bytes()
        self.config.store.write_bytes(_LOADED[key])

    def copy(self, folder: Path) -> Billed:
        """The same with its bills, attributed if this is, to be changed."""
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

    def check(self, told: list[Charge], *, pooled: bool = True) -> Fraction:
        """Holds the cost of every pod and of what nobody held against the exact one; returns the cost of all nodes."""
        pipeline.attribute(self.config if pooled else self.sharing("as_billed"), self.store)
        book = billed_book(told, read_book(self.folder / "prices.csv"), pooled=pooled)
        truth = calculate(self.fleet, book)
        start, end = self.fleet["start"] * 1000, self.fleet["end"] * 1000
        said, exact = (
            {key: round(figures.cost, 6) for key, figures in pods.items()}
            for pods in (by_pod(self.store, start, end), truth.pods)
        )
        assert said == exact
        everything = total(self.store, start, end)
        assert round(everything.unallocated_cost, 6) == round(truth.total.unallocated_cost, 6)
        assert not unpaid(self.store)
        return everything.node_cost

    def sources(self) -> dict[str, Decimal]:
        sql = "SELECT price_source, sum(node_cost) FROM node_hourly WHERE node_cost > 0 GROUP BY ALL"
        return dict(self.store.query(sql)[1])


def test_hours_without_a_bill_are_estimates_until_it_arrives_and_only_their_days_are_restated(
    tmp_path: Path,
) -> None:
    fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    told = list(charges(fleet.fleet, rate))
    first = [charge for charge in told if charge.start < MORNING + DAY]
    dearer = [replace(c, cost=c.cost * 2) if c.start == MORNING + 30 * 3600 else c for c in told]
    before: dict[int, int] = {}
    # no bill, one of the first day, the same month a day later, and one in which an hour changed
    for bill, changed, sources in (
        ([], [0, 1], {"price_book"}),
        (first, [0], {"bill", "price_book"}),
        (told, [1], {"bill"}),
        (dearer, [1], {"bill"}),
    ):
        if bill:
            fleet.bill(bill_files.aws_cur(bill), "cur.csv", "aws")
        fleet.check(bill)
        rows = fleet.store.query("SELECT from_ms, fingerprint FROM attributed_days ORDER BY from_ms")[1]
        days = {(start // 1000 - MORNING) // DAY: digest for start, digest in rows}
        assert [day for day in days if days[day] != before.get(day)] == changed
        assert set(fleet.sources()) == sources
        before = days
