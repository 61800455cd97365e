"""The shipped catalog: sourced and dated rows in one notation, all of them read by the loaders.

Every known spelling of a GPU model maps to one name.
"""

from __future__ import annotations

import csv
import re
import shutil
import tomllib
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from gpucost.catalog import COMPONENTS, TABLES, catalog_digest, load_catalog, load_components
from gpucost.collect.prices.base import is_region_of
from gpucost.resources import pricing_dir
from tests.text_tables import text_rows

Rows = list[dict[str, str]]
Key = tuple[str, ...]

ALL_TABLES = {**TABLES, **COMPONENTS}

# file, the columns that identify a row, and whether the rows are sorted by them
KEYS = """
prices.csv | provider region zone instance_type purchase_option term_years payment_option currency price_as_of | sorted
instances.csv | provider instance_type | sorted
components.csv | provider region family component gpu_model purchase_option term_years price_as_of | sorted
interruption.csv | provider region instance_type os as_of | sorted
interruptions.csv | provider family band_low_percent | sorted
not_sold_on_demand.csv | provider instance_type | sorted
tokens.csv | provider model price_as_of | sorted
gpus.csv | gpu_model |
gpu_aliases.csv | alias |
mig_profiles.csv | gpu_model profile |
resources.csv | resource instance_type |
claim_series.csv | metric |
activity_metrics.csv | metric |
xids.csv | xid |
sources.csv | source_id | sorted
"""
(OPTIONS,) = text_rows("on_demand|spot|reserved|savings_plan|cud|capacity_block|flex_start|calendar")
PURCHASE_OPTIONS = frozenset(OPTIONS)
NEWEST = date(2026, 11, 30)  # day of the latest update of the catalog


def rows(name: str) -> Rows:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def key(row: dict[str, str], columns: str) -> Key:
    return tuple(row[column] for column in columns.split())


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        load_catalog(connection)
        load_components(connection)
        yield connection


@pytest.mark.parametrize(("name", "columns", "order"), text_rows(KEYS))
def test_files_are_plain_sorted_and_without_duplicates(name: str, columns: str, order: str) -> None:
    raw = (pricing_dir() / name).read_bytes()
    assert raw.endswith(b"\n") and b"\r" not in raw and not raw.startswith(b"\xef\xbb\xbf")
    assert raw.decode("utf-8")
    found = rows(name)
    keys = [key(row, columns) for row in found]
    assert len({tuple(map(str.lower, one)) for one in keys}) == len(keys) > 0
    values = {value for row in found for value in row.values()}
    assert None not in values and all(value == value.strip() for value in values)
    assert not order or keys == sorted(keys)


@pytest.mark.parametrize("name", ["prices.csv", "components.csv"])
def test_prices_are_positive_and_dated(name: str) -> None:
    for row in rows(name):
        # written plainly: no exponent and no trailing zeros
        assert re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]{0,11}[1-9])?", row["price_per_hour"]), row
        assert 0 < Decimal(row["price_per_hour"]) < 2000, row
        assert date(2024, 1, 1) <= date.fromisoformat(row["price_as_of"]) <= NEWEST, row
        assert re.fullmatch(r"[A-Z]{3}", row["currency"]), row
        assert row["purchase_option"] in PURCHASE_OPTIONS, row
        assert bool(row["term_years"]) == (row["purchase_option"] in {"reserved", "savings_plan", "cud"}), row
    assert len(rows("prices.csv")) > 6400


def test_every_row_names_a_known_source() -> None:
    sources = rows("sources.csv")
    files = {name for name, *_ in text_rows(KEYS)} - {"sources.csv", "gpu_aliases.csv"}
    assert {row["source_id"] for name in files for row in rows(name)} == {row["source_id"] for row in sources}
    for row in sources:
        assert row["title"] and row["location"] and row["licence"], row
        assert date.fromisoformat(row["as_of"]) <= NEWEST, row


