"""AWS list prices through boto3: EC2 by moto, price list and Savings Plans by a stand-in with their wire formats."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime

import pytest

from gpucost.collect.prices import PriceResult
from gpucost.config.model import Aws, Config
from gpucost.store.connection import Store
from tests.services.price_clouds import NOW, Cloud, Reply, check_failure, collected, rows, shown, word_rows
from tests.services.price_clouds_aws import aws_cloud, aws_product, aws_products, aws_rates
from tests.text_tables import named_rows, text_rows

EAST = "us-east-1"
RESERVED = text_rows("""
1yr | standard    | No Upfront      |        | 39.0000000000
1yr | standard    | All Upfront     | 318864 | 0.0000000000
3yr | convertible | Partial Upfront | 262800 | 10.0000000000
""")
PRODUCTS = [
    aws_product("p5.48xlarge", EAST, "55.0400000000", RESERVED),
    *aws_products("""
p5.48xlarge  | us-east-1 | 60.0000000000 | operatingSystem=RHEL
p5.48xlarge  | us-east-1 | 61.0000000000 | tenancy=Dedicated
p5.48xlarge  | us-east-1 | 62.0000000000 | preInstalledSw="SQL Std"
p5.48xlarge  | us-east-1 | 63.0000000000 | capacitystatus=UnusedCapacityReservation
p5.48xlarge  | us-east-1 | 0.0000000000  | marketoption=CapacityBlock
g6f.large    | us-east-1 | 0.2024000000  |
trn1.2xlarge | us-east-1 | 1.3437500000  |
g5.xlarge    | us-east-1 | 0.0000000000  |
m7i.large    | us-east-1 | 0.1008000000  |
g5.xlarge    | eu-west-1 | 1.1230000000  |
"""),
]
RATES = aws_rates("""
p5.48xlarge | us-east-1 | 44.1 | Compute     | No Upfront  | 1 |
p5.48xlarge | us-east-1 | 41.2 | EC2Instance | All Upfront | 3 |
p5.48xlarge | us-east-1 | 9.9  | Compute     | No Upfront  | 1 | usageType=UnusedBox:p5.48xlarge
p5.48xlarge | us-east-1 | 9.8  | Compute     | No Upfront  | 1 | operation=RunInstances:0002
p5.48xlarge | eu-west-1 | 55.5 | Compute     | No Upfront  | 1 |
m7i.large   | us-east-1 | 0.07 | Compute     | No Upfront  | 1 |
""")


@pytest.fixture(scope="module")
def running() -> Iterator[Cloud]:
    with pytest.MonkeyPatch.context() as environment, aws_cloud(PRODUCTS, RATES) as cloud:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            environment.delenv(name, raising=False)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        yield cloud


@pytest.fixture
def cloud(running: Cloud) -> Cloud:
    running.questions.clear()
    running.trick = lambda _service, _number: None
    return running


def collect(cloud: Cloud, store: Store, *regions: str, now: datetime = NOW) -> PriceResult:
    return collected("aws", Config(aws=Aws(endpoint_url=cloud.url, regions=list(regions))), store, now=now)


@pytest.fixture(scope="module")
def first(running: Cloud, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, PriceResult]:
    """Return a store with all prices; tests that change it use a copy."""
    store = Store(tmp_path_factory.mktemp("collected") / "store.duckdb")
    result = collect(running, store)
    # all answers came in pages, and one region serves the price list for all
    assert running.count("pricing") > 1 and running.count("savingsplans") > 1
    return store, result


def test_all_purchase_options_of_an_instance_are_collected(first: tuple[Store, PriceResult]) -> None:
    store, result = first
    assert result.prices, result.error
    assert result.regions == (EAST,)
    columns = "instance_type, purchase_option, term_years, payment_option, offering, price_per_hour"
    assert shown(store, columns) == word_rows("""
        g6f.large     on_demand    0 -               -            0.2024
        p5.48xlarge   on_demand    0 -               -            55.04
        p5.48xlarge   reserved     1 all_upfront     standard     36.4
        p5.48xlarge   reserved     1 no_upfront      standard     39
        p5.48xlarge   reserved     3 partial_upfront convertible  20
        p5.48xlarge   savings_plan 1 no_upfront      compute      44.1
        p5.48xlarge   savings_plan 3 all_upfront     ec2_instance 41.2
        trn1.2xlarge  on_demand    0 -               -            1.34375
    """)
    columns = "DISTINCT provider, region, zone, currency, price_as_of, effective_start"
    assert shown(store, columns) == word_rows("""
        aws us-east-1 - USD 2026-11-21 2026-11-01
        aws us-east-1 - USD 2026-11-21 None
    """)
    [(types,)] = rows(store, "SELECT count(*) FROM instance_types")
    assert rows(store, "SELECT kind, source, rows FROM loads") == [("prices", "aws", result.prices + types)]


def test_ec2_pages_are_read(cloud: Cloud, store: Store) -> None:
    def page(number: int) -> Reply:
        more = "<nextToken>2</nextToken>" if number == 1 else ""
        text = f"""
            <DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item>
            <instanceType>g6.page{number}</instanceType><gpuInfo><gpus><item><name>L4</name><count>1</count>
            <memoryInfo><sizeInMiB>22888</sizeInMiB></memoryInfo></item></gpus></gpuInfo>
            </item></instanceTypeSet>{more}</DescribeInstanceTypesResponse>"""
        return Reply(200, text.strip().encode())

    cloud.trick = lambda service, number: page(number) if service == "ec2" else None
    assert collect(cloud, store).prices
    types = shown(store, "instance_type, gpu_model, gpu_count, vcpus", "instance_types")
    assert types == word_rows("g6.page1 L4 1.0 None\ng6.page2 L4 1.0 None")


def test_throttling_is_waited_out(cloud: Cloud, store: Store) -> None:
    busy = Reply(400, {"__type": "ThrottlingException", "message": "Rate exceeded"})
    slow = Reply(429, {"message": "slow down"}, {"x-amzn-ErrorType": "ThrottlingException"})
    replies = {("pricing", 1): busy, ("pricing", 3): busy, ("savingsplans", 1): slow}
    cloud.trick = lambda service, number: replies.get((service, number))
    assert collect(cloud, store).prices


FAILURES = """
expired | ec2          | 1 | 400 | 0    | <Response><Errors><Error><Code>RequestExpired</Code></Error></Errors></Response> | the credentials have expired (DescribeInstanceTypes: RequestExpired)
half    | pricing      | 2 | 200 | 0    | {"FormatVersion": "aws_v1", "PriceList": ["{ | an incomplete answer of get_products
broken  | pricing      | 0 | 200 | 1000 | {"PriceList": ["{                            | an incomplete answer of get_products
denied  | savingsplans | 1 | 403 | 0    | {"__type": "AccessDeniedException"}          | DescribeSavingsPlansOfferingRates is not allowed
"""  # noqa: E501


@pytest.mark.parametrize(("service", "number", "status", "missing", "body", "message"), named_rows(FAILURES))
def test_failure_is_one_line_and_leaves_the_store_unchanged(
    cloud: Cloud, store: Store, first: tuple[Store, PriceResult], service: str, number: str, status: str, missing: str,
    body: str, message: str,
) -> None:  # fmt: skip
    """`number` is the request with this answer; 0: all."""
    shutil.copy(first[0].path, store.path)
    before = rows(store, "SELECT * FROM list_prices ORDER BY ALL")
    reply = Reply(int(status), body.encode(), cut=int(missing))
    cloud.trick = lambda name, at: reply if name == service and int(number) in (0, at) else None
    check_failure(collect(cloud, store, now=NOW.replace(day=22)), f"aws: {message}")
    assert rows(store, "SELECT * FROM list_prices ORDER BY ALL") == before
    assert rows(store, "SELECT count(*) FROM loads") == [(1,)]


def test_regions_default_to_regions_of_nodes(cloud: Cloud, store: Store) -> None:
    with store.write() as con:
        con.execute("""
            INSERT INTO series
            SELECT number, number, 'prometheus', 'c', 'kube_node_labels',
                MAP {'label_topology_kubernetes_io_region': region}
            FROM (VALUES (0, 'eu-west-1'), (1, 'us-central1')) AS regions (number, region)""")
    result = collect(cloud, store)
    assert result.prices and result.regions == ("eu-west-1",)


def test_aws_without_credentials_is_skipped(nobody: None, store: Store) -> None:
    result = collected("aws", Config(), store)
    assert result.skipped is not None and result.skipped.message == "aws: no credentials found"
    assert not store.exists
