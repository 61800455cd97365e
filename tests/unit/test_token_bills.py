"""Which rows of bills are bought tokens, of whose model, and how many."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from gpucost.store.charges import find_tokens
from tests.unit import test_bill_azure as azure
from tests.unit import test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, snake, usage


def token_rows(bills: Bills) -> list[dict[str, Any]]:
    """The rows of token_charges, in the order of the files."""
    with bills.store.read() as con:
        find_tokens(con)
        con.execute("FROM token_charges ORDER BY source_file, source_row")
        names = [column[0] for column in con.description or ()]
        return [dict(zip(names, row, strict=True)) for row in con.fetchall()]


def bedrock(
    usage_type: str, quantity: str, cost: str, unit: str = "1K tokens", **changed: str
) -> dict[str, str]:
    """A CUR row of Amazon Bedrock."""
    return usage(
        ProductCode="AmazonBedrock", UsageType=usage_type, UsageAmount=quantity, UnblendedCost=cost, unit=unit, ResourceId="",
        Operation="", AvailabilityZone="", LineItemDescription="", **{"product/ProductName": "Amazon Bedrock"}, **changed,
    )  # fmt: skip


def marketplace(model: str, usage_type: str, quantity: str, cost: str, **changed: str) -> dict[str, str]:
    """A CUR row of a model that AWS Marketplace sells: its product's code is not Bedrock's."""
    return bedrock(usage_type, quantity, cost, "Units") | {
        "lineItem/ProductCode": "4a524th30q694o538qndh9ucht", "product/ProductName": f"{model} (Amazon Bedrock Edition)",
    } | changed  # fmt: skip


AWS = [
    (bedrock("USE1-Claude3Sonnet-input-tokens", "2000", "6"), "anthropic", "claude-3-sonnet", "prompt", 2e6),
    (bedrock("EUC1-NovaLite-output-tokens", "10", "0.0024"), "amazon", "nova-lite", "generation", 1e4),
    (bedrock("USW2-NovaLite-cache-read-input-token-count", "10", "0.001"), "amazon", "nova-lite", "cached", 1e4),
    (
        bedrock("USE1-Claude4.6Opus-cache-write-input-token-count-cross-region-global", "3", "1", "1M tokens"),
        "anthropic", "claude-opus-4-6", "prompt", 3e6,
    ),
    (bedrock("USE1-zai.glm-4.7-mantle-output-tokens-batch", "1", "1", "1M tokens"), "zai", "glm-4.7", "generation", 1e6),
    (bedrock("USE1-Llama4-Maverick-17B-input-tokens-batch", "1", "1"), "meta", "llama4-maverick-17b", "prompt", 1e3),
    (
        bedrock("USE1-Nova2.0Lite-ProvisionedThroughput-NoCommit-ModelUnits", "1", "60.5", "Hrs"),
        "amazon", "nova-2-lite", "commitment", None,
    ),
    (bedrock("USE1-Nova-Canvas-T2I-1024-Standard", "3", "0.12", "image"), "amazon", "nova-canvas-t2i-1024", "other", None),
    (bedrock("USE1-Guardrail-ContentPolicyUnitsConsumed", "3", "0.12", "1K text units"), None, None, "other", None),
    (
        marketplace("Claude Sonnet 4.5", "USE1-MP:USE1_InputTokenCount_Global-Units", "0.02645", "0.07935"),
        "anthropic", "claude-sonnet-4-5", "prompt", 26450.0,
    ),
    (
        marketplace("Claude Opus 4.7", "USW2-MP:USW2_cache_read_tokens_standard-Units", "1", "0.5"),
        "anthropic", "claude-opus-4-7", "cached", 1e6,
    ),
    (
        marketplace("OpenAI GPT-5.4", "USW2-MP:USW2_output_tokens_standard-Units", "2", "30"),
        "openai", "gpt-5.4", "generation", 2e6,
    ),
    (
        marketplace("Claude Sonnet 4.6", "USE1-MP:USE1_Reserved_1Month_InputTPM_Geo-Units", "2", "0.396"),
        "anthropic", "claude-sonnet-4-6", "commitment", None,
    ),
]  # fmt: skip


def facts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["vendor"], row["model"], row["token_kind"], row["tokens"]) for row in rows]


@pytest.mark.parametrize("spelled", [list, pytest.param(snake, marks=pytest.mark.slow)])
def test_amazon_bedrock(bills: Bills, spelled: Any) -> None:
    others = [usage(), usage(ProductCode="AmazonS3", UsageType="TimedStorage-ByteHrs", ResourceId="bucket")]
    tax = bedrock("USE1-NovaLite-output-tokens", "1", "9", LineItemType="Tax")
    bills.aws(spelled([*others, tax, *(row for row, *_ in AWS)]))
    found = token_rows(bills)
    assert facts(found) == [tuple(expected) for _, *expected in AWS]
    assert [row["cost"] for row in found] == [Decimal(row["lineItem/UnblendedCost"]) for row, *_ in AWS]
    first = found[0]
    assert (first["provider"], first["issuer"], first["billing_currency"], first["billing_period"]) == (
        "aws",
        None,
        "USD",
        "2026-03",
    )
    assert (first["sub_account_id"], first["billing_account_id"], first["source_row"]) == (
        "444455556666",
        "111122223333",
        4,
    )


_BILL = """
INSERT INTO bills BY NAME
SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format, '1' AS billing_account_id,
    '2026-03' AS billing_period,
    false AS is_whole, true AS is_final, '' AS digest, 1 AS rows, 1 AS load_id, now()::TIMESTAMP AS loaded_at;
