"""The catalog's parts and tokens: Google's parts add up to its machines.

Token prices are plain and dated.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from gpucost.price.tokens import seller, token_price, token_prices
from tests.text_tables import text_rows
from tests.unit.test_catalog import NEWEST, key, rows

UNITS = {
    key(row, "region family component gpu_model purchase_option term_years"): Decimal(row["price_per_hour"])
    for row in rows("components.csv")
}
INSTANCES = {row["instance_type"]: row for row in rows("instances.csv")}
# a part of a machine, and the column that counts it
PARTS = {"vcpu": "vcpus", "memory_gib": "memory_gib", "gpu": "gpu_count", "local_ssd_gib": "local_ssd_gib"}


def parts_of(
    region: str, instance_type: str, purchase_option: str = "on_demand", term_years: str = ""
) -> dict[str, Decimal]:
    """The cost of each part of a machine per hour.

    It is empty if a part has no price of its own.
    """
    row, family = INSTANCES[instance_type], instance_type.split("-")[0]
    parts = {}
    for component, column in PARTS.items():
        count = Decimal(row[column] or 0)
        model = row["gpu_model"] if component == "gpu" else ""
        unit = UNITS.get((region, family, component, model, purchase_option, term_years))
        if count and unit is None:
            return {}
        parts[component] = count and unit * count
    return parts


def test_google_parts_are_of_four_kinds_and_only_gpus_name_a_model() -> None:
    models = {row["gpu_model"] for row in rows("gpus.csv")}
    for row in rows("components.csv"):
        assert row["component"] in {"vcpu", "memory_gib", "gpu", "local_ssd_gib"}, row
        assert (row["gpu_model"] in models) if row["component"] == "gpu" else row["gpu_model"] == "", row


def test_parts_add_up_to_the_machine_price() -> None:
    checked = set()
    for row in rows("prices.csv"):
        region, instance_type = row["region"], row["instance_type"]
        # a3-megagpu's GPUs are another product; older months had other prices
        if row["source_id"] != "cyclenerd-gcp" or instance_type.startswith("a3-mega"):
            continue
        parts = parts_of(region, instance_type, row["purchase_option"], row["term_years"])
        if parts:
            assert abs(sum(parts.values()) - Decimal(row["price_per_hour"])) < Decimal("0.00005"), row
            checked.add((region, instance_type))
    assert len(checked) > 200
    assert {instance_type.split("-")[0] for _, instance_type in checked} == {"a2", "a3", "g2"}


GPU_SHARES = """
a2-highgpu-1g | 0.7987
a2-ultragpu-1g | 0.7750
a3-highgpu-8g | 0.8857
g2-standard-4 | 0.7923
g2-standard-32 | 0.3229
"""
# vCPUs, GiB, price, and the share of the GPUs
HOSTS = """
192 | 2048 | 55.04 | 0.7321 | p5.48xlarge
96 | 1152 | 21.957642 | 0.6395 | p4d.24xlarge
4 | 16 | 1.006 | 0.8069 | g5.xlarge
64 | 256 | 4.096 | 0.2413 | g5.16xlarge
208 | 1872 | 88.49 | 0.8361 | a3-highgpu-8g
4 | 16 | 0.706832 | 0.7252 | g2-standard-4
96 | 1900 | 32.77 | 0.6617 | Standard_ND96amsr_A100_v4
"""


def test_gpu_share_of_a_machine_from_parts_and_from_googles_host_prices() -> None:
    for instance_type, share in text_rows(GPU_SHARES):
        parts = parts_of("us-central1", instance_type)
        assert f"{parts['gpu'] / sum(parts.values()):.4f}" == share, instance_type
    core, gib = (UNITS["us-central1", "a2", part, "", "on_demand", ""] for part in ("vcpu", "memory_gib"))
    for vcpus, memory_gib, price, share, name in text_rows(HOSTS):
        host = Decimal(vcpus) * core + Decimal(memory_gib) * gib
        assert f"{1 - host / Decimal(price):.4f}" == share, name


TOKEN_PRICES = ("input_price_per_million", "cached_input_price_per_million", "output_price_per_million")


def test_token_prices_are_plain_positive_and_dated() -> None:
    found = rows("tokens.csv")
    for row in found:
        for name in TOKEN_PRICES:
            # written plainly: no exponent and no trailing zeros
            assert re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]{0,8}[1-9])?", row[name]) or (
                name.startswith("cached") and not row[name]
            ), row
        bought, cached, generated = (Decimal(row[name] or 0) for name in TOKEN_PRICES)
        # the most expensive model costs 600 dollars; a cached token never costs more than a fresh one
        assert 0 < bought <= generated <= 600, row
        assert not row["cached_input_price_per_million"] or 0 < cached <= bought, row
        assert row["currency"] == "USD" and row["source_id"] == "litellm-1.110.2", row
        assert date(2026, 1, 1) <= date.fromisoformat(row["price_as_of"]) <= NEWEST, row
        assert seller(row["provider"]) == row["provider"], row
    sellers = "anthropic aws azure cerebras cohere deepseek fireworks_ai gcp groq mistral moonshot openai together_ai xai"
    assert {row["provider"] for row in found} == set(sellers.split())
    assert 400 < len(found) < 700


# gpt-4o-2024-05-13 is retired, at another price than its model
KNOWN = """
openai | gpt-4o-mini | 0.15 0.075 0.6
openai | gpt-4o-2024-08-06 | 2.5 1.25 10
openai | gpt-4o-2024-05-13 | 5 None 15
aws | eu.anthropic.claude-haiku-4-5-20251001-v1:0 | 1.1 0.11 5.5
openai | gpt-5 | 1.25 0.125 10
anthropic | claude-sonnet-4-6 | 3 0.3 15
aws | anthropic.claude-opus-4-6-v1 | 5 0.5 25
aws | us.anthropic.claude-opus-4-6-v1 | 5.5 0.55 27.5
aws | amazon.nova-micro-v1:0 | 0.035 0.00875 0.14
aws | meta.llama3-3-70b-instruct-v1:0 | 0.72 None 0.72
azure | gpt-4o | 2.5 1.25 10
gcp | gemini-2.5-pro | 1.25 0.125 10
groq | openai/gpt-oss-120b | 0.15 0.075 0.6
mistral | mistral-large-latest | 0.5 0.05 1.5
deepseek | deepseek-v3.2 | 0.28 0.028 0.4
"""


def test_known_token_prices_are_in_the_catalog() -> None:
    for provider, model, prices in text_rows(KNOWN):
        found = token_price(provider, model, NEWEST)
        assert " ".join(str(getattr(found, name)) for name in TOKEN_PRICES) == prices, model
    assert len(token_prices(NEWEST)) == len(rows("tokens.csv"))