PRICES = """
us-east-1 | p5.48xlarge | on_demand | | 55.04
us-east-1 | p4d.24xlarge | on_demand | | 21.957642
us-central1 | a2-highgpu-1g | on_demand | | 3.673385
us-central1 | a2-highgpu-1g | cud | 1 | 2.314207
us-central1 | a2-highgpu-1g | cud | 3 | 1.285708
us-central1 | a4-highgpu-8g | flex_start | | 64.44
us-central1 | a4-highgpu-8g | calendar | | 90.22
us-east-1 | p5.48xlarge | reserved | 3 | 23.777
us-east-1 | p6e-gb200.36xlarge | capacity_block | | 42.328
us-central1 | ct5lp-hightpu-4t | on_demand | | 4.8
 | BM.GPU.H100.8 | on_demand | | 80
eastus | Standard_NC24ads_A100_v4 | on_demand | | 3.673
 | gpu_8x_h100_sxm5 | on_demand | | 31.92
 | gpu-h100-sxm_8gpu-128vcpu-1600gb | spot | | 17.2
"""


def test_known_prices_are_in_the_catalog() -> None:
    found = {
        key(row, "region instance_type purchase_option term_years"): row["price_per_hour"]
        for row in rows("prices.csv")
    }
    for *place, price in text_rows(PRICES):
        assert found[tuple(place)] == price, place


def test_superseded_prices_and_azure_placeholders_are_gone() -> None:
    # prices of a type and purchase option either all name a region or none does; spot prices in a region,
    # zones
    whole: dict[Key, set[bool]] = {}
    prices = rows("prices.csv")
    for row in prices:
        whole.setdefault(key(row, "provider instance_type purchase_option"), set()).add(not row["region"])
        if row["purchase_option"] == "spot":
            whole.setdefault(key(row, "provider region instance_type"), set()).add(not row["zone"])
    assert not [place for place, found in whole.items() if len(found) > 1]
    of_azure: dict[str, dict[Key, Decimal]] = {way: {} for way in PURCHASE_OPTIONS}
    for row in prices:
        if row["provider"] == "azure":
            place = key(row, "region instance_type")
            of_azure[row["purchase_option"]][place] = Decimal(row["price_per_hour"])
    assert len(of_azure["spot"]) > 100
    assert all(price < of_azure["on_demand"][place] for place, price in of_azure["spot"].items())


def test_regions_have_the_spelling_of_their_cloud() -> None:
    regions = {key(row, "provider region") for row in rows("prices.csv")}
    assert not [
        place for place in regions if place[0] in ("aws", "gcp", "azure") and not is_region_of(*place)
    ]


# plausible range of dollars per GPU-hour: from the cheapest spot price to on demand in the most expensive
# region, with the largest host around one GPU
PLAUSIBLE = """
| 0.1 | 6
H100 | 1 | 24
H200 | 0.8 | 22
B200 | 1.5 | 20
B300 | 4 | 22
GB200 | 8 | 60
GB300 | 8 | 60
GH200 | 2 | 7
MI2 | 0.2 | 3
MI300X | 1 | 13
MI325X | 2 | 5
MI35 | 4 | 9
A100 | 0.3 | 9
V100 | 0.3 | 7
P100 | 0.6 | 2
A10 | 0.25 | 9.1
L40 | 0.4 | 11
L4 | 0.05 | 6
T4 | 0.05 | 7.5
TPU-v | 0.2 | 5
Trainium | 0.5 | 3
Inferentia | 0.1 | 3.5
RTX-PRO-6000 | 0.9 | 12.1
"""


def test_gpu_hour_prices_are_plausible_and_confirmed_before_they_are_stale() -> None:
    holds = {key(row, "provider instance_type"): row for row in rows("instances.csv")}
    plausible = {model: (float(low), float(high)) for model, low, high in text_rows(PLAUSIBLE)}
    dates: dict[Key, list[date]] = {}
    for row in rows("prices.csv"):
        place = key(
            row, "provider region zone instance_type purchase_option term_years payment_option currency"
        )
        dates.setdefault(place, []).append(date.fromisoformat(row["price_as_of"]))
        instance = holds[key(row, "provider instance_type")]
        model = max((name for name in plausible if instance["gpu_model"].startswith(name)), key=len)
        low, high = plausible[model]
        if row["currency"] == "USD":
            assert low <= float(row["price_per_hour"]) / float(instance["gpu_count"]) <= high, row
    steps = [step for found in dates.values() for step in pairwise(found)]
    assert len(steps) > 20
    # the list of capacity blocks was not confirmed more often
    assert {(one, other) for one, other in steps if (other - one).days > 90} == {
        (date(2026, 3, 1), date(2026, 7, 22))
    }


