"""The shipped catalog: every row is a fact with a source and a date, and the loader reads all of them."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from gpucost.catalog import TABLES, catalog_digest, load_catalog
from gpucost.resources import pricing_dir

Rows = list[dict[str, str]]


def rows(name: str) -> Rows:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        load_catalog(connection)
        yield connection


def test_prices_are_positive_dated_and_stand_once() -> None:
    keys = set()
    for row in rows("prices.csv"):
        price = Decimal(row["price_per_hour"])
        assert price.is_finite() and 0 < price < 2000, row
        assert date(2024, 1, 1) <= date.fromisoformat(row["price_as_of"]), row
        assert re.fullmatch(r"[A-Z]{3}", row["currency"]), row
        assert row["purchase_option"] in {"on_demand", "spot", "reserved", "savings_plan", "cud", "capacity_block"}, row
        assert bool(row["term_years"]) == (row["purchase_option"] in {"reserved", "savings_plan", "cud"}), row
        names = ("provider", "region", "zone", "instance_type", "purchase_option", "term_years", "payment_option", "currency")
        key = tuple(row[name].lower() for name in names)
        assert key not in keys, row
        keys.add(key)
    assert len(keys) > 3000


def test_every_row_names_a_source_that_is_known() -> None:
    sources = {row["source_id"]: row for row in rows("sources.csv")}
    named = {row["source_id"] for name in ("prices.csv", "instances.csv", "gpus.csv", "mig_profiles.csv") for row in rows(name)}
    assert named == set(sources)
    assert all(row["location"] and row["licence"] and date.fromisoformat(row["as_of"]) for row in sources.values())


def test_gpu_models_have_one_name_everywhere() -> None:
    models = {row["gpu_model"] for row in rows("gpus.csv")}
    assert len(models) == len(rows("gpus.csv"))
    for name in ("instances.csv", "gpu_aliases.csv", "mig_profiles.csv"):
        assert {row["gpu_model"] for row in rows(name)} <= models, name


def test_instances_stand_once_and_hold_gpus() -> None:
    instances = rows("instances.csv")
    assert len({(row["provider"], row["instance_type"].lower()) for row in instances}) == len(instances)
    assert all(0 < Decimal(row["gpu_count"]) <= 16 for row in instances)


def test_mig_profiles_fit_their_gpu() -> None:
    slices = {row["gpu_model"]: int(row["mig_slices"]) for row in rows("gpus.csv")}
    profiles = rows("mig_profiles.csv")
    for row in profiles:
        compute, most = int(row["compute_slices"]), int(row["max_per_gpu"])
        assert compute * most <= slices[row["gpu_model"]], row
        assert int(row["memory_slices"]) * most <= int(row["memory_slices_total"]), row
        assert row["profile"].startswith(f"{compute}g."), row
    assert {row["gpu_model"] for row in profiles} == {model for model, count in slices.items() if count}
    assert len({(row["gpu_model"], row["profile"]) for row in profiles}) == len(profiles)


def test_the_loader_takes_in_every_row(con: duckdb.DuckDBPyConnection) -> None:
    for table, name in TABLES.items():
        [(count,)] = con.table(table).count("*").fetchall()
        expected = {row["alias"] for row in rows(name)} if table == "gpu_aliases" else rows(name)
        assert 0 < count <= len(expected)
        assert table == "gpu_aliases" or count == len(expected)


def test_an_alias_means_one_model(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute("SELECT alias FROM gpu_aliases GROUP BY alias HAVING count(*) > 1").fetchall() == []


@pytest.mark.parametrize(
    ("spelling", "model"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("Tesla T4", "T4"),
        ("nvidia-tesla-t4", "T4"),
        ("Tesla-V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("nvidia-h100-mega-80gb", "H100-80GB-HBM3"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA A10G", "A10G"),
        ("a10g", "A10G"),
        ("NVIDIA-L40S", "L40S"),
        ("nvidia-l4", "L4"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
    ],
)
def test_spellings_that_are_met(con: duckdb.DuckDBPyConnection, spelling: str, model: str) -> None:
    alias = re.sub("^(nvidia|tesla)+", "", re.sub("[^a-z0-9]", "", spelling.lower()))
    assert con.execute("SELECT gpu_model FROM gpu_aliases WHERE alias = ?", [alias]).fetchall() == [(model,)]


@pytest.mark.parametrize(
    ("instance_type", "model", "count"),
    [
        ("p4d.24xlarge", "A100-SXM4-40GB", "8"),
        ("p5.48xlarge", "H100-80GB-HBM3", "8"),
        ("g4dn.12xlarge", "T4", "4"),
        ("g6f.large", "L4", "0.125"),
        ("Standard_NV12ads_A10_v5", "A10", "0.333333"),
        ("Standard_ND96isr_MI300X_v5", "MI300X", "8"),
        ("a2-megagpu-16g", "A100-SXM4-40GB", "16"),
    ],
)
def test_instances_that_are_met(con: duckdb.DuckDBPyConnection, instance_type: str, model: str, count: str) -> None:
    found = con.execute("SELECT gpu_model, gpu_count FROM catalog_instances WHERE instance_type = ?", [instance_type]).fetchall()
    assert found == [(model, Decimal(count))]


@pytest.mark.parametrize("name", TABLES.values())
def test_the_digest_changes_with_any_fact(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "pricing"
    shutil.copytree(pricing_dir(), copy)
    monkeypatch.setattr("gpucost.catalog.pricing_dir", lambda: copy)
    digest_of_the_files = catalog_digest.__wrapped__
    assert digest_of_the_files() == catalog_digest()
    text = (copy / name).read_text(encoding="utf-8")
    (copy / name).write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n", encoding="utf-8")
    assert digest_of_the_files() != catalog_digest()
