"""Remote read: requests, checksums, chunks, and collects from a server that streams them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gpucost.collect.base import TooMuch
from gpucost.collect.prometheus import remote_read
from gpucost.collect.prometheus.parse import Garbled
from gpucost.collect.prometheus.remote_read import ChunkReader, NotOffered, external_labels, request
from gpucost.config.model import PrometheusSource
from gpucost.periods import MS_PER_HOUR, Span
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer, SampleWindow, load_window
from tests.chunk_files import STALE, STREAMED, Sample, chunk, frame, number, series, text, varint
from tests.unit.fake_server import FULL, NAMES, T0, Fake, Question, Reply, blocks, collect, query

H = MS_PER_HOUR
SPAN = (T0, T0 + 8 * H)
SOURCE = PrometheusSource(url="http://p", cluster="c")
M = {"__name__": "m", "a": "x"}


def read(
    body: bytes, span: Span = SPAN, most: int = 100_000, *, is_state: bool = False, **labels: str
) -> ReadAnswer:
    return ChunkReader(SOURCE, "m", span, most, is_state, frozenset(labels.items())).answer(body)


def body(*chunks: Sequence[Sample], labels: Mapping[str, str] = M, encoding: int = 1) -> bytes:
    return frame(series(labels, map(chunk, chunks), encoding))


def samples(answer: ReadAnswer) -> list[tuple[int, int, bytes]]:
    """Return series, times and the bits of values."""
    return [
        (index, ts_ms, struct.pack(">d", value))
        for index, ts_ms, value in zip(answer.series_index, answer.ts_ms, answer.values, strict=True)
    ]


def bits(of: Sequence[Sample], index: int = 0) -> list[tuple[int, int, bytes]]:
    return [(index, ts_ms, struct.pack(">d", value)) for ts_ms, value in of]


# An answer of Prometheus 2.42, to the byte.
REAL = bytes.fromhex("""
9501b39e81a40a92010a0d0a085f5f6e616d655f5f12016d0a060a01611201780a090a01621204c3a92271126e0880888ba68f3410e099cea68f341801225c00
09809096cc9e683ff800000000000098754003e033ffeffc70017fe0000000000003001300e7f21e44003acee5dbfc831cfb4a2333d80da89013fff8cccccccc
ccd20001800000000000f00000000000e38a08fedc0000000000003e62d3dc710a3c0a0d0a085f5f6e616d655f5f12016d0a060a0161120179122308fb888ba6
8f3410fb888ba68f34180122110001f69196cc9e68401c00000000000000""")
REAL_SAMPLES = [
    (0, 1.5), (15_000, 1.5), (30_007, -3.0), (44_999, float("nan")), (60_000, 1e300), (123_000, 0.1), (138_000, 45.0),
    (153_000, 46.0), (1_100_000, float("inf")), (123, 7.0),
]  # fmt: skip


def test_answer_of_a_real_server_is_read() -> None:
    start = 1_790_812_800_000
    answer = read(REAL, (start, start + H))
    assert answer.series == [{**M, "b": 'é"q'}, {"__name__": "m", "a": "y"}]
    assert (answer.ts_ms - start).tolist() == [time for time, _ in REAL_SAMPLES]
    assert np.array_equal(answer.values, [value for _, value in REAL_SAMPLES], equal_nan=True)
    assert answer.series_index.tolist() == [0] * 9 + [1]
    # only [from, to)
    inside = read(REAL, (start + 15_000, start + 153_000))
    assert (inside.ts_ms - start).tolist() == [15_000, 30_007, 44_999, 60_000, 123_000, 138_000]


def test_every_changed_bit_is_found() -> None:
    for at in range(2, 60):
        for bit in (1, 128):
            with pytest.raises(Garbled):
                read(REAL[:at] + bytes([REAL[at] ^ bit]) + REAL[at + 1 :])
    second = len(REAL) - 67  # the beginning of the second frame
    for end in (1, 2, 3, 5, 6, second - 1, second + 1, second + 4, len(REAL) - 1):
        with pytest.raises(Garbled, match="middle of a frame"):
            read(REAL[:end])


# The largest and smallest number of each length, and the ones beyond.
CHANGES = [
    0,
    1,
    -1,
    8192,
    -8191,
    8193,
    -8192,
    65_536,
    -65_535,
    65_537,
    -65_536,
    524_288,
    -524_287,
    524_289,
    -524_288,
    2**40,
]


def test_all_lengths_of_changed_distances_are_read() -> None:
    ts_ms, distance = [T0, T0 + 600_000], 600_000
    for change in CHANGES:
        distance += change
        ts_ms.append(ts_ms[-1] + distance)
        distance -= change
        ts_ms.append(ts_ms[-1] + distance)
    expected = [(time, 1.0) for time in ts_ms]
    assert samples(read(body(expected), (0, 2**60))) == bits(expected)


VALUES = [
    0.0, -0.0, 1.0, 1.0, 5e-324, 1e-310, 2.0**1023, -1.0, 3.0, 0.1, float("inf"), 0.0, float(2**52 + 1), 100.0, 99.0, 98.5,
]  # fmt: skip


def test_all_windows_of_values_are_read() -> None:
    expected = [(T0 + 60_000 * at, value) for at, value in enumerate(VALUES)]
    assert samples(read(body(expected))) == bits(expected)
    close = [(T0, 1.0), (T0 + 1000, 1.0000000000000002)]
    assert samples(read(body(close))) == bits(close)
    # a chunk that was opened again may begin with the window of all 64 bits
    head = struct.pack(">H", 2) + chunk([(T0, 1.0)])[2:] + varint(1000)
    reopened = "10" + format(0x4000000000000001, "064b") + "000000"
    data = head + int(reopened, 2).to_bytes(9, "big")
    answer = read(frame(series(M, [data])))
    value = struct.unpack(">Q", struct.pack(">d", 1.0))[0] ^ 0x4000000000000001
    assert samples(answer)[1] == (0, T0 + 1000, struct.pack(">Q", value))


FLOATS = st.one_of(st.sampled_from([0.0, 1.0, 45.0, 46.0, -1.5, 1e-300]), st.floats(allow_nan=False))
GAPS = st.one_of(st.sampled_from([60_000, 15_000, 60_001]), st.integers(1, 2**34))
SERIES = st.lists(st.lists(st.tuples(GAPS, FLOATS), min_size=1, max_size=40), min_size=1, max_size=5)


@given(SERIES)
def test_decoder_reverses_the_encoder(described: list[list[tuple[int, float]]]) -> None:
    expected, frames = [], b""
    for at, steps in enumerate(described):
        time, found = T0, []
        for gap, value in steps:
            time += gap
            found.append((time, value))
        expected += bits(found, at)
        frames += body(found, labels={**M, "n": str(at)})
    assert samples(read(frames, (0, 2**62))) == expected


def test_stale_markers_are_left_out_and_other_nan_stay() -> None:
    nan = float("nan")
    found = [(T0, 1.0), (T0 + 60_000, STALE), (T0 + 120_000, nan), (T0 + 180_000, 1.0)]
    for is_state in (False, True):
        answer = read(body(found) + body([(T0, STALE)], labels={**M, "b": "y"}), is_state=is_state)
        assert answer.ts_ms.tolist() == [T0, T0 + 120_000, T0 + 180_000]
        assert np.array_equal(answer.values, [1.0, nan, 1.0], equal_nan=True)


def test_states_without_a_valid_sample_are_read() -> None:
    found = [(T0 + 60_000 * at * at, float("nan")) for at in range(4)]
    assert read(body(found), is_state=True).weights.sum() == 4


def test_frames_of_one_series_are_joined_and_other_fields_skipped() -> None:
    first, second = [(T0, 1.0), (T0 + 60_000, 2.0)], [(T0 + 120_000, 2.0)]
    other = frame(series({**M, "a": "y"}, [chunk([(T0, 5.0)])]) + number(2, 7) + text(9, b"new"))
    answer = read(body(first) + other + body(second))
    assert [labels["a"] for labels in answer.series] == ["x", "y"]
    assert samples(answer) == [*bits(first), *bits(second), *bits([(T0, 5.0)], 1)]
    assert not len(read(b"").ts_ms) and not len(read(b"", is_state=True).ts_ms)


def test_labels_without_value_and_external_labels_are_removed() -> None:
    labels = {**M, "cluster": "eu", "replica": "r0"}
    answer = read(body([(T0, 1.0)], labels=labels), cluster="eu", replica="r1")
    assert answer.series == [{**M, "replica": "r0"}]
    empty = text(1, text(1, text(1, b"e")) + ONE_CHUNK)
    assert read(frame(empty)).series == [{"__name__": "m", "e": ""}]


ONE_CHUNK = text(2, number(3, 1) + text(4, chunk([(T0, 1.0)])))
ONE_SERIES = series(M, [chunk([(T0, 1.0)])])
INVALID = {
    "a wrong checksum": varint(len(ONE_SERIES)) + bytes(4) + ONE_SERIES,
    "an oversized frame": varint(10**10) + b"\0\0\0\0abcdefg",
    "a length without end": b"\xff" * 12,
    "a message with too many fields": frame(number(3, 1) * 70_000),
    "a message that ends in a field": frame(b"\x0a\x7f\x0a\x01"),
    "a field of another kind": frame(b"\x0d\0\0\0\0"),
    "no header": frame(series(M, [b"\0"])),
    "no sample": frame(series(M, [b"\0\x01\x02"])),
    "more samples than bits": frame(series(M, [b"\xff\xff" + chunk([(T0, 1.0)])[2:]])),
    "bits that end early": frame(series(M, [chunk([(T0 + at * at, float(at)) for at in range(60)])[:-9]])),
    "an impossible window": frame(
        series(M, [b"\0\x02" + chunk([(T0, 1.0)])[2:] + varint(1) + b"\xff\xff" + bytes(9)])
    ),
    "labels that are not text": frame(text(1, text(1, text(1, b"\xff") + text(2, b"x")) + ONE_CHUNK)),
}  # fmt: skip


@pytest.mark.parametrize("why", INVALID)
def test_invalid_answer_is_garbled(why: str) -> None:
    with pytest.raises(Garbled):
        read(INVALID[why])


def test_unknown_encodings_and_large_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in (0, 2, 4):
        with pytest.raises(NotOffered, match=f"another encoding: {encoding}"):
            read(body([(T0, 1.0)], encoding=encoding))
    many = [(T0 + at * 1000, float(at)) for at in range(50)]
    for is_state in (False, True):
        with pytest.raises(TooMuch):
            read(body(many), most=49, is_state=is_state)
        with pytest.raises(TooMuch):
            read(body(many) + body(many, labels={**M, "b": "y"}), most=99, is_state=is_state)
        with pytest.raises(TooMuch, match="2 series"):
            read(body(many[:1]) + body(many[:1], labels={**M, "b": "y"}), most=99, is_state=is_state)
    # chunks that are decoded one after the other
    monkeypatch.setattr(remote_read, "_PART_CHUNKS", 1)
    assert len(read(body(many, many), most=100).ts_ms) == 100
    with pytest.raises(TooMuch, match="too many samples"):
        read(body(many, many), most=99)


def test_request_has_time_and_matchers() -> None:
    """Equality is sent as an expression: Prometheus drops a matcher equal to an external label, or to ""."""
    sent = request("m", ('a="x.y"', 'b=~"p|q"', 'c!="r"', 'd!~"s\\"t"', 'e=""'), SPAN)
    kinds = (
        ("__name__", "m", 0),
        ("a", r"x\.y", 2),
        ("b", "p|q", 2),
        ("c", "r", 1),
        ("d", 's"t', 3),
        ("e", "", 2),
    )
    matchers = b"".join(
        text(3, number(1, kind) + text(2, name.encode()) + text(3, value.encode()))
        for name, value, kind in kinds
    )
    message = text(1, number(1, SPAN[0]) + number(2, SPAN[1] - 1) + matchers) + number(2, 1)
    # snappy: the length, then one literal
    assert sent == varint(len(message)) + b"\xf4" + struct.pack("<H", len(message) - 1) + message


def test_matcher_of_another_form_is_refused() -> None:
    for matcher in ("a='x'", 'a="x",b="y"', 'a="x"}', ""):
        with pytest.raises(NotOffered, match="cannot send the matcher"):
            request("m", ('c="z"', matcher), SPAN)


def test_external_labels_are_read_from_settings() -> None:
    labels = '  external_labels:\n    cluster: eu-1\n    replica: "0 \\"x"\n'
    settings = f"global:\n  scrape_interval: 1m\n{labels}  query_log_file: a\nscrape_configs:\n"
    assert external_labels(settings) == {"cluster": "eu-1", "replica": '0 "x'}
    assert external_labels("global:\n  scrape_interval: 1m\n") == {}
    assert external_labels("global:\n  external_labels:\n    a: |-\n      b\n") is None


STORED = "SELECT * FROM states ORDER BY ALL", "SELECT * FROM scrape_gaps ORDER BY ALL"
JITTERS: dict[str, Callable[[int], int]] = {
    "even": lambda _: 0,
    "one in a hundred": lambda at: -7 * (at % 97 == 5),
    "all": lambda at: (at * 7919) % 31 - 15,
    "silent": lambda at: 1_500_000 * (at > 70),
}


@pytest.mark.parametrize("jitter", JITTERS)
def test_states_are_stored_alike_from_all_samples_and_from_few(jitter: str, tmp_path: Path) -> None:
    """Series of two targets that come, go and change; a chunk ends in the middle of an hour."""
    scrapes = [T0 + 13_000 + 60_000 * at + JITTERS[jitter](at) for at in range(400)]
    frames = b""
    for n in range(12):
        labels = {**M, "n": str(n), "job": "j", "instance": str(n % 2)}
        first, end = (0, 400) if n < 4 else (n * 11, 390 - n * 23)
        found = [(time, 1.0 + (n == 5 and time > scrapes[200])) for time in scrapes[first:end]]
        found = [one for one in found if n != 6 or one[0] % 7] + [(scrapes[end - 1] + 60_000, STALE)]
        frames += body(*(found[at : at + 97] for at in range(0, len(found), 97)), labels=labels)
    stored, kept = [], []
    for is_state in (False, True):
        answer = read(frames, is_state=is_state)
        kept.append(len(answer.ts_ms))
        store = Store(tmp_path / str(is_state))
        with store.write() as con:
            window = SampleWindow(SOURCE.url, 1, *SPAN, "cluster", "c", {}, [answer])
            assert load_window(con, window).rows == kept[0]
        stored.append([store.query(sql)[1] for sql in STORED])
    assert stored[0] == stored[1] and kept[1] * 3 < kept[0] * 2


def test_scrape_interval_is_the_median_over_all_series_of_a_target(tmp_path: Path) -> None:
    """Three series live for the first, longer distances of an uneven hour, and one for all of it."""
    scrapes = [T0 + at * 60_000 + (at * at) % 7 for at in range(10)]
    scrapes += [scrapes[-1] + at * 30_000 + (at * at) % 5 for at in range(1, 25)]
    frames = b""
    for n, end in enumerate((34, 10, 10, 10)):
        labels = {**M, "n": str(n), "job": "j", "instance": "i"}
        frames += body([(time, 1.0) for time in scrapes[:end]], labels=labels)
    distances = sorted([*np.diff(scrapes).tolist(), *3 * np.diff(scrapes[:10]).tolist()])
    for is_state in (False, True):
        store = Store(tmp_path / str(is_state))
        with store.write() as con:
            load_window(
                con, SampleWindow(SOURCE.url, 1, *SPAN, "cluster", "c", {}, [read(frames, is_state=is_state)])
            )
        assert store.query("SELECT gap_ms FROM scrape_gaps")[1] == [(distances[(len(distances) - 1) // 2],)]


@pytest.mark.parametrize(
    ("position", "invalid"), [(0, float("nan")), (1, 2147483632.0)], ids=["first", "second"]
)
def test_invalid_samples_leave_the_distances_of_uneven_scrapes(
    position: int, invalid: float, tmp_path: Path
) -> None:
    """The store leaves them out: then a series has other scrapes than the others of its target."""
    scrapes = [T0 + at * 60_000 + (at * 7919) % 31_000 for at in range(50)]
    frames = b""
    for n in range(2):
        found = [
            (time, invalid if n == position and at in (9, 30) else 1.0) for at, time in enumerate(scrapes)
        ]
        frames += body(found, labels={**M, "n": str(n), "job": "j", "instance": "i"})
    gaps = []
    for is_state in (False, True):
        store = Store(tmp_path / str(is_state))
        with store.write() as con:
            answer = read(frames, is_state=is_state)
            load_window(con, SampleWindow(SOURCE.url, 1, *SPAN, "cluster", "c", {}, [answer]))
        gaps.append(store.query("SELECT gap_ms FROM scrape_gaps")[1])
    assert gaps[0] == gaps[1]


def test_overlapping_chunks_of_states_are_read_raw() -> None:
    chunks = [
        [(T0 + 60_000 * at, 1.0) for at in range(5)],
        [(T0 + 60_000 * at + 30_000, 1.0) for at in range(3)],
    ]
    answer = read(body(*chunks), is_state=True)
    assert answer.weights.tolist() == [1] * 8


# A server that streams chunks.

GPU = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "node": "n1", "UUID": "GPU-1", "namespace": "ml", "job": "j"}
NODE = {"__name__": "kube_node_info", "node": "n1", "namespace": "ml", "job": "j"}
TIMES = [T0 + 60_000 * at for at in range(8 * 60)]


class Streaming:
    """Answers to remote read: samples each minute, and a list of the metrics that were read."""

    def __init__(self, fake: Fake, *, settings: str | None = None, **labels: str) -> None:
        self.names: list[str] = []
        self.labels = labels
        self.edit: Callable[[str, bytes], Reply | None] = lambda *_: None
        self.settings = settings
        fake.read, fake.trick = self.answer, self.trick

    def answer(self, sent: bytes) -> Reply:
        name = re.search(rb"__name__\x1a.([a-zA-Z_]+)", sent)[1].decode()  # type: ignore[index]
        self.names.append(name)
        start, end = (self._number(sent, tag) for tag in (b"\x08", b"\x10"))
        found = {one["__name__"]: one for one in (GPU, NODE)}.get(name)
        times = [time for time in TIMES if found and start <= time <= end]
        chunks = [[(time, 50.0) for time in times[at : at + 120]] for at in range(0, len(times), 120)]
        content = body(*chunks, labels={**(found or {}), **self.labels}) if chunks else b""
        return self.edit(name, content) or Reply(200, content, {"Content-Type": STREAMED})

    def _number(self, sent: bytes, tag: bytes) -> int:
        at, value, shift = sent.index(tag, 8) + 1, 0, 0
        while True:
            value |= (sent[at] & 127) << shift
            if sent[at] < 128:
                return value
            at, shift = at + 1, shift + 7

    def trick(self, question: Question) -> Reply | None:
        if "status/config" in question.path:
            document = {"status": "success", "data": {"yaml": self.settings}}
            return Reply(404) if self.settings is None else Reply(200, document)
        return None


def raw_queries(fake: Fake) -> list[str]:
    return [one for one in fake.queries if "ms]" in one]


def test_samples_are_collected_as_chunks(fake: Fake, tmp_path: Path) -> None:
    server = Streaming(fake)
    assert collect(fake, tmp_path).ok
    assert blocks(tmp_path) == FULL and not raw_queries(fake)
    assert server.names.count("gpucost_probe") == 1
    assert query(tmp_path, "SELECT gap_ms, count(*) FROM scrape_gaps GROUP BY ALL") == [(60_000, 8)]


REFUSALS: dict[str, Reply] = {
    "not found": Reply(404),
    "VictoriaMetrics": Reply(400, {"status": "error", "error": "unsupported path requested"}),
    "method": Reply(405),
    "not implemented": Reply(501),
    "page": Reply(200, "<html>"),
    "JSON": Reply(200, {"status": "success"}),
    "samples": Reply(200, b"\x00", {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}),
    "forbidden": Reply(403),
    "no mark of its end": Reply(200, b"x", {"Content-Type": STREAMED}, cut=1),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_server_without_remote_read_is_queried_as_json(why: str, fake: Fake, tmp_path: Path) -> None:
    asked: list[bytes] = []
    fake.read = lambda sent: asked.append(sent) or REFUSALS[why]  # type: ignore[func-returns-value]
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL and raw_queries(fake)
    assert len(asked) == (2 if why == "not implemented" else 1)  # the server may be busy


def test_remote_read_can_be_switched_off(fake: Fake, tmp_path: Path) -> None:
    server = Streaming(fake)
    assert collect(fake, tmp_path, remote_read=False).ok and blocks(tmp_path) == FULL
    assert not server.names


def test_another_encoding_is_read_as_json(
    fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Streaming(fake)
    other = frame(series(GPU, [chunk([(T0, 1.0)])], encoding=4))
    server.edit = lambda name, _: Reply(200, other, {"Content-Type": STREAMED}) if "DCGM" in name else None
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL
    assert "another encoding: 4; reading JSON instead" in caplog.text


@pytest.mark.parametrize("fault", ["cut", "byte", "frame", "busy"])
def test_broken_answer_is_asked_again(fault: str, fake: Fake, tmp_path: Path) -> None:
    server, faults = Streaming(fake), [fault] * 2

    def edit(name: str, content: bytes) -> Reply | None:
        if "DCGM" not in name or not faults:
            return None
        faults.pop()
        headers = {"Content-Type": STREAMED}
        return {
            "cut": Reply(200, content, {**headers, "Content-Length": str(len(content))}, cut=5),
            "byte": Reply(200, content[:-20] + b"\x55" + content[-19:], headers),
            "frame": Reply(200, content[:-5], headers),
            "busy": Reply(503),
        }[fault]

    server.edit = edit
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL and not raw_queries(fake)


def test_window_with_a_broken_answer_is_not_loaded(fake: Fake, tmp_path: Path) -> None:
    server = Streaming(fake)
    server.edit = lambda name, content: (
        Reply(200, content[:-5], {"Content-Type": STREAMED}) if "DCGM" in name else None
    )
    result = collect(fake, tmp_path)
    assert [one.error for one in result.failed_windows] == [
        f"{fake.url}: the answer ends in the middle of a frame (tried 3 times)"
    ]
    assert query(tmp_path, "SELECT count(*) FROM loads") == [(0,)]


def test_marked_query_shows_partial_windows(fake: Fake, tmp_path: Path) -> None:
    server = Streaming(fake)

    def trick(question: Question) -> Reply | None:
        if question.query == "label/__name__" and "match" in question.path:
            return Reply(200, {"status": "success", "data": NAMES, "warnings": ["store s1 is down"]})
        return server.trick(question)

    fake.trick = trick
    result = collect(fake, tmp_path)
    assert "gave a partial answer: store s1 is down" in result.failed_windows[0].error
    assert collect(fake, tmp_path, partial_response="accept").ok and blocks(tmp_path) == FULL
    assert query(tmp_path, "SELECT DISTINCT is_partial FROM asked_hours") == [(True,)]


SETTINGS = "global:\n  external_labels:\n    replica: r0\n"


def test_external_labels_are_removed_or_make_remote_read_unusable(fake: Fake, tmp_path: Path) -> None:
    Streaming(fake, settings=SETTINGS, replica="r0")
    assert collect(fake, tmp_path).ok and not raw_queries(fake)
    assert query(tmp_path, "SELECT count(*) FROM series WHERE labels['replica'] IS NOT NULL") == [(0,)]
    # the value of another label: series could have it themselves
    server = Streaming(fake, settings=SETTINGS.replace("r0", "ml").replace("replica", "namespace"))
    assert collect(fake, tmp_path).ok and raw_queries(fake)
    assert server.names == ["gpucost_probe"]
    # an escape of YAML that JSON lacks
    Streaming(fake, settings=SETTINGS.replace("r0", '"\\x1b"'))
    assert collect(fake, tmp_path).ok and raw_queries(fake)


def test_server_without_the_marked_query_is_read_as_json(fake: Fake, tmp_path: Path) -> None:
    server = Streaming(fake)

    def trick(question: Question) -> Reply | None:
        if question.query == "label/__name__":
            return Reply(404)
        return server.trick(question)

    fake.trick = trick
    assert collect(fake, tmp_path).ok and raw_queries(fake) and not server.names
