"""Label values of any characters, asked for from real servers, which are told what they do not know."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from gpucost.collect.prometheus.client import PrometheusClient
from gpucost.collect.prometheus.queries import one_of
from gpucost.config.model import PrometheusSource
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop, write_blocks
from tests.services.test_collect_prometheus import victoria  # noqa: F401 (a fixture)

# ruff: noqa: S310 (all addresses are loopback)
pytestmark = pytest.mark.services

AT = 1_790_000_000
VALUES = [
    "ml", "m.", "a b", 'q"b', "back\\slash", "n\nl", "n\\nl", "tab\tbed", "x.y*", "é☃𝄞", "a|b", "-~#&", "(a", "[b", "{c}", "^d$",
    "\u2028", "\x7f", "'", "`", "%41", "a,b=~\"c\"",
]  # fmt: skip


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    require_prometheus()

    def write(out: TextIO) -> None:
        print("# TYPE m gauge", file=out)
        for number, value in enumerate(VALUES):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            print(f'm{{pod="{escaped}"}} {number} {AT}', file=out)
        print("# EOF", file=out)

    write_blocks(write, tmp_path / "data")
    port = free_port()
    process = start_prometheus(tmp_path / "data", port)
    yield f"http://127.0.0.1:{port}"
    stop(process)


def check(url: str) -> None:
    for mode in ("refuse", "accept"):
        client = PrometheusClient(PrometheusSource(url=url, partial_response=mode))

        def result(values: list[str], client: PrometheusClient = client) -> set[tuple[str, float]]:
            answer = client.matrix("m", f"m{{{one_of('pod', values)}}}[3600000ms]", AT * 1000 + 1000)
            assert not answer.is_partial
            rows = zip(answer.series_index.tolist(), answer.values.tolist(), strict=True)
            return {(answer.series[index]["pod"], number) for index, number in rows}

        for number, value in enumerate(VALUES):
            assert result([value]) == {(value, number)}
        assert result(VALUES) == {(value, number) for number, value in enumerate(VALUES)}
        assert result(VALUES * 30) == result(VALUES)  # as a form
        assert client.label_values("pod", AT * 1000 - 1000, AT * 1000 + 1000) == set(VALUES)
        assert client.value("count(m)", AT * 1000) == len(VALUES)
        assert client.get("labels", {"start": str(AT - 1), "end": str(AT + 1)}) and not client.warnings
        client.close()


def test_prometheus(prometheus: str) -> None:
    check(prometheus)


def test_victoria_metrics(victoria: str) -> None:  # noqa: F811
    lines = [
        json.dumps({"metric": {"__name__": "m", "pod": value}, "values": [number], "timestamps": [AT * 1000]})
        for number, value in enumerate(VALUES)
    ]
    request = urllib.request.Request(victoria + "/api/v1/import", "\n".join(lines).encode(), method="POST")
    urllib.request.urlopen(request, timeout=30).close()
    urllib.request.urlopen(victoria + "/internal/force_flush", timeout=30).close()
    check(victoria)