INSERT INTO bill_details BY NAME
SELECT 1 AS batch_id, number AS detail_id, 1 AS bill_id, 'Usage' AS charge_category, 'USD' AS billing_currency,
    kind, service AS service_code,
    '1' AS billing_account_id, 'USE1-NovaLite-output-tokens' AS sku_description, '1K tokens' AS consumed_unit,
    resource AS resource_id,
    'same' AS cost_cause, 'cur.csv' AS source_file
FROM (VALUES (1, 'other', 'AmazonBedrock', NULL), (2, 'discount', 'AmazonBedrock', NULL),
    (3, 'discount', 'AmazonBedrock', 'arn:profile'),
    (4, 'tax', 'AmazonBedrock', NULL),
    (5, 'other', 'AmazonS3', NULL)) AS d(number, kind, service, resource);
INSERT INTO bill_lines BY NAME
SELECT 1 AS batch_id, number AS detail_id, number AS charge_key, TIMESTAMP '2026-03-05' AS charge_period_start,
    TIMESTAMP '2026-03-06' AS charge_period_end, cost AS billed_cost, cost AS effective_cost,
    2 AS consumed_quantity, place AS source_row
FROM (VALUES (1, 6, 1), (1, 4, 2), (2, -1, 3), (3, -2, 4), (4, 9, 5), (5, 9, 6)) AS l(number, cost, place);
INSERT INTO discount_rates BY NAME
SELECT 1 AS rate_id, 'aws' AS provider, '2026-03' AS billing_period, 'USD' AS currency, 1 AS bill_id,
    'AmazonBedrock' AS service, '1' AS account,
    'USE1-NovaLite-output-tokens' AS sku_description, 10 AS discounted_cost, -1 AS discount_cost,
    1 AS rows, ['cur.csv:3'] AS first_rows;
