"""A fleet that serves models, with its engines' counters.

vLLM, SGLang, pools of prefill and decode, two models in one pod, a service that scales to zero, counter resets. Days are in
Berlin time; money is exact: each GPU costs $1 an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

import numpy as np

from tests.replay.cases.words import HEADER, at, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Recorder
from tests.text_tables import text_rows, words

HOURS = 50
BOOK = f"{HEADER}\n,,,g6.12xlarge,on_demand,4.00,USD,\n"
STEP = 300  # seconds between the samples of a counter
#: A user's own mapping of SGLang's prompt tokens sets their weight; two others match nothing.
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
    """A counter of a pod that grows by `amount` at each sample within (from, to, amount), in hours.

    `falls` are hours from which it continues at another value. It is scraped within `seen`; its first sample, `lag` seconds
    after the hour, has the value `first`.
    """

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
        """Return its samples: Unix seconds and values."""
        found = []
        value, falls = self.first, dict(self.falls)
        for second in range(at(self.seen[0]) + self.lag, at(self.seen[1]), STEP):
            hour = (second - self.lag - at(0)) / 3600
            if found:
                value += next((amount for start, end, amount in self.adds if start <= hour < end), 0)
            value = falls.get(hour, value)
            found.append((second, value))
        return found


#: Metrics by engine and unit.
_METRICS = {
    "vllm": words("""
        prompt_token=vllm:prompt_tokens_total generation_token=vllm:generation_tokens_total
        cached_token=vllm:prefix_cache_hits_total prefill_second=vllm:request_prefill_time_seconds_sum
        decode_second=vllm:request_decode_time_seconds_sum"""),
    "sglang": words("""
        prompt_token=sglang:prompt_tokens_total generation_token=sglang:generation_tokens_total
        cached_token=sglang:cached_tokens_total"""),
}
#: Counters: pod, namespace, model, engine, hours at work, increase in the first of these spans (a third more in each later
#: one), hours scraped, and other properties.
_WORKS = """
chat-0 | serve | qwen | vllm | 1 18, 20 26 | prompt_token=40001 generation_token=9007 cached_token=11003 prefill_second=13 decode_second=131 | 0 26 | falls=20:0 first=1000000 lag=41
chat-1 | serve | qwen | vllm | 26 40, 45 50 | prompt_token=40001 generation_token=9007 cached_token=11003 prefill_second=13 decode_second=131 | 26.25 50 | first=17
old-0 | serve | llama | vllm | 0 12, 23 47 | prompt_token=7013 generation_token=3001 | 0 50 | falls=9.5:5001,30:77 first=900000
sgl-0 | serve | mistral | sglang | 2 21.5, 22.5 31, 46 49 | prompt_token=30011 generation_token=8009 | 0 50 | weight=0.5
sgl-0 | serve | mistral | sglang | 2 21.5, 22.5 31, 46 49 | cached_token=5003 | 0 50 | cache_source=device
sgl-0 | serve | mistral | sglang | 2 21.5, 22.5 31, 46 49 | cached_token=1009 | 0 50 | cache_source=host
pair-prefill-0 | split | big | vllm | 2 21.5, 22.5 31, 46 49 | prompt_token=90001 cached_token=30001 generation_token=3 | 0 50 |
pair-decode-0 | split | big | vllm | 2 21.5, 22.5 31, 46 49 | prompt_token=90001 generation_token=20011 cached_token=90001 | 0 50 |
joined-0 | joined | big | vllm | 2 21.5, 22.5 31, 46 49 | prompt_token=90001 generation_token=20011 cached_token=30001 | 0 50 |
multi-0 | serve | base | vllm | 3 17 | prompt_token=25013 generation_token=701 | 0 50 |
multi-0 | serve | base-lora | vllm | 5 9, 24 33 | prompt_token=1009 generation_token=4003 | 0 50 |
burst-a | serve | small | vllm | 6 14 | prompt_token=7013 generation_token=3001 | 6.25 14 | first=250
burst-b | serve | small | vllm | 30 39 | prompt_token=7013 generation_token=3001 | 30.25 41 | first=333
quiet-0 | serve | unused | vllm | | prompt_token=0 generation_token=0 | 0 50 | first=100
ghost-0 | serve | qwen | vllm | 4 44 | prompt_token=7013 generation_token=3001 | 0 50 |
"""  # noqa: E501
# chat-0's container restarts at 20 h, and another pod replaces it at 26 h. old-0 runs engine v0, which does not count cached
# tokens; its counter falls to a smaller value above 0. The split pools do the work of joined-0; the second pool counts the
# prompt again. multi-0 has a model and its adapter: on the second day only the adapter serves, on the third neither. burst
# scales to zero and back: each pod counts from 0. No metrics describe the pod ghost-0.


def _pairs(text: str, sign: str = " ") -> list[tuple[float, float]]:
    """Return each pair of numbers joined by this sign."""
    pairs = [pair.strip().split(sign) for pair in text.split(",") if pair]
    return [(float(one), float(two)) for one, two in pairs]


def works() -> list[Work]:
    """Return every counter of the fleet."""
    found = []
    for name, namespace, model, engine, spans, amounts, seen, more in text_rows(_WORKS):
        cells = {"falls": "", "first": "0", "lag": "0", "weight": "0.25", **words(more)}
        labels = (("cache_source", cells["cache_source"]),) if "cache_source" in cells else ()
        falls = tuple((hour, int(value)) for hour, value in _pairs(cells["falls"], ":"))
        for unit, amount in words(amounts).items():
            adds = [(*span, int(amount) * (3 + number) // 3) for number, span in enumerate(_pairs(spans))]
            work = Work(
                name, namespace, _METRICS[engine][unit], unit, model, _pairs(seen)[0], tuple(adds), falls,
                int(cells["first"]), int(cells["lag"]), labels, cells["weight"],
            )  # fmt: skip
            found.append(work)
    return found


#: Nodes: name, from hour, to hour. Each has four GPUs.
_NODES = """
a | 0  | 50
b | 0  | 50
c | 0  | 50
d | 0  | 50
e | 6  | 14
f | 30 | 41
"""
#: Pods: name, node, GPUs, from hour, to hour, namespace.
_PODS = """
chat-0         | a | 0 1     | 0  | 26 | serve
chat-1         | a | 0 1     | 26 | 50 | serve
old-0          | a | 2       | 0  | 50 | serve
sgl-0          | a | 3       | 0  | 50 | serve
pair-prefill-0 | b | 0       | 0  | 50 | split
pair-decode-0  | b | 1 2 3   | 0  | 50 | split
joined-0       | c | 0 1 2 3 | 0  | 50 | joined
multi-0        | d | 0 1     | 0  | 50 | serve
quiet-0        | d | 2       | 0  | 50 | serve
silent-0       | d | 3       | 0  | 50 | serve
burst-a        | e | 0 1 2 3 | 6  | 14 | serve
burst-b        | f | 0 1 2 3 | 30 | 41 | serve
"""
#: When GPUs are busy: node, GPUs, from hour, to hour.
_BUSY = """
a | 0 1     | 1    | 40
a | 2       | 0    | 12.5
a | 3       | 2    | 31
b | 0       | 2    | 30.75
b | 1 2 3   | 2.25 | 31
c | 0 1 2 3 | 2    | 31
d | 0       | 3    | 33
d | 1       | 3    | 17
e | 0 1 2 3 | 6.5  | 14
f | 0 1 2 3 | 30.5 | 39
"""


def serving() -> Fleet:
    """Return the fleet: allocations and busy times of its GPUs."""
    nodes = [node(name, "g6.12xlarge", float(start), float(end)) for name, start, end in text_rows(_NODES)]
    pods, util = [], {}
    for name, where, gpus, start, end, namespace in text_rows(_PODS):
        owner = ["Deployment", name.rsplit("-", 1)[0]]
        pods.append(pod(name, where, gpus.split(), float(start), float(end), namespace, owner=owner))
    for where, gpus, start, end in text_rows(_BUSY):
        util |= busy(where, gpus.split(), float(start), float(end))
    # an eighth of an hour: idle cost is a finite decimal
    return fleet(HOURS, nodes, pods, util, scrape=450, timezone="Europe/Berlin")


def write(out: TextIO) -> None:
    """Write the fleet's scrapes and its counters as OpenMetrics text."""
    counters = Recorder()
    for work in works():
        seconds, values = np.array(work.samples(), dtype=np.int64).T
        labels = words(
            f"namespace={work.namespace} pod={work.pod} instance={work.pod}:8000 model_name={work.model}"
        )
        counters.add(work.metric, {**labels, **dict(work.labels)}, seconds * 1000, values)
    write_openmetrics([*scrape(serving()), *counters.series()], out)
