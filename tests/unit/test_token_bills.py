"""Bill rows that are purchased tokens: their model and number."""

from __future__ import annotations

from decimal import Decimal

import pytest
from duckdb import DuckDBPyConnection

from gpucost.store.charges import find_tokens
from tests.text_tables import cells, text_rows
from tests.unit import test_bill_azure as azure, test_bill_gcp as gcp
from tests.unit.bills import FOCUS_USAGE, Bills, Charge, Row, usage


def token_rows(bills: Bills) -> list[Charge]:
    """The rows of token_charges, in the order of the files."""
    with bills.store.read() as con:
        find_tokens(con)
        con.execute("FROM token_charges ORDER BY source_file, source_row")
        names = [column[0] for column in con.description or ()]
        return [dict(zip(names, row, strict=True)) for row in con.fetchall()]


def facts(rows: list[Charge]) -> list[tuple[str, ...]]:
    return cells(rows, "vendor model token_kind tokens")


def bedrock(sold: str, usage_type: str, quantity: str, unit: str, cost: str, **changed: str) -> Row:
    """A CUR row of a model in Amazon Bedrock or from AWS Marketplace, whose products have another code."""
    product = f"{sold} (Amazon Bedrock Edition)" if sold else "Amazon Bedrock"
    return usage(
        ProductCode="4a524th30q694o538qndh9ucht" if sold else "AmazonBedrock", UsageType=usage_type, UsageAmount=quantity,
        UnblendedCost=cost, unit=unit, ResourceId="", Operation="", AvailabilityZone="", LineItemDescription="",
        **{"product/ProductName": product}, **changed,
    )  # fmt: skip


# product in Marketplace, usage type, quantity, unit, cost; then the facts of the row
AWS = """
| USE1-Claude3Sonnet-input-tokens | 2000 | 1K tokens | 6 | anthropic | claude-3-sonnet | prompt | 2000000.0
| EUC1-NovaLite-output-tokens | 10 | 1K tokens | 0.0024 | amazon | nova-lite | generation | 10000.0
| USW2-NovaLite-cache-read-input-token-count | 10 | 1K tokens | 0.001 | amazon | nova-lite | cached | 10000.0
| USE1-Claude4.6Opus-cache-write-input-token-count-cross-region-global | 3 | 1M tokens | 1 \
| anthropic | claude-opus-4-6 | prompt | 3000000.0
| USE1-zai.glm-4.7-mantle-output-tokens-batch | 1 | 1M tokens | 1 | zai | glm-4.7 | generation | 1000000.0
| USE1-Llama4-Maverick-17B-input-tokens-batch | 1 | 1K tokens | 1 | meta | llama4-maverick-17b | prompt | 1000.0
| USE1-Nova2.0Lite-ProvisionedThroughput-NoCommit-ModelUnits | 1 | Hrs | 60.5 | amazon | nova-2-lite | commitment | None
| USE1-Nova-Canvas-T2I-1024-Standard | 3 | image | 0.12 | amazon | nova-canvas-t2i-1024 | other | None
| USE1-Guardrail-ContentPolicyUnitsConsumed | 3 | 1K text units | 0.12 | None | None | other | None
Claude Sonnet 4.5 | USE1-MP:USE1_InputTokenCount_Global-Units | 0.02645 | Units | 0.07935 \
| anthropic | claude-sonnet-4-5 | prompt | 26450.0
Claude Opus 4.7 | USW2-MP:USW2_cache_read_tokens_standard-Units | 1 | Units | 0.5 \
| anthropic | claude-opus-4-7 | cached | 1000000.0
OpenAI GPT-5.4 | USW2-MP:USW2_output_tokens_standard-Units | 2 | Units | 30 | openai | gpt-5.4 | generation | 2000000.0
Claude Sonnet 4.6 | USE1-MP:USE1_Reserved_1Month_InputTPM_Geo-Units | 2 | Units | 0.396 \
| anthropic | claude-sonnet-4-6 | commitment | None
"""