"""


def test_discounts_are_taken_off_what_they_are_of(con: DuckDBPyConnection) -> None:
    """One is spread over its kind of usage; one names an inference profile, and stands beside what it is of."""
    con.execute(_BILL)
    assert find_tokens(con)
    con.execute("SELECT source_row, token_kind, tokens, cost FROM token_charges ORDER BY source_row")
    assert con.fetchall() == [
        (1, "generation", 2000.0, Decimal("5.4")),
        (2, "generation", 2000.0, Decimal("3.6")),
        (4, "generation", None, Decimal(-2)),
    ]


@pytest.mark.parametrize(("provider", "is_one"), [("openai", True), ("anthropic", True), ("other", False)])
def test_those_who_sell_tokens_alone_are_known_by_name(
    con: DuckDBPyConnection, provider: str, is_one: bool
) -> None:
    con.execute(_BILL)
    con.execute("UPDATE bills SET provider = $1", [provider])
    con.execute("UPDATE bill_details SET consumed_unit = 'requests'")
    find_tokens(con)
    assert (con.execute("SELECT count(*) FROM token_services").fetchone() == (5,)) is is_one


def test_bills_without_tokens_have_the_same_columns(con: DuckDBPyConnection) -> None:
    con.execute(_BILL)
    find_tokens(con)
    described = con.execute("SELECT column_name, column_type FROM (DESCRIBE token_charges)").fetchall()
    con.execute("DELETE FROM bill_details WHERE service_code = 'AmazonBedrock'")
    assert not find_tokens(con)
    assert (
        con.execute("SELECT column_name, column_type FROM (DESCRIBE token_charges)").fetchall() == described
    )
    assert con.execute("FROM token_charges").fetchall() == []


def sku(service: str, name: str, amount: float, cost: float, unit: str = "count") -> dict[str, Any]:
    """A row of Google Cloud's export of a service that is no machine's."""
    usage_of = {"amount": amount, "unit": unit, "amount_in_pricing_units": amount, "pricing_unit": unit}
    place = {"id": "C7E2-9256-1C43", "description": service}
    return gcp.row(name, cost, service=place, usage=usage_of, resource=None, system_labels=[], labels=[])


GCP = [
    (
        sku("Vertex AI", "Gemini 2.5 Flash GA Text Input - Predictions", 1065040, 0.319512),
        "google", "gemini-2.5-flash", "prompt", 1065040.0,
    ),
    (
        sku("Vertex AI", "Gemini 2.5 Pro Thinking Text Output - Predictions", 1000, 0.01),
        "google", "gemini-2.5-pro", "generation", 1e3,
    ),
    (sku("Vertex AI", "Gemini 3 Flash Text Input Caching", 500, 0.0001), "google", "gemini-3-flash", "cached", 500.0),
    (sku("Vertex AI", "Gemini 3 Flash Text Input Caching Storage", 5e6, 0.5, "hour"), "google", "gemini-3-flash", "other", None),
    # characters
    (sku("Vertex AI", "Gemini 1.5 Flash Text Input - Predictions", 4000, 0.1), "google", "gemini-1.5-flash", "prompt", None),
    (
        sku("Gemini API", "Generate content input token count gemini 2.5 flash short input text", 1983966, 0.6),
        "google", "gemini-2.5-flash", "prompt", 1983966.0,
    ),
    (
        sku("Gemini API", "GenerateContent text output token count for Gemini 2.0 Flash", 34356, 1.6),
        "google", "gemini-2.0-flash", "generation", 34356.0,
    ),
    (
        sku("Gemini API", "Generate content cached input token count gemini 2.5 flash input image", 10, 1),
        "google", "gemini-2.5-flash", "cached", 10.0,
    ),
    (sku("Gemini API", "Grounding with Google Search", 3, 1), None, None, "other", None),
]  # fmt: skip


def test_google_cloud(bills: Bills) -> None:
    training = sku(
        "Vertex AI",
        "Vertex AI: Training/Pipelines on N1 Predefined Instance Core running in Americas",
        3600,
        2,
        "seconds",
    )
    gcp.load(bills, [gcp.row(), training, *(row for row, *_ in GCP)])
    found = token_rows(bills)
    assert facts(found) == [tuple(expected) for _, *expected in GCP]
    assert sum(row["cost"] for row in found) == sum(Decimal(str(row["cost"])) for row, *_ in GCP)


def meter(
    name: str, quantity: str, cost: str, unit: str = "1K", category: str = "Azure OpenAI", **changed: str
) -> dict[str, str]:
    """A row of an Azure export of a model's deployment."""
    return azure.row(
        MeterCategory=category, MeterSubCategory="Azure OpenAI", ProductName="Azure OpenAI", MeterName=name, UnitOfMeasure=unit,
        Quantity=quantity, CostInBillingCurrency=cost,
            ResourceId=f"{azure.SUB}/resourceGroups/ai/providers/Microsoft.CognitiveServices/accounts/chat",
        AdditionalInfo="", Tags="", **changed,
    )  # fmt: skip


