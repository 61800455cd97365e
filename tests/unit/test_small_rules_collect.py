"""Rules of single functions that read collected data, with plain values."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, date, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from azure.core.exceptions import ClientAuthenticationError

from gpucost.attribute import _refuse_lost
from gpucost.clouds import NoCredentials
from gpucost.collect import spot
from gpucost.collect.bill.focus import _snake
from gpucost.collect.bill.manifest import _source
from gpucost.collect.prices.azure import AzurePrices
from gpucost.collect.progress.mappings import levels
from gpucost.collect.progress.mlflow import _run
from gpucost.collect.progress.prometheus import _without_series
from gpucost.collect.prometheus import collector
from gpucost.collect.slurm.facts import _Reader
from gpucost.collect.spot import azure
from gpucost.collect.spot.base import BadFact
from gpucost.config.model import Config, Mlflow, UnitSettings
from gpucost.errors import SourceError, StoreError
from gpucost.periods import MS_PER_HOUR
from gpucost.store import runs
from gpucost.store.prices import EvictionRate, load_eviction_rates
from tests.text_tables import cells, words
from tests.unit.stage_tables import Tables


def _fake(**fields: object) -> Any:
    """An object with only these fields."""
    return SimpleNamespace(**fields)


def _store(tables: Tables) -> Any:
    """A store with these tables."""
    return _fake(write=lambda: nullcontext(tables.con))


def test_days_with_lost_samples_are_named_as_ranges(tables: Tables) -> None:
    hours = "(3), (4), (53), (73), (119)"
    with pytest.raises(StoreError, match="the samples of 1970-01-01, 1970-01-03 to 1970-01-05 are gone"):
        _refuse_lost(tables.con, f"SELECT * FROM (VALUES {hours})", ZoneInfo("UTC"), "why")  # noqa: S608


def test_export_without_folder_is_named_by_its_report() -> None:
    document = {"reportName": "hourly"}
    assert _source(document, "b", ["cur/report/20261001-20261101/x.csv"]) == "s3://b/cur/report"
    assert _source(document, "b", ["20261001-20261101/x.csv"]) == "s3://b/hourly"
    assert _source({}, "", []) == "s3://unknown"


def test_column_names_become_snake_case() -> None:
    names = ("BilledCost", "x_gpucost_Team", "already_parted", "Tags")
    assert [_snake(name) for name in names] == ["billed_cost", "x_gpucost_team", "already_parted", "tags"]


ITEM = words(
    "armSkuName=Standard_NC24ads_A100_v4 productName=NCads_A100_v4 skuName=NC24ads_A100_v4 meterName=NC24ads_A100_v4 "
    "effectiveStartDate=2026-01-01T00:00:00Z retailPrice=3.5 currencyCode=USD type=Consumption"
) | {"unitOfMeasure": "1 Hour", "tierMinimumUnits": 0}


@pytest.mark.parametrize(
    ("requested", "expected"), [((), ["eastus", "westus"]), (("eastus",), ["eastus"])], ids=["all", "one"]
)
def test_azure_prices_are_limited_to_requested_regions(
    requested: tuple[str, ...], expected: list[str]
) -> None:
    def items(_: object, region: str) -> list[dict[str, Any]]:
        return [ITEM | {"armRegionName": name} for name in ("westus", "eastus") if region in ("", name)]

    config = Config.model_validate({})
    answer = AzurePrices.fetch(
        _fake(regions=requested, config=config, day=date(2026, 10, 1), provider="azure", _items=items)
    )
    assert sorted(price.region for price in answer.prices) == list(answer.regions) == expected


def test_duplicate_log_entry_does_not_repeat_an_epoch() -> None:
    assert levels([(10, 1, 1.0), (10, 1, 1.0), (20, 2, 2.0)], "end") == ([10, 10, 20], [1, 1, 2])
    assert levels([(10, 1, 1.0), (20, 1, 1.0)], "end") == ([10, 11, 20], [1, 0, 1])


def test_mlflow_run_is_named_by_name_then_tag_then_id() -> None:
    tag = {"key": "mlflow.runName", "value": "tagged"}
    for info, tags, name in (({"run_name": "mine"}, [tag], "mine"), ({}, [tag], "tagged"), ({}, [], "r1")):
        run = _run({"info": {"run_id": "r1", **info}, "data": {"tags": tags}}, "e", Mlflow())
        assert run.name == name


def test_unit_without_series_advises_to_check_its_setting() -> None:
    epochs = partial(UnitSettings, unit="epoch")
    units = [epochs(name="a", query="up"), epochs(name="b", metric="known", match={"job": ["x"]})]
    units += [epochs(name=name, metric="known") for name in "cd"]
    result = _fake(resumed=False, ok=True, metrics={"d"})
    findings = _without_series(_fake(url="http://p"), units, result, {"known"})
    assert [finding.fix for finding in findings] == ["check its query", "check its match", "check its metric"]


def test_slurm_reservation_holds_the_nodes_of_its_list() -> None:
    item = {"name": "r", "start_time": 10, "end_time": 20, "node_list": "n[1-2]", "flags": ["MAINT"]}
    reader = _Reader("", lambda _: None, 0)
    rows = list(reader.reservation(item))
    assert cells(rows, "nodes from_ms to_ms flags") == [("['n1', 'n2']", "10000", "20000", "['MAINT']")]
    (row,) = reader.reservation(item | {"node_list": None})
    assert row["nodes"] == []


@pytest.mark.parametrize(
    "row",
    [{"size": "a", "location": "b", "prices": ""}, {"size": "a", "location": "b"}, []],
    ids=["a text", "none", "no row"],
)
def test_azure_row_without_prices_is_refused(row: object) -> None:
    with pytest.raises(BadFact, match=r"a row (has no spotPrices|is not an object)"):
        azure._prices(row, {})


@pytest.mark.parametrize("rate", ["often", "5", "5-", "", None], ids=str)
def test_eviction_rate_without_a_band_is_logged_and_skipped(
    rate: object, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"size": "a", "location": "eastus", "evictionRate": rate}
    assert azure._eviction_rate(row, {}) is None
    assert f"no eviction rate of a in eastus: {rate!r}" in caplog.text


def test_eviction_rates_replace_earlier_ones_of_the_day(con: duckdb.DuckDBPyConnection) -> None:
    for day, band in ((1, 5), (1, 10), (2, 0)):
        load_eviction_rates(con, [EvictionRate("azure", "eastus", "a", band)], date(2026, 11, day))
    kept = con.execute(
        "SELECT day(seen_on), band_low_percent FROM spot_eviction_rates ORDER BY ALL"
    ).fetchall()
    assert kept == [(1, 10), (2, 0)]


@pytest.mark.parametrize(
    ("name", "error"), [("AZURE_TENANT_ID", SourceError), ("HOME", NoCredentials)], ids=["some", "none"]
)
def test_failed_azure_login_is_an_error_if_one_is_configured(
    monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception]
) -> None:
    def login() -> Any:
        raise ClientAuthenticationError("no")

    for known in azure._MEANT:
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, "x")
    monkeypatch.setattr(azure, "azure_login", login)
    with pytest.raises(error):
        azure._token(Config.model_validate({}).azure)


def test_spot_prices_are_requested_only_for_aws_regions(
    monkeypatch: pytest.MonkeyPatch, tables: Tables
) -> None:
    requested: list[str] = []
    monkeypatch.setattr(spot, "node_regions", lambda _: ["us-central1", "eu-west-1"])
    monkeypatch.setattr(spot, "aws_login", lambda _: None)
    monkeypatch.setattr(spot, "_stored", lambda _, name, *__: requested.append(name))
    config, now = Config.model_validate({}), datetime(2026, 10, 1, tzinfo=UTC)
    list(spot.collect_spot(config, _store(tables), now, lambda _: None, providers=("aws",)))
    assert requested == [spot.aws.source_of("eu-west-1")]


def test_recently_silent_targets_are_queried_again(monkeypatch: pytest.MonkeyPatch, tables: Tables) -> None:
    now, newest = 100 * MS_PER_HOUR, 99 * MS_PER_HOUR
    requested = []

    def lagging(*arguments: Any) -> list[Any]:
        requested.append(arguments[-2:])
        return [_fake(last_ms=97 * MS_PER_HOUR)]

    monkeypatch.setattr(runs, "lagging_targets", lagging)
    monkeypatch.setattr(collector, "late_spans", lambda *_: [])
    source = _fake(_now_ms=now, newest_ms=newest, store=_store(tables), source="s", _has_more=lambda *_: True,
                   _server=_fake(late_hours=12, cluster_label="cluster"))  # fmt: skip
    assert collector.PrometheusCollector.late_spans(source) == [(97 * MS_PER_HOUR, now)]
    assert requested == [(88 * MS_PER_HOUR, newest - runs.SHORT_SILENCE_MS)]