def test_amazon_bedrock(bills: Bills) -> None:
    others = [usage(), usage(ProductCode="AmazonS3", UsageType="TimedStorage-ByteHrs", ResourceId="bucket")]
    tax = bedrock("", "USE1-NovaLite-output-tokens", "1", "1K tokens", "9", LineItemType="Tax")
    cases = text_rows(AWS)
    bills.aws([*others, tax, *(bedrock(*row[:5]) for row in cases)])
    found = token_rows(bills)
    assert facts(found) == [row[5:] for row in cases]
    assert [row["cost"] for row in found] == [Decimal(row[4]) for row in cases]
    columns = "provider issuer billing_currency billing_period sub_account_id billing_account_id source_row"
    assert cells(found[:1], columns) == [
        ("aws", "None", "USD", "2026-03", "444455556666", "111122223333", "4")
    ]


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


def test_discounts_are_subtracted_from_their_usage(con: DuckDBPyConnection) -> None:
    """One discount is spread over its kind of usage; one names an inference profile and stays a separate row."""
    con.execute(_BILL)
    assert find_tokens(con)
    con.execute("SELECT source_row, token_kind, tokens, cost FROM token_charges ORDER BY source_row")
    assert con.fetchall() == [
        (1, "generation", 2000.0, Decimal("5.4")),
        (2, "generation", 2000.0, Decimal("3.6")),
        (4, "generation", None, Decimal(-2)),
    ]


@pytest.mark.parametrize(("provider", "is_one"), [("openai", True), ("anthropic", True), ("other", False)])
def test_vendors_of_tokens_only_are_known_by_name(
    con: DuckDBPyConnection, provider: str, is_one: bool
) -> None:
    con.execute(_BILL)
    con.execute("UPDATE bills SET provider = $1", [provider])
    con.execute("UPDATE bill_details SET consumed_unit = 'requests'")
    find_tokens(con)
    assert (con.execute("SELECT count(*) FROM token_services").fetchone() == (5,)) is is_one


def test_bills_without_tokens_have_the_same_columns(con: DuckDBPyConnection) -> None:
    columns = "SELECT column_name, column_type FROM (DESCRIBE token_charges)"
    con.execute(_BILL)
    find_tokens(con)
    described = con.execute(columns).fetchall()
    con.execute("DELETE FROM bill_details WHERE service_code = 'AmazonBedrock'")
    assert not find_tokens(con)
    assert con.execute(columns).fetchall() == described
    assert con.execute("FROM token_charges").fetchall() == []


def sku(service: str, name: str, amount: str, unit: str, cost: str) -> Charge:
    """A row of Google Cloud's export for a service without machines."""
    used = {"unit": unit, "pricing_unit": unit} | dict.fromkeys(
        ("amount", "amount_in_pricing_units"), float(amount)
    )
    place = {"id": "C7E2-9256-1C43", "description": service}
    return gcp.row(name, float(cost), service=place, usage=used, resource=None, system_labels=[], labels=[])


# service, SKU, amount, unit, cost; then the facts of the row; the second of 1.5 Flash counts characters
GCP = """
Vertex AI | Gemini 2.5 Flash GA Text Input - Predictions | 1065040 | count | 0.319512 | google | gemini-2.5-flash | prompt \
| 1065040.0
Vertex AI | Gemini 2.5 Pro Thinking Text Output - Predictions | 1000 | count | 0.01 | google | gemini-2.5-pro | generation \
| 1000.0
Vertex AI | Gemini 3 Flash Text Input Caching | 500 | count | 0.0001 | google | gemini-3-flash | cached | 500.0
Vertex AI | Gemini 3 Flash Text Input Caching Storage | 5e6 | hour | 0.5 | google | gemini-3-flash | other | None
Vertex AI | Gemini 1.5 Flash Text Input - Predictions | 4000 | count | 0.1 | google | gemini-1.5-flash | prompt | None
Gemini API | Generate content input token count gemini 2.5 flash short input text | 1983966 | count | 0.6 \
| google | gemini-2.5-flash | prompt | 1983966.0
Gemini API | GenerateContent text output token count for Gemini 2.0 Flash | 34356 | count | 1.6 \
| google | gemini-2.0-flash | generation | 34356.0
Gemini API | Generate content cached input token count gemini 2.5 flash input image | 10 | count | 1 \
| google | gemini-2.5-flash | cached | 10.0
Gemini API | Grounding with Google Search | 3 | count | 1 | None | None | other | None
"""