AZURE = [
    (meter("gpt 4o 0806 Inp glbl Tokens", "29.872", "0.08215"), "openai", "gpt-4o-2024-08-06", "prompt", 29872.0),
    (meter("gpt-4o-mini-0718-Outp-glbl Tokens", "93.854", "0.0563"), "openai", "gpt-4o-mini-2024-07-18", "generation", 93854.0),
    (meter("gpt 4.1 cached Inp glbl Tokens", "2", "0.001"), "openai", "gpt-4.1", "cached", 2000.0),
    (meter("GPT 5.1 opt Gl 1M Tokens", "0.5", "5", "1M", "Foundry Models"), "openai", "gpt-5.1", "generation", 5e5),
    (meter("5.4 cd inp Dz 1M Tokens", "2", "0.25", "1M", "Foundry Models"), "openai", "gpt-5.4", "cached", 2e6),
    (meter("text-embedding-3-large-glbl Tokens", "10", "0.0013"), "openai", "text-embedding-3-large", "prompt", 1e4),
    (meter("Provisioned Managed Global Unit", "360", "360", "1/Hour"), "openai", None, "commitment", None),
    (
        meter("R1 Inp glbl Tokens", "1", "1", category="Foundry Models")
            | {"MeterSubCategory": "Azure Deepseek Models", "ProductName": "Azure Deepseek Models"},
        "deepseek", "deepseek-r1", "prompt", 1e3,
    ),
    # counted by single tokens, of which the price is of 1,000
    (meter("gpt 4.1 Inp glbl Tokens", "5000", "0.01") | {"UnitPrice": "0.002"}, "openai", "gpt-4.1", "prompt", 5000.0),
    (meter("gpt 4.1 Outp glbl Tokens", "5", "0.04") | {"UnitPrice": "0.008"}, "openai", "gpt-4.1", "generation", 5000.0),
]  # fmt: skip


def test_azure(bills: Bills) -> None:
    speech = meter("Standard Text Records", "5", "5", category="Cognitive Services") | {
        "MeterSubCategory": "Language",
        "ProductName": "Language",
    }
    azure.load(bills, [azure.row(), speech, *(row for row, *_ in AZURE)])
    found = token_rows(bills)
    assert facts(found) == [tuple(expected) for _, *expected in AZURE]
    assert found[0]["resource_name"] == "chat"
    assert sum(row["cost"] for row in found) == sum(
        Decimal(row["CostInBillingCurrency"]) for row, *_ in AZURE
    )


def tokens_of(provider: str, quantity: str, unit: str, cost: str, **changed: str) -> dict[str, str]:
    """A FOCUS row of a model's tokens."""
    return FOCUS_USAGE | {
        "ProviderName": provider, "ServiceCategory": "AI and Machine Learning", "ServiceName": "API",
        "ResourceType": "", "ResourceId": "",
        "BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ConsumedQuantity": quantity, "ConsumedUnit": unit,
        "ChargeDescription": "", "SkuId": "", "SkuMeter": "", "SkuPriceDetails": "", "x_UsageType": "",
        "PricingQuantity": "", "PricingUnit": "",
    } | changed  # fmt: skip