def test_priced_instances_are_known_and_sold_as_stated() -> None:
    sold: dict[Key, set[str]] = {}
    for row in rows("prices.csv"):
        sold.setdefault(key(row, "provider instance_type"), set()).add(row["purchase_option"])
    known = {key(row, "provider instance_type") for row in rows("instances.csv")}
    assert known ^ set(sold) == {
        *text_rows("aws | trn2u.48xlarge\ngcp | a3-edgegpu-8g\ngcp | a4x-highgpu-4g")
    }
    for row in rows("not_sold_on_demand.csv"):
        ways = set(row["sold_as"].split())
        assert ways <= PURCHASE_OPTIONS - {"on_demand"} and row["fact"], row
        assert date.fromisoformat(row["as_of"]) <= NEWEST, row
        # the catalog has no spot price for the two
        assert ways - sold.get(key(row, "provider instance_type"), set()) <= {"spot"}, row


def test_interruptions_have_the_bands_of_the_advisor_and_rates_of_families() -> None:
    bands: dict[str, set[str]] = {}
    for row in rows("interruptions.csv"):
        rate, low, high = (float(row[name]) for name in ("interruptions_per_node_hour", "low", "high"))
        assert 0 < low < rate < high <= 1, row
        assert row["derivation"].split(":")[0] in {"derived", "measured", "published"}, row
        bands.setdefault(row["provider"], set()).add(row["band_low_percent"])
    assert bands["aws"] == {"0", "5", "10", "15", "20"}
    assert bands[""], "a wide range for all others"
    for row in rows("interruption.csv"):
        assert key(row, "period os as_of") == ("month", "linux", "2025-06-28")
        assert -100 < int(row["savings_percent"]) < 100, row
    steps = {key(row, "band_low_percent band_high_percent") for row in rows("interruption.csv")}
    assert steps == {*text_rows("0 | 5\n5 | 10\n10 | 15\n15 | 20\n20 | 100")}


def test_models_have_one_name_everywhere_and_instances_hold_gpus() -> None:
    memory = {row["gpu_model"]: Decimal(row["memory_mib"] or 0) for row in rows("gpus.csv")}
    for name in ("instances.csv", "gpu_aliases.csv", "mig_profiles.csv"):
        assert {row["gpu_model"] for row in rows(name)} <= set(memory), name
    for row in rows("instances.csv"):
        count = Decimal(row["gpu_count"])
        assert 0 < count <= 16, row
        assert all(
            Decimal(row[name]) > 0 for name in ("gpu_memory_mib", "vcpus", "memory_gib") if row[name]
        ), row
        assert int(row["local_ssd_gib"] or 0) >= 0, row
        # the driver reserves some of the memory
        most = memory[row["gpu_model"]] * min(count, Decimal(1)) * Decimal("1.01")
        assert Decimal(row["gpu_memory_mib"] or 0) <= most, row


def test_gpu_facts_are_plausible_and_mig_profiles_fit() -> None:
    ranges = "memory_mib 2048 400000|tdp_watts 30 2000|fp16_dense_tflops 0.01 5000|memory_gb_per_s 100 10000"
    slices = {}
    for row in rows("gpus.csv"):
        for name, low, high in map(str.split, ranges.split("|")):
            assert row[name] == "" or Decimal(low) <= Decimal(row[name]) <= Decimal(high), row
        slices[row["gpu_model"]] = int(row["mig_slices"])
    assert set(slices.values()) == {0, 4, 7}
    # the power of these is not published
    without = "Inferentia Inferentia2 Trainium Trainium2 TPU-v2 TPU-v3 TPU-v4 TPU-v5e TPU-v5p TPU-v6e"
    assert {row["gpu_model"] for row in rows("gpus.csv") if not row["tdp_watts"]} == set(without.split())
    profiles = rows("mig_profiles.csv")
    for row in profiles:
        compute, most = int(row["compute_slices"]), int(row["max_per_gpu"])
        assert compute * most <= slices[row["gpu_model"]], row
        assert int(row["memory_slices"]) * most <= int(row["memory_slices_total"]), row
        assert row["profile"].startswith(f"{compute}g."), row
    assert {row["gpu_model"] for row in profiles} == {model for model, count in slices.items() if count}


