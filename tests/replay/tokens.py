"""A fleet that serves models, and what its engines count: vLLM, SGLang, pools of prefill and decode, two models in one pod,
a service that comes and goes, counters that start over. Days are those of Berlin; money is exact: each GPU costs $1 an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

import numpy as np

from tests.replay.cases.words import HEADER, at, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Recorder

HOURS = 50
BOOK = f"{HEADER}\n,,,g6.12xlarge,on_demand,4.00,USD,\n"
STEP = 300  # seconds between the looks at a counter
#: The mapping of SGLang's prompt tokens is one's own, and says what they weigh; two others match nothing.
SETTINGS = """
[serving]
prefill = ["*-prefill"]
decode = ["Deployment/pair-decode"]

[[units]]
name = "sglang-prompt-tokens"
unit = "prompt_token"
metric = "sglang:prompt_tokens_total"
model_label = "model_name"
prompt_weight = 0.5

[[units]]
name = "answers"
unit = "answer"
metric = "vllm:prompt_token_total"

[[units]]
name = "elsewhere"
unit = "prompt_token"
metric = "vllm:prompt_tokens_total"
match = { job = ["elsewhere"] }
"""


@dataclass(frozen=True)
class Work:
    """A counter of a pod: so much is added at each look within (from, to, amount), in hours; `falls` are hours from which it
    goes on from another value. It is seen within `seen`; `first` is what it shows then, `lag` seconds after the hour."""

    pod: str
    namespace: str
    metric: str
    unit: str
    model: str
    seen: tuple[float, float]
    adds: tuple[tuple[float, float, int], ...]
    falls: tuple[tuple[float, int], ...] = ()
    first: int = 0
    lag: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    weight: str = "0.25"

    def samples(self) -> list[tuple[int, int]]:
        """What is seen of it: Unix seconds and values."""
        found = []
        value, falls = self.first, dict(self.falls)
        for second in range(at(self.seen[0]) + self.lag, at(self.seen[1]), STEP):
            hour = (second - self.lag - at(0)) / 3600
            if found:
                value += next((amount for start, end, amount in self.adds if start <= hour < end), 0)
            value = falls.get(hour, value)
            found.append((second, value))
        return found


_VLLM = {
    "prompt_token": "vllm:prompt_tokens_total",
    "generation_token": "vllm:generation_tokens_total",
    "cached_token": "vllm:prefix_cache_hits_total",
    "prefill_second": "vllm:request_prefill_time_seconds_sum",
    "decode_second": "vllm:request_decode_time_seconds_sum",
}
_SGLANG = {
    "prompt_token": "sglang:prompt_tokens_total",
    "generation_token": "sglang:generation_tokens_total",
    "cached_token": "sglang:cached_tokens_total",
}
_ALL = (0.0, float(HOURS))


def _counts(
    pod_name: str,
    namespace: str,
    model: str,
    spans: list[tuple[float, float]],
    amounts: dict[str, int],
    seen: tuple[float, float] = _ALL,
    names: dict[str, str] = _VLLM,
    **more: object,
) -> list[Work]:
    """Counters of a pod whose amounts grow from span to span."""
    return [
        Work(
            pod_name, namespace, names[unit], unit, model, seen,
            tuple((start, end, amount * (3 + number) // 3) for number, (start, end) in enumerate(spans)),
            **more,  # type: ignore[arg-type]
        )
        for unit, amount in amounts.items()
    ]  # fmt: skip


def works() -> list[Work]:
    """Every counter of the fleet."""
    chat = {
        "prompt_token": 40_001, "generation_token": 9_007, "cached_token": 11_003, "prefill_second": 13, "decode_second": 131,
    }  # fmt: skip
    old = {"prompt_token": 7_013, "generation_token": 3_001}
    pair = {"prompt_token": 90_001, "generation_token": 20_011}
    cached = {"cached_token": 30_001}
    mistral = {"prompt_token": 30_011, "generation_token": 8_009}
    base, adapter = (
        {"prompt_token": prompt, "generation_token": generated}
        for prompt, generated in ((25_013, 701), (1_009, 4_003))
    )
    unused = dict.fromkeys(old, 0)
    days = [(2.0, 21.5), (22.5, 31.0), (46.0, 49.0)]
    found = [
        # its container starts over at 20 h, another pod takes its place at 26 h
        *_counts("chat-0", "serve", "qwen", [(1, 18), (20, 26)], chat, (0, 26), falls=((20, 0),), first=1_000_000, lag=41),
        *_counts("chat-1", "serve", "qwen", [(26, 40), (45, 50)], chat, (26.25, 50), first=17),
        # engine v0, which counts no tokens of the cache; a counter that goes back to less, but not to nothing
        *_counts("old-0", "serve", "llama", [(0, 12), (23, 47)], old, falls=((9.5, 5_001), (30, 77)), first=900_000),
        *_counts("sgl-0", "serve", "mistral", days, mistral, names=_SGLANG, weight="0.5"),
        *(
            work
            for source, count in (("device", 5_003), ("host", 1_009))
            for work in _counts(
                "sgl-0", "serve", "mistral", days, {"cached_token": count}, names=_SGLANG, labels=(("cache_source", source),)
            )
        ),
        # the same work by two pools, the second of which counts the prompt again, and by one that does both
        *_counts("pair-prefill-0", "split", "big", days, {"prompt_token": 90_001, **cached, "generation_token": 3}),
        *_counts("pair-decode-0", "split", "big", days, {**pair, "cached_token": 90_001}),
        *_counts("joined-0", "joined", "big", days, {**pair, **cached}),
        # a model and its adapter; on the second day only the adapter serves, on the third neither
        *_counts("multi-0", "serve", "base", [(3, 17)], base),
        *_counts("multi-0", "serve", "base-lora", [(5, 9), (24, 33)], adapter),
        # scaled to nothing and back: each pod counts from 0
        *_counts("burst-a", "serve", "small", [(6, 14)], old, (6.25, 14), first=250),
        *_counts("burst-b", "serve", "small", [(30, 39)], old, (30.25, 41), first=333),
        *_counts("quiet-0", "serve", "unused", [], unused, first=100),
        # nobody knows this pod
        *_counts("ghost-0", "serve", "qwen", [(4, 44)], old),
    ]  # fmt: skip
    return [work for work in found if work.adds or work.pod == "quiet-0"]


def serving() -> Fleet:
    """Who holds which GPUs, and when they are busy."""
    kind, every = "g6.12xlarge", [0, 1, 2, 3]
    up = dict.fromkeys("abcd", (0, HOURS)) | {"e": (6, 14), "f": (30, 41)}
    nodes = [node(name, kind, *span) for name, span in up.items()]

    def replica(
        name: str, where: str, gpus: list[int], namespace: str = "serve", **span: float
    ) -> dict[str, object]:
        owner = ["Deployment", name.rsplit("-", 1)[0]]
        start, end = span.get("start", up[where][0]), span.get("end", up[where][1])
        return pod(name, where, gpus, start, end, namespace, owner=owner)

    pods = [
        replica("chat-0", "a", [0, 1], end=26), replica("chat-1", "a", [0, 1], start=26), replica("old-0", "a", [2]),
        replica("sgl-0", "a", [3]), replica("pair-prefill-0", "b", [0], "split"),
        replica("pair-decode-0", "b", [1, 2, 3], "split"), replica("joined-0", "c", every, "joined"),
        replica("multi-0", "d", [0, 1]), replica("quiet-0", "d", [2]), replica("silent-0", "d", [3]),
        replica("burst-a", "e", every), replica("burst-b", "f", every),
    ]  # fmt: skip
    util = {
        **busy("a", [0, 1], 1, 40), **busy("a", [2], 0, 12.5), **busy("a", [3], 2, 31), **busy("b", [0], 2, 30.75),
        **busy("b", [1, 2, 3], 2.25, 31), **busy("c", every, 2, 31), **busy("d", [0], 3, 33), **busy("d", [1], 3, 17),
        **busy("e", every, 6.5, 14), **busy("f", every, 30.5, 39),
    }  # fmt: skip
    # an eighth of an hour: idle money has an end
    return fleet(HOURS, nodes, pods, util, scrape=450, timezone="Europe/Berlin")


def write(out: TextIO) -> None:
    """The fleet's scrapes and its counters, as OpenMetrics text."""
    counters = Recorder()
    for work in works():
        seconds, values = np.array(work.samples(), dtype=np.int64).T
        labels = {
            "namespace": work.namespace,
            "pod": work.pod,
            "instance": f"{work.pod}:8000",
            "model_name": work.model,
        }
        counters.add(work.metric, {**labels, **dict(work.labels)}, seconds * 1000, values)
    write_openmetrics([*scrape(serving()), *counters.series()], out)