def test_google_cloud(bills: Bills) -> None:
    pipelines = "Vertex AI: Training/Pipelines on N1 Predefined Instance Core running in Americas"
    cases = text_rows(GCP)
    gcp.load(
        bills,
        [gcp.row(), sku("Vertex AI", pipelines, "3600", "seconds", "2"), *(sku(*row[:5]) for row in cases)],
    )
    found = token_rows(bills)
    assert facts(found) == [row[5:] for row in cases]
    assert sum(row["cost"] for row in found) == sum(Decimal(row[4]) for row in cases)


def meter(category: str, sold: str, name: str, quantity: str, unit: str, cost: str) -> Row:
    """A row of an Azure export for a model's deployment."""
    return azure.row(
        MeterCategory=category, MeterSubCategory=sold, ProductName=sold, MeterName=name, UnitOfMeasure=unit,
        Quantity=quantity, CostInBillingCurrency=cost,
        ResourceId=f"{azure.SUB}/resourceGroups/ai/providers/Microsoft.CognitiveServices/accounts/chat",
        AdditionalInfo="", Tags="",
    )  # fmt: skip


# category, product, meter, quantity, unit and cost; then the facts of the row
AZURE = """
Azure OpenAI | Azure OpenAI | gpt 4o 0806 Inp glbl Tokens | 29.872 | 1K | 0.08215 | openai | gpt-4o-2024-08-06 | prompt | 29872.0
Azure OpenAI | Azure OpenAI | gpt-4o-mini-0718-Outp-glbl Tokens | 93.854 | 1K | 0.0563 \
| openai | gpt-4o-mini-2024-07-18 | generation | 93854.0
Azure OpenAI | Azure OpenAI | gpt 4.1 cached Inp glbl Tokens | 2 | 1K | 0.001 | openai | gpt-4.1 | cached | 2000.0
Foundry Models | Azure OpenAI | GPT 5.1 opt Gl 1M Tokens | 0.5 | 1M | 5 | openai | gpt-5.1 | generation | 500000.0
Foundry Models | Azure OpenAI | 5.4 cd inp Dz 1M Tokens | 2 | 1M | 0.25 | openai | gpt-5.4 | cached | 2000000.0
Azure OpenAI | Azure OpenAI | text-embedding-3-large-glbl Tokens | 10 | 1K | 0.0013 | openai | text-embedding-3-large \
| prompt | 10000.0
Azure OpenAI | Azure OpenAI | Provisioned Managed Global Unit | 360 | 1/Hour | 360 | openai | None | commitment | None
Foundry Models | Azure Deepseek Models | R1 Inp glbl Tokens | 1 | 1K | 1 | deepseek | deepseek-r1 | prompt | 1000.0
"""
# counted in single tokens, priced per 1,000
SINGLE = """
Azure OpenAI | Azure OpenAI | gpt 4.1 Inp glbl Tokens | 5000 | 1K | 0.01 | openai | gpt-4.1 | prompt | 5000.0
Azure OpenAI | Azure OpenAI | gpt 4.1 Outp glbl Tokens | 5 | 1K | 0.04 | openai | gpt-4.1 | generation | 5000.0
"""


def test_azure(bills: Bills) -> None:
    speech = meter("Cognitive Services", "Language", "Standard Text Records", "5", "1K", "5")
    cases = text_rows(AZURE) + text_rows(SINGLE)
    made = [meter(*row[:6]) for row in cases]
    for row, price in zip(made[-2:], ("0.002", "0.008"), strict=True):
        row["UnitPrice"] = price
    azure.load(bills, [azure.row(), speech, *made])
    found = token_rows(bills)
    assert facts(found) == [row[6:] for row in cases]
    assert found[0]["resource_name"] == "chat"
    assert sum(row["cost"] for row in found) == sum(Decimal(row[5]) for row in cases)


_EMPTY = "ResourceType ResourceId ChargeDescription SkuId SkuMeter SkuPriceDetails x_UsageType PricingQuantity PricingUnit"