FOCUS = [
    (
        tokens_of("Anthropic", "5000", "Tokens", "0.015", ChargeDescription="Claude Sonnet 4 Usage - Input Tokens"),
        "anthropic", "claude-sonnet-4", "prompt", 5000.0,
    ),
    (
        tokens_of("OpenAI", "2", "1K tokens", "0.02", SkuMeter="gpt-4o-2024-08-06, output"),
        "openai", "gpt-4o-2024-08-06", "generation", 2000.0,
    ),
    (
        tokens_of("Mistral AI", "3", "1M Tokens", "6", SkuPriceDetails='{"ModelName": "mistral-large-2411"}',
            SkuMeter="Cached input"),
        "mistral", "mistral-large-2411", "cached", 3e6,
    ),
    # of another unit: the price's
    (
        tokens_of("Nimbus GPU Cloud", "7", "Requests", "1",
            SkuMeter="qwen3-coder-480b output tokens", PricingQuantity="4", PricingUnit="1,000 Tokens"),
        "alibaba", "qwen3-coder-480b", "generation", 4000.0,
    ),
    (tokens_of("OpenAI", "3", "Calls", "0.03", SkuMeter="web search tool calls"), "openai", None, "other", None),
    (
        tokens_of("OpenAI, LLC", "3", "Tokens", "6", ServiceCategory="Other", ChargeDescription="codex-mini output"),
        "openai", "codex-mini", "generation", 3.0,
    ),
    (tokens_of("Nimbus GPU Cloud", "3", "Tokens", "6", SkuMeter="acme-1 input tokens"), None, "acme-1", "prompt", 3.0),
    (tokens_of("Groq", "9", "", "0.5", ChargeDescription="llama-3.3-70b input"), "meta", "llama-3.3-70b", "prompt", None),
    (
        tokens_of("AWS", "4", "1K tokens", "0.5", ServiceName="Amazon Bedrock", x_UsageType="USE1-Claude3Haiku-output-tokens",
            ChargeDescription="$0.125 per 1K"),
        "anthropic", "claude-3-haiku", "generation", 4000.0,
    ),
    (
        tokens_of("Microsoft", "4000", "Units", "0.5", ServiceName="Azure OpenAI",
            SkuMeter="gpt 4o 0806 Inp glbl Tokens", PricingQuantity="4", PricingUnit="1K"),
        "openai", "gpt-4o-2024-08-06", "prompt", 4000.0,
    ),
]  # fmt: skip


# A cloud may sell what another provides; a bill with invoices of several has no one issuer.
ISSUERS = {
    "a": ["AWS"],
    "b": ["Anthropic"],
    "c": ["AWS", "Anthropic"],
    "d": [""],
    "e": ["Amazon Web Services, Inc."],
}
ISSUED = [
    tokens_of("Anthropic", "1", "Tokens", "1", BillingAccountId=account, InvoiceIssuerName=name)
    for account, names in ISSUERS.items()
    for name in names
]


def test_focus_and_who_issues_its_invoices(bills: Bills) -> None:
    credit = tokens_of("OpenAI", "", "", "-5", ChargeCategory="Credit")
    text = csv_text([FOCUS_USAGE, credit, *(row for row, *_ in FOCUS), *ISSUED])
    run = bills.load(bills.write("focus.csv", text), provider=None)
    assert not run.errors, run.errors
    found = token_rows(bills)
    assert facts(found[: -len(ISSUED)]) == [tuple(expected) for _, *expected in FOCUS]
    assert sum(row["cost"] for row in found[: -len(ISSUED)]) == sum(
        Decimal(row["BilledCost"]) for row, *_ in FOCUS
    )
    by_account = bills.store.query(
        "SELECT billing_account_id, issuer FROM bills WHERE length(billing_account_id) = 1 ORDER BY 1"
    )[1]
    assert by_account == [("a", "aws"), ("b", None), ("c", None), ("d", None), ("e", "aws")]
    assert [row["issuer"] for row in found[-len(ISSUED) :]] == ["aws", None, None, None, None, "aws"]