INSTANCES = """
p4d.24xlarge | A100-SXM4-40GB | 8.000000
p5.48xlarge | H100-80GB-HBM3 | 8.000000
g4dn.12xlarge | T4 | 4.000000
g6f.large | L4 | 0.125000
Standard_NV12ads_A10_v5 | A10 | 0.333333
Standard_ND96isr_MI300X_v5 | MI300X | 8.000000
a2-megagpu-16g | A100-SXM4-40GB | 16.000000
"""


def test_loader_reads_every_row_and_the_day_of_the_p5_price_cut(con: duckdb.DuckDBPyConnection) -> None:
    for table, name in ALL_TABLES.items():
        [(count,)] = con.table(table).count("*").fetchall()
        assert count == len(rows(name)) or (table == "gpu_aliases" and 0 < count < len(rows(name)))
    steps = con.execute(
        "SELECT price_as_of, price_per_hour FROM catalog_prices"
        " WHERE instance_type = 'p5.48xlarge' AND region = 'us-east-1' AND purchase_option = 'on_demand'"
        " QUALIFY price_per_hour IS DISTINCT FROM lag(price_per_hour) OVER (ORDER BY price_as_of) ORDER BY 1"
    ).fetchall()
    assert steps == [(date(2025, 4, 23), Decimal("98.32")), (date(2025, 6, 5), Decimal("55.04"))]
    instances = con.execute(
        "SELECT instance_type, gpu_model, gpu_count::VARCHAR FROM catalog_instances"
    ).fetchall()
    assert set(text_rows(INSTANCES)) - set(instances) == set()


