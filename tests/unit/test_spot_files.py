"""Files of spot prices: every spelling of them, each fact once, and nothing of a file that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.spot import SpotResult, import_spot
from gpucost.collect.spot.base import region_of_zone
from gpucost.errors import DataError, GpucostError, UsageError
from gpucost.periods import to_ms
from gpucost.store.connection import Store
from tests.unit.spot import FEED_HEAD, answer, at, change, feed_line, write

DAYS = [change("2026-09-01", "1.1"), change("2026-09-02", "1.2"), change("2026-09-03", "1.3")]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.duckdb")


def rows(store: Store, columns: str = "zone, at_ms, price_per_hour::DOUBLE") -> list[Any]:
    with store.read() as con:
        return sorted(con.table("spot_prices").project(columns).fetchall(), key=str)


def counts(result: SpotResult) -> tuple[int, int, int]:
    assert result.load is not None
    return result.load.new, result.load.known, result.load.corrected


def test_an_answer_becomes_rows_and_a_load(store: Store, tmp_path: Path) -> None:
    (result,) = import_spot(store, [write(tmp_path / "history.json", *DAYS)])
    assert counts(result) == (3, 0, 0)
    assert rows(store)[0] == ("us-east-1a", to_ms(at("2026-09-01")), 1.1)
    shown = "provider, region, instance_type, product, instance_id, to_ms, currency, source"
    expected = ("aws", "us-east-1", "p3.2xlarge", "Linux/UNIX", "", None, "USD", "history.json us-east-1")
    assert set(rows(store, shown)) == {expected}
    with store.read() as con:
        loads = con.execute("SELECT kind, source, from_ms, to_ms, rows FROM loads").fetchall()
    assert loads == [
        ("spot", "history.json us-east-1", to_ms(at("2026-09-01")), to_ms(at("2026-09-03")) + 1, 3)
    ]


@pytest.mark.parametrize(
    "text",
    [
        answer(DAYS[:1], "t1") + answer(DAYS[1:]),
        answer(DAYS[:2], "t1") + "\n\n" + answer(DAYS[2:]),
        json.dumps(DAYS),
        json.dumps([{"SpotPriceHistory": DAYS[:2]}, {"SpotPriceHistory": DAYS[2:]}]),
        json.dumps(DAYS[:1]) + json.dumps(DAYS[1:]),
        "\ufeff" + answer(DAYS),
        answer([day | {"Timestamp": day["Timestamp"].replace(".000Z", "+00:00")} for day in DAYS]),
        answer([day | {"SpotPrice": float(day["SpotPrice"])} for day in DAYS]),
        answer([day | {"AvailabilityZoneId": "use1-az6"} for day in DAYS]),
    ],
    ids=["pages", "lines", "bare", "list", "two lists", "bom", "offset", "numbers", "more fields"],
)
def test_spellings_of_the_same_answers(store: Store, tmp_path: Path, text: str) -> None:
    for name, data in (("a.json", text.encode()), ("b.json.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
    first, second = import_spot(store, [tmp_path / "a.json", tmp_path / "b.json.gz"])
    assert counts(first) == (3, 0, 0)
    assert counts(second) == (0, 3, 0)
    assert [row[2] for row in rows(store)] == [1.1, 1.2, 1.3]
    assert not first.notes


def test_overlapping_snapshots_load_each_fact_once(store: Store, tmp_path: Path) -> None:
    snapshots = tmp_path / "snapshots"
    write(snapshots / "us-east-1" / "1.json", *DAYS[:2])
    write(snapshots / "us-east-1" / "2.json", *DAYS[1:])
    (snapshots / "LICENSE").write_text("MIT\n")
    (result,) = import_spot(store, [snapshots])
    assert counts(result) == (3, 1, 0)
    assert result.notes == ["passed over what holds no spot prices: LICENSE"]
    assert counts(import_spot(store, [snapshots])[0]) == (0, 4, 0)
    assert len(rows(store)) == 3
    with store.read() as con:
        assert con.execute("SELECT count(*) FROM loads").fetchall() == [(1,)]


def test_a_fact_told_differently_is_corrected(store: Store, tmp_path: Path) -> None:
    import_spot(store, [write(tmp_path / "a.json", *DAYS)])
    (result,) = import_spot(store, [write(tmp_path / "b.json", change("2026-09-02", "9.9"), DAYS[0])])
    assert counts(result) == (0, 1, 1)
    assert [row[2] for row in rows(store)] == [1.1, 9.9, 1.3]


def test_an_answer_that_goes_on_is_noted(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(answer(DAYS, "eyJ2IjoiMiJ9"))
    assert "ends with a NextToken" in import_spot(store, [tmp_path / "a.json"])[0].notes[0]


def test_the_data_feed_with_tabs_and_with_spaces(store: Store, tmp_path: Path) -> None:
    tabs = FEED_HEAD + feed_line("2026-09-01 07:13:47", market="2.001 USD") + "\n"
    spaces = FEED_HEAD + feed_line("2026-09-01 08:13:47", market="2.002 USD").replace("\t", "       ")
    (tmp_path / "111122223333.2026-09-01-07.001.b959dbc6.gz").write_bytes(gzip.compress(tabs.encode()))
    (tmp_path / "spaces.txt").write_text(spaces)
    results = import_spot(store, sorted(tmp_path.glob("*.*"))[:2])
    assert [counts(result) for result in results] == [(1, 0, 0), (1, 0, 0)]
    hour = 3_600_000
    start = to_ms(at("2026-09-01", 7)) + 13 * 60_000 + 47_000
    columns = (
        "region, zone, instance_type, product, instance_id, at_ms, to_ms, price_per_hour::DOUBLE, currency"
    )
    assert rows(store, columns) == [
        ("us-west-2", "", "p3.2xlarge", "Linux/UNIX", "i-0abc", start, start + hour, 2.001, "USD"),
        ("us-west-2", "", "p3.2xlarge", "Linux/UNIX", "i-0abc", start + hour, start + 2 * hour, 2.002, "USD"),
    ]


def test_words_of_the_data_feed(store: Store, tmp_path: Path) -> None:
    when = "2026-09-01 07:00:00"
    lines = [
        feed_line(when, "SpotUsage", instance="i-1"),
        feed_line(when, "SpotUsage:p5.48xlarge", instance="i-2", operation="RunInstances"),
        feed_line(when, "EU-SpotUsage:p5.48xlarge", instance="i-3", operation="RunInstances:0002:SV002"),
        feed_line(when, "APS3-SpotUsage:p5.48xlarge", instance="i-4", operation="RunInstances:000g"),
        feed_line(when, "XYZ9-SpotUsage:p5.48xlarge", instance="i-5", operation="RunInstances:0010"),
        feed_line(when, "USE1-SpotUsage:p5.48xlarge", instance="i-6", operation="RunInstances:00zz"),
        feed_line(when, instance="i-7", market="3.0 USD", version="2"),
        feed_line(when, instance="i-7", market="2.0 USD", version="1"),
    ]
    (tmp_path / "feed").write_text(FEED_HEAD + "\n".join(lines))
    import_spot(store, [tmp_path / "feed"])
    assert rows(store, "instance_id, region, instance_type, product, price_per_hour::DOUBLE") == [
        ("i-1", "us-east-1", "m1.small", "Linux/UNIX", 1.234),
        ("i-2", "us-east-1", "p5.48xlarge", "Linux/UNIX", 1.234),
        ("i-3", "eu-west-1", "p5.48xlarge", "Windows", 1.234),
        ("i-4", "ap-south-1", "p5.48xlarge", "SUSE Linux", 1.234),
        ("i-5", "XYZ9", "p5.48xlarge", "Red Hat Enterprise Linux", 1.234),
        ("i-6", "us-east-1", "p5.48xlarge", "RunInstances:00zz", 1.234),
        ("i-7", "us-west-2", "p3.2xlarge", "Linux/UNIX", 3.0),  # the corrected version
    ]


HALF = answer(DAYS)[:-200]
GOOD_LINE = feed_line("2026-09-01 07:00:00")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HALF, "breaks off in line"),
        (answer(DAYS)[:-1], "breaks off in line"),
        ("{not json}", "line 1 is no JSON"),
        ('{"ResultsByTime": []}', "no SpotPriceHistory"),
        ("", "is empty"),
        ("a,b\n1,2\n", "neither answers nor a data feed"),
        (answer([*DAYS, change("2026-09-04", "-1")]), "row 4: SpotPrice '-1' is no price above zero"),
        (answer([*DAYS, change("2026-09-04", "0.000000")]), "row 4: SpotPrice '0.000000'"),
        (answer([*DAYS, change("2026-09-04", "NaN")]), "row 4: SpotPrice 'NaN'"),
        (
            answer([*DAYS, change("2026-13-04", "1")]),
            "row 4: Timestamp '2026-13-04T00:00:00.000Z' is no moment",
        ),
        (
            answer([*DAYS, change("2026-09-04", "1", zone="moon")]),
            "row 4: AvailabilityZone 'moon' names no region",
        ),
        (answer([*DAYS, {"InstanceType": "p3.2xlarge"}]), "row 4: AvailabilityZone is missing"),
        (answer([*DAYS, 7]), 'row 4: "7" is no change of a price'),  # type: ignore[list-item]
        (FEED_HEAD + GOOD_LINE + "\n" + GOOD_LINE[:-30], "line 4: 9 fields are expected"),
        (FEED_HEAD + GOOD_LINE.replace("1.234", "free"), "line 3: MarketPrice 'free'"),
        (
            FEED_HEAD + GOOD_LINE.replace("SpotUsage", "BoxUsage"),
            "line 3: UsageType 'USW2-BoxUsage:p3.2xlarge'",
        ),
        (FEED_HEAD.replace("Charge ", "") + GOOD_LINE, "line 2: the fields are not"),
    ],
)
def test_nothing_is_loaded_where_one_file_cannot_be_used(
    store: Store, tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path / "dir" / "1.json", *DAYS)
    (tmp_path / "dir" / "2.json").write_text(text)
    with pytest.raises(DataError) as caught:
        import_spot(store, [tmp_path / "dir"])
    assert message in caught.value.message
    assert "2.json" in caught.value.message
    assert caught.value.fix
    assert not store.exists


def test_half_a_gz_and_bytes(store: Store, tmp_path: Path) -> None:
    (tmp_path / "half.gz").write_bytes(gzip.compress(answer(DAYS * 50).encode())[:-20])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00{")
    for name, message in (("half.gz", "breaks off"), ("bytes.json", "is no text")):
        with pytest.raises(DataError, match=message):
            import_spot(store, [tmp_path / name])


def test_paths_that_hold_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or directory"):
        import_spot(store, [write(tmp_path / "good.json", *DAYS), tmp_path / "missing.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(GpucostError, match="holds no file of spot prices"):
        import_spot(store, [tmp_path / "empty"])
    assert not store.exists


def test_a_zone_names_its_region() -> None:
    for zone, region in (
        ("us-east-1c", "us-east-1"),
        ("us-gov-west-1a", "us-gov-west-1"),
        ("us-west-2-lax-1a", "us-west-2"),
    ):
        assert region_of_zone(zone) == region
    for zone, region in (("us-east-1-wl1-bos-wlz-1", "us-east-1"), ("ap-southeast-4b", "ap-southeast-4")):
        assert region_of_zone(zone) == region
    assert region_of_zone("us-east-1") is None and region_of_zone("moon") is None


def test_the_command_tells_counts_and_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.json", *DAYS)

    def collect(*words: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["collect", "spot", *words])
        return result.exit_code, result.stdout, result.stderr

    spans = "of 2026-09-01T00:00:00Z .. 2026-09-03T00:00:00Z"
    assert collect("a.json") == (0, f"a.json: 3 spot prices {spans}: 3 new, 0 already known\n", "")
    assert collect("a.json") == (0, f"a.json: 3 spot prices {spans}: 0 new, 3 already known\n", "")
    assert collect("a.json", "-q") == (0, "", "")
    (tmp_path / "half.json").write_text(HALF)
    assert collect("half.json")[0] == 1
    assert collect("nothing")[0] == 2