def tokens_of(provider: str, quantity: str, unit: str, cost: str, more: str = "", **changed: str) -> Row:
    """A FOCUS row of a model's tokens; `more`: "Column: text; Column: text"."""
    columns = dict(column.split(": ", 1) for column in more.split("; ") if column)
    return FOCUS_USAGE | dict.fromkeys(_EMPTY.split(), "") | {
        "ProviderName": provider, "ServiceCategory": "AI and Machine Learning", "ServiceName": "API",
        "BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ConsumedQuantity": quantity, "ConsumedUnit": unit,
    } | columns | changed  # fmt: skip


# provider, quantity, unit, cost, more columns; then the facts of the row; if the unit is not tokens, the pricing unit counts
FOCUS = """
Anthropic | 5000 | Tokens | 0.015 | ChargeDescription: Claude Sonnet 4 Usage - Input Tokens | anthropic | claude-sonnet-4 \
| prompt | 5000.0
OpenAI | 2 | 1K tokens | 0.02 | SkuMeter: gpt-4o-2024-08-06, output | openai | gpt-4o-2024-08-06 | generation | 2000.0
Mistral AI | 3 | 1M Tokens | 6 | SkuPriceDetails: {"ModelName": "mistral-large-2411"}; SkuMeter: Cached input \
| mistral | mistral-large-2411 | cached | 3000000.0
Nimbus GPU Cloud | 7 | Requests | 1 | SkuMeter: qwen3-coder-480b output tokens; PricingQuantity: 4; PricingUnit: 1,000 Tokens \
| alibaba | qwen3-coder-480b | generation | 4000.0
OpenAI | 3 | Calls | 0.03 | SkuMeter: web search tool calls | openai | None | other | None
OpenAI, LLC | 3 | Tokens | 6 | ServiceCategory: Other; ChargeDescription: codex-mini output | openai | codex-mini \
| generation | 3.0
Nimbus GPU Cloud | 3 | Tokens | 6 | SkuMeter: acme-1 input tokens | None | acme-1 | prompt | 3.0
Groq | 9 | | 0.5 | ChargeDescription: llama-3.3-70b input | meta | llama-3.3-70b | prompt | None
AWS | 4 | 1K tokens | 0.5 \
| ServiceName: Amazon Bedrock; x_UsageType: USE1-Claude3Haiku-output-tokens; ChargeDescription: $0.125 per 1K \
| anthropic | claude-3-haiku | generation | 4000.0
Microsoft | 4000 | Units | 0.5 \
| ServiceName: Azure OpenAI; SkuMeter: gpt 4o 0806 Inp glbl Tokens; PricingQuantity: 4; PricingUnit: 1K \
| openai | gpt-4o-2024-08-06 | prompt | 4000.0
"""
# A cloud may sell a service of another provider; a bill with invoices of several issuers has no single issuer.
ISSUERS = """
a | AWS | aws
b | Anthropic | None
c | AWS | None
c | Anthropic | None
d | | None
e | Amazon Web Services, Inc. | aws
"""


def test_focus_rows_and_their_invoice_issuer(bills: Bills) -> None:
    cases, issued = text_rows(FOCUS), text_rows(ISSUERS)
    rows = [
        FOCUS_USAGE,
        tokens_of("OpenAI", "", "", "-5", ChargeCategory="Credit"),
        *(tokens_of(*row[:5]) for row in cases),
    ]
    for account, name, _ in issued:
        rows.append(
            tokens_of("Anthropic", "1", "Tokens", "1", BillingAccountId=account, InvoiceIssuerName=name)
        )
    bills.take(rows, provider=None)
    found = token_rows(bills)
    assert facts(found[: len(cases)]) == [row[5:] for row in cases]
    assert sum(row["cost"] for row in found[: len(cases)]) == sum(Decimal(row[3]) for row in cases)
    by_account = bills.store.query(
        "SELECT billing_account_id, issuer FROM bills WHERE length(billing_account_id) = 1"
    )[1]
    assert {(account, str(issuer)) for account, issuer in by_account} == {row[::2] for row in issued}
    assert [str(row["issuer"]) for row in found[len(cases) :]] == [issuer for *_, issuer in issued]