@pytest.mark.parametrize("name", ALL_TABLES.values())
def test_digest_changes_with_any_fact(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "pricing"
    shutil.copytree(pricing_dir(), copy)
    monkeypatch.setattr("gpucost.catalog.pricing_dir", lambda: copy)
    digest_of_the_files = catalog_digest.__wrapped__
    assert digest_of_the_files() == catalog_digest()
    text = (copy / name).read_text(encoding="utf-8")
    (copy / name).write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n", encoding="utf-8")
    assert digest_of_the_files() != catalog_digest()


def test_on_premises_example_names_a_model_and_has_positive_numbers() -> None:
    example = tomllib.loads((pricing_dir() / "onprem.toml").read_text(encoding="utf-8"))
    assert example.pop("gpu_model") in {row["gpu_model"] for row in rows("gpus.csv")}
    assert example.pop("currency") == "USD"
    assert all(isinstance(value, int | float) and value >= 0 for value in example.values())


# a model, and its known names
SPELLINGS = """
T4 | Tesla T4 | NVIDIA T4 | Tesla-T4 | Tesla-T4-SHARED | nvidia-tesla-t4 | t4 | T4
T4G | NVIDIA T4G | t4g
V100-SXM2-16GB | Tesla V100-SXM2-16GB | Tesla-V100-SXM2-16GB | Tesla-V100-SXM2-16GB-SHARED | nvidia-tesla-v100 | v100 | V100
V100-SXM2-32GB | Tesla V100-SXM2-32GB | Tesla V100-SXM3-32GB | Tesla-V100-SXM2-32GB
V100-PCIE-16GB | Tesla V100-PCIE-16GB
P100-PCIE-16GB | Tesla P100-PCIE-16GB | nvidia-tesla-p100
P4 | Tesla P4 | nvidia-tesla-p4
K80 | Tesla K80 | nvidia-tesla-k80 | K80
M60 | Tesla M60 | M60
A10 | NVIDIA A10 | NVIDIA A10-24Q | NVIDIA A10-8Q | nvidia-a10
A10G | NVIDIA A10G | NVIDIA-A10G | NVIDIA-A10G-SHARED | a10g | A10G | nvidia-a10g
A30 | NVIDIA A30 | NVIDIA-A30 | NVIDIA-A30-MIG-1g.6gb
A40 | NVIDIA A40
RTX-A6000 | NVIDIA RTX A6000 | A6000
A100-SXM4-40GB | NVIDIA A100-SXM4-40GB | A100-SXM4-40GB | NVIDIA-A100-SXM4-40GB | NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
A100-SXM4-40GB | NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED | NVIDIA-A100-SXM4-40GB-SHARED | nvidia-tesla-a100 | a100 | A100
A100-PCIE-40GB | NVIDIA A100-PCIE-40GB | A100-PCIE-40GB
A100-SXM4-80GB | NVIDIA A100-SXM4-80GB | NVIDIA-A100-SXM4-80GB | NVIDIA-A100-SXM4-80GB-MIG-1g.10gb | nvidia-a100-80gb
A100-SXM4-80GB | a100-80gb | A100-80GB
A100-80GB-PCIe | NVIDIA A100 80GB PCIe | NVIDIA-A100-80GB-PCIe | NVIDIA-A100-80GB-PCIe-MIG-2g.20gb
L4 | NVIDIA L4 | NVIDIA-L4 | NVIDIA-L4-SHARED | nvidia-l4 | l4 | L4
L40 | NVIDIA L40
L40S | NVIDIA L40S | NVIDIA-L40S | l40s | L40S
H100-80GB-HBM3 | NVIDIA H100 80GB HBM3 | NVIDIA-H100-80GB-HBM3 | NVIDIA-H100-80GB-HBM3-MIG-1g.10gb
H100-80GB-HBM3 | NVIDIA-H100-80GB-HBM3-SHARED | nvidia-h100-80gb | nvidia-h100-mega-80gb | h100-80gb | h100-80gb-mega | h100
H100-80GB-HBM3 | H100
H100-PCIe | NVIDIA H100 PCIe | NVIDIA-H100-PCIe
H100-NVL | NVIDIA H100 NVL | NVIDIA-H100-NVL | NVIDIA-H100-NVL-MIG-1g.12gb
H200 | NVIDIA H200 | NVIDIA-H200 | nvidia-h200-141gb | h200 | H200
H200-NVL | NVIDIA H200 NVL
GH200-96GB | NVIDIA GH200 480GB
B200 | NVIDIA B200 | NVIDIA-B200 | nvidia-b200 | b200 | B200
GB200 | NVIDIA GB200 | nvidia-gb200
B300 | NVIDIA B300 SXM6 AC | b300
GB300 | NVIDIA GB300 | nvidia-gb300
RTX-PRO-6000 | NVIDIA RTX PRO 6000 Blackwell Server Edition | NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition
RTX-PRO-6000 | NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb | nvidia-rtx-pro-6000 | rtx6000
GeForce-RTX-4090 | NVIDIA GeForce RTX 4090 | NVIDIA-GeForce-RTX-4090-SHARED
MI210 | AMD Instinct MI210
MI250X | AMD Instinct MI250X / MI250 | AMD_Instinct_MI250X
MI300X | AMD Instinct MI300X | AMD_Instinct_MI300X_OAM | AMD_Instinct_MI300X_VF | MI300X
MI325X | AMD Instinct MI325X | AMD_Instinct_MI325X_OAM
Radeon-Pro-V520 | AMD Radeon Pro V520 | radeon-pro-v520
Gaudi | Gaudi HL-205
Gaudi2 | Gaudi2 | HL-225
Inferentia2 | Inferentia2
Trainium | Trainium
Trainium2 | Trainium2
"""


def test_known_spellings_and_own_names_of_models_are_aliases(con: duckdb.DuckDBPyConnection) -> None:
    aliases = dict(con.execute("SELECT alias, gpu_model FROM gpu_aliases").fetchall())
    own = con.execute("SELECT gpu_model, gpu_model FROM gpu_models").fetchall()
    for model, *spellings in text_rows(SPELLINGS) + own:
        for spelling in spellings:
            # the cleaning done by inventory: drop the suffix for MIG or sharing, then keep only letters and
            # digits
            whole = re.sub(r"(-MIG-.*|-SHARED)$", "", spelling)
            alias = re.sub("^(nvidia|tesla)+", "", re.sub("[^a-z0-9]", "", whole.lower()))
            assert aliases.get(alias) == model, spelling
