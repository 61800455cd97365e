"""Files of spot prices: all their spellings, each fact once, and no data from a batch with an unusable file."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.spot import SpotResult, import_spot
from gpucost.collect.spot.base import region_of_zone
from gpucost.errors import DataError, GpucostError, UsageError
from gpucost.periods import to_ms
from gpucost.store.connection import Store
from tests.text_tables import table, text_rows, words
from tests.unit.command import call
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
    return result.load.new, result.load.old, result.load.corrected


def test_answer_becomes_rows_and_a_load(store: Store, tmp_path: Path) -> None:
    (result,) = import_spot(store, [write(tmp_path / "history.json", *DAYS)])
    first, last = to_ms(at("2026-09-01")), to_ms(at("2026-09-03"))
    assert (counts(result), rows(store)[0]) == ((3, 0, 0), ("us-east-1a", first, 1.1))
    shown = "provider, region, instance_type, product, instance_id, to_ms, currency, source"
    expected = ("aws", "us-east-1", "p3.2xlarge", "Linux/UNIX", "", None, "USD", "history.json us-east-1")
    assert set(rows(store, shown)) == {expected}
    with store.read() as con:
        loads = con.execute("SELECT kind, source, from_ms, to_ms, rows FROM loads").fetchall()
    assert loads == [("spot", "history.json us-east-1", first, last + 1, 3)]


SPELLINGS = {
    "pages": answer(DAYS[:1], "t1") + answer(DAYS[1:]),
    "lines": answer(DAYS[:2], "t1") + "\n\n" + answer(DAYS[2:]),
    "bare": json.dumps(DAYS),
    "list": json.dumps([{"SpotPriceHistory": DAYS[:2]}, {"SpotPriceHistory": DAYS[2:]}]),
    "two lists": json.dumps(DAYS[:1]) + json.dumps(DAYS[1:]),
    "bom": "\ufeff" + answer(DAYS),
    "offset": answer(DAYS).replace(".000Z", "+00:00"),
    "numbers": re.sub('"(1.[123])"', r"\1", answer(DAYS)),
    "more fields": answer([day | {"AvailabilityZoneId": "use1-az6"} for day in DAYS]),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_all_spellings_of_an_answer_give_the_same_rows(store: Store, tmp_path: Path, name: str) -> None:
    text = SPELLINGS[name]
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(text.encode()))
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
    (result,), (again,) = (import_spot(store, [snapshots]) for _ in range(2))
    assert (counts(result), counts(again), len(rows(store))) == ((3, 1, 0), (0, 4, 0), 3)
    assert result.notes == ["skipped files without spot prices: LICENSE"]
    with store.read() as con:
        assert con.execute("SELECT count(*) FROM loads").fetchall() == [(1,)]
    # a changed fact is corrected, and an incomplete answer is noted
    (tmp_path / "b.json").write_text(answer([change("2026-09-02", "9.9"), DAYS[0]], "eyJ2IjoiMiJ9"))
    (corrected,) = import_spot(store, [tmp_path / "b.json"])
    assert (counts(corrected), [row[2] for row in rows(store)]) == ((0, 1, 1), [1.1, 9.9, 1.3])
    assert "ends with a NextToken" in corrected.notes[0]


def test_data_feed_with_tabs_or_spaces(store: Store, tmp_path: Path) -> None:
    tabs = FEED_HEAD + feed_line("2026-09-01 07:13:47", market="2.001 USD") + "\n"
    spaces = FEED_HEAD + feed_line("2026-09-01 08:13:47", market="2.002 USD").replace("\t", "       ")
    (tmp_path / "111122223333.2026-09-01-07.001.b959dbc6.gz").write_bytes(gzip.compress(tabs.encode()))
    (tmp_path / "spaces.txt").write_text(spaces)
    results = import_spot(store, sorted(tmp_path.glob("*.*"))[:2])
    assert [counts(result) for result in results] == [(1, 0, 0), (1, 0, 0)]
    hour = 3_600_000
    start = to_ms(at("2026-09-01", 7)) + 13 * 60_000 + 47_000
    columns = (
        "at_ms, to_ms, price_per_hour::DOUBLE, region, zone, instance_type, product, instance_id, currency"
    )
    facts = ("us-west-2", "", "p3.2xlarge", "Linux/UNIX", "i-0abc", "USD")
    first, second = ((start, start + hour, 2.001), (start + hour, start + 2 * hour, 2.002))
    assert rows(store, columns) == [(*first, *facts), (*second, *facts)]


def test_terms_of_the_data_feed(store: Store, tmp_path: Path) -> None:
    # the second of two versions of a line corrects the first
    lines = table("""
        usage                      | operation              | market    | v | region     | type        | product
        SpotUsage                  | RunInstances:SV001     | 1.234 USD | 1 | us-east-1  | m1.small    | Linux/UNIX
        SpotUsage:p5.48xlarge      | RunInstances           | 1.234 USD | 1 | us-east-1  | p5.48xlarge | Linux/UNIX
        EU-SpotUsage:p5.48xlarge   | RunInstances:0002:SV002| 1.234 USD | 1 | eu-west-1  | p5.48xlarge | Windows
        APS3-SpotUsage:p5.48xlarge | RunInstances:000g      | 1.234 USD | 1 | ap-south-1 | p5.48xlarge | SUSE Linux
        XYZ9-SpotUsage:p5.48xlarge | RunInstances:0010      | 1.234 USD | 1 | XYZ9       | p5.48xlarge | Red Hat Enterprise Linux
        USE1-SpotUsage:p5.48xlarge | RunInstances:00zz      | 1.234 USD | 1 | us-east-1  | p5.48xlarge | RunInstances:00zz
        USW2-SpotUsage:p3.2xlarge  | RunInstances:SV001     | 3.0 USD   | 2 | us-west-2  | p3.2xlarge  | Linux/UNIX""")
    feed = [
        feed_line("2026-09-01 07:00:00", row["usage"], instance=f"i-{number}", operation=row["operation"],
                  market=row["market"], version=row["v"])
        for number, row in enumerate(lines)
    ]  # fmt: skip
    feed.append(feed_line("2026-09-01 07:00:00", instance="i-6", market="2.0 USD", version="1"))
    (tmp_path / "feed").write_text(FEED_HEAD + "\n".join(feed))
    import_spot(store, [tmp_path / "feed"])
    assert rows(store, "instance_id, region, instance_type, product, price_per_hour::DOUBLE") == [
        (f"i-{number}", row["region"], row["type"], row["product"], float(row["market"].split()[0]))
        for number, row in enumerate(lines)
    ]


HALF = answer(DAYS)[:-200]
GOOD_LINE = feed_line("2026-09-01 07:00:00")


# errors in a price change, and in a line of a feed
WRONG = """
price=-1                     | SpotPrice '-1' is not a price above zero
price=0.000000               | SpotPrice '0.000000'
price=NaN                    | SpotPrice 'NaN'
when=2026-13-04 price=1      | Timestamp '2026-13-04T00:00:00.000Z' is not a time
price=1 zone=moon            | AvailabilityZone 'moon' contains no region"""
WRONG_LINES = """
1.234                        | free     | MarketPrice 'free'
SpotUsage                    | BoxUsage | UsageType 'USW2-BoxUsage:p3.2xlarge'"""
UNUSABLE: list[tuple[str | bytes, str]] = [
    (HALF, "is not complete JSON: "),
    (answer(DAYS)[:-1], "is not complete JSON: "),
    ("{not json}", "line 1 column 2"),
    ('{"ResultsByTime": []}', "without SpotPriceHistory"),
    ("", "is empty"),
    ("a,b\n1,2\n", "neither answers nor a data feed"),
    (answer([*DAYS, {"InstanceType": "p3.2xlarge"}]), "row 4: AvailabilityZone is missing"),
    (answer([*DAYS, 7]), 'row 4: "7" is not a price change'),  # type: ignore[list-item]
    (f"{FEED_HEAD}{GOOD_LINE}\n{GOOD_LINE[:-30]}", "line 4: expected 9 fields"),
    (FEED_HEAD.replace("Charge ", "") + GOOD_LINE, "line 2: the fields are not"),
    (gzip.compress(answer(DAYS * 50).encode())[:-20], "is cut off"),
    (b"\xff\xfe\x00{", "is not text"),
]
for wrong, message in text_rows(WRONG):
    UNUSABLE.append((answer([*DAYS, change(**{"when": "2026-09-04"} | words(wrong))]), f"row 4: {message}"))
for old, new, message in text_rows(WRONG_LINES):
    UNUSABLE.append((FEED_HEAD + GOOD_LINE.replace(old, new), f"line 3: {message}"))


@pytest.mark.parametrize(("text", "message"), UNUSABLE)
def test_one_unusable_file_prevents_the_load(
    store: Store, tmp_path: Path, text: str | bytes, message: str
) -> None:
    write(tmp_path / "dir" / "1.json", *DAYS)
    (tmp_path / "dir" / "2.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError) as caught:
        import_spot(store, [tmp_path / "dir"])
    assert message in caught.value.message and "2.json" in caught.value.message
    assert caught.value.fix and not store.exists


def test_paths_without_prices_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        import_spot(store, [write(tmp_path / "good.json", *DAYS), tmp_path / "missing.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(GpucostError, match="contains no files of spot prices"):
        import_spot(store, [tmp_path / "empty"])
    assert not store.exists


def test_region_is_read_from_the_zone() -> None:
    zones = (
        "us-east-1c us-gov-west-1a us-west-2-lax-1a us-east-1-wl1-bos-wlz-1 ap-southeast-4b us-east-1 moon"
    )
    regions = "us-east-1 us-gov-west-1 us-west-2 us-east-1 ap-southeast-4 None None"
    assert " ".join(str(region_of_zone(zone)) for zone in zones.split()) == regions


def test_command_prints_counts_and_exit_codes(nowhere: Path) -> None:
    write(nowhere / "a.json", *DAYS)
    (nowhere / "half.json").write_text(HALF)

    prices = "a.json: 3 spot prices of 2026-09-01T00:00:00Z .. 2026-09-03T00:00:00Z"
    for counts in ("3 new, 0 already known", "0 new, 3 already known"):
        assert call("collect", "spot", "a.json")[0] == f"{prices}: {counts}\n"
    for file, code in (("half.json", 1), ("nothing", 2)):
        call("collect", "spot", file, code=code)
