"""Shared GPUs: packings that never exceed a GPU, and cash from measured pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from gpucost.errors import GpucostError
from gpucost.whatif import share
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Level, Levels, Usage
from gpucost.whatif.gpu_specs import GpuSpecs
from gpucost.whatif.packing import PackedPod, pack, peak, slots
from gpucost.whatif.share import Method, Sizing, fits_slices, profile_for
from tests.text_tables import table
from tests.unit.whatif_costs import figures, fleet, shown

A100 = "A100-SXM4-40GB"
items = st.lists(
    st.builds(
        lambda n, activity, memory, begin, length: PackedPod(str(n), activity, memory, begin, begin + length),
        st.integers(0, 10**9),
        st.floats(0, 1),
        st.floats(0, 50_000),
        st.integers(0, 50),
        st.integers(1, 30),
    ),
    max_size=25,
    unique_by=lambda item: item.of,
)


@settings(max_examples=25)
@given(items, st.integers(1, 8))
def test_packing_never_exceeds_a_gpu(pods: list[PackedPod], ways: int) -> None:
    fits = slots(activity=0.8, memory_mib=32_768, ways=ways)
    gpus = pack(pods, fits)
    for gpu in gpus:
        for moment in {item.from_ms for item in gpu.items}:
            held = [item for item in gpu.items if item.from_ms <= moment < item.to_ms]
            assert len(held) <= ways and sum(item.memory_mib for item in held) <= 32_768
            assert sum(item.activity for item in held) <= 0.8 + 1e-6
        assert gpu.from_ms == min(item.from_ms for item in gpu.items)
        assert gpu.to_ms == max(item.to_ms for item in gpu.items)
    packed = [item.of for gpu in gpus for item in gpu.items]
    assert sorted(packed) == sorted(item.of for item in pods if fits([item]))


def test_layouts_listed_by_nvidia(facts: GpuSpecs) -> None:
    """A100 layouts in the MIG user guide: 3g+3g, 4g+3g, 3g+2g+2g and 7 x 1g are valid, 3g+3g+1g and 4g+4g are not."""
    model = facts[A100]

    def of(slices: str) -> list[PackedPod]:
        return [PackedPod(str(number), int(count) / 7) for number, count in enumerate(slices)]

    layouts = "33 43 322 1111111 2221 331 44 11111111 2222"
    assert [layout for layout in layouts.split() if fits_slices(model, of(layout))] == [
        "33",
        "43",
        "322",
        "1111111",
        "2221",
    ]
    assert profile_for(model, 0.05, 5500) == next(p for p in model.profiles if p.name == "1g.10gb")


def test_first_fit_decreasing_and_peaks() -> None:
    pods = [PackedPod(size, float(size)) for size in ["0.3", "0.5", "0.4", "0.7", "0.50", "0.6"]]
    assert len(pack(pods, slots(activity=1.0, memory_mib=None, ways=9))) == 3
    items = [PackedPod(span, 1, from_ms=int(span[0]), to_ms=int(span[2])) for span in ("0-5", "3-8", "5-9")]
    assert (peak(items), peak([])) == (2, 0)


POD = "node | workload | gpus | hours | uid | team"


def _fleet() -> tuple[Fleet, Levels]:
    pods = "".join(f"n | Deployment/api | 1 | 0-100 | {number} | a\n" for number in range(4))
    pods += "n | Deployment/busy | 1 | 0-100 | busy | a\nn | Job/big | 2 | 0-9 | big | default"
    there = fleet("name | hours | prices\nn | 0-100 | 24", f"{POD}\n{pods}", gpu_model=A100)
    levels = {pod.key: Level(1, 1, 100, 0.05, 0.15, 4000) for pod in there.pods[:4]}
    levels["default", "busy"] = Level(1, 1, 100, 0.5, 0.9, 4000)
    return there, levels


def shared(facts: GpuSpecs, there: Fleet, levels: Levels, sizing: Sizing | None = None) -> Answer:
    return share.answer(Usage(there, "USD", "test", "all"), sizing or Sizing(), levels, facts)


CASH = "saving freed_capacity_cost"


@pytest.mark.parametrize("method", list(Method))
def test_measured_pods_share_gpus(facts: GpuSpecs, method: Method) -> None:
    needed = 1 if method is not Method.mig else 2  # 0.165 / 0.8 of 7 slices are two: three such pods per GPU
    # other pods hold the node: GPUs are freed, without cash
    answer = shared(facts, *_fleet(), Sizing(method=method))
    assert figures(answer, f"gpus_today gpus_needed today {CASH}") == shown(
        4, needed, 3 * (5 * 100 + 2 * 9), 0, 3 * (4 - needed) * 100
    )


def _notebooks(busy: str, memory: float = 4000, gpus: int = 1) -> tuple[Fleet, Levels]:
    """One pod on each of as many nodes for two days, 95 % busy in its hour of each day, otherwise 1 %."""
    hours = busy.split()
    nodes = "\n".join(f"n{n} | 0-48 | {3 * gpus}" for n in range(len(hours)))
    pods = "\n".join(f"n{n} | StatefulSet/nb-{n} | 1 | 0-48 | {n} | a" for n in range(len(hours)))
    there = fleet(f"name | hours | prices\n{nodes}", f"{POD}\n{pods}", gpus=gpus, gpu_model=A100)
    levels = {}
    for pod, busiest in zip(there.pods, hours, strict=True):
        profile = tuple((hour, 0.95 if hour % 24 == int(busiest) else 0.01) for hour in range(48))
        levels[pod.key] = Level(1, 1, 48, 0.05, 0.95, memory, profile)
    return there, levels


ROOMY = Sizing(margin_percent=0, headroom_percent=0)
# Nodes of one GPU at 3 an hour for two days, removed if their pods share. 30,000 MiB for 40 minutes a day count in full: no two
# such pods fit the 40,960 MiB of a GPU
BUSY_HOURS = """
    pods                  | busy       | memory | needed | saving
    busy in the same hour | 9 9 9 9    |   4000 |      4 |      0
    in hours of their own | 9 10 11 12 |   4000 |      1 |    432
    two pairs             | 9 9 10 10  |   4000 |      2 |    288
    of 30,000 MiB         | 9 10 11 12 |  30000 |      4 |      0
"""


@pytest.mark.parametrize("case", table(BUSY_HOURS), ids=lambda case: case["pods"])
def test_pods_busy_at_different_times_share(facts: GpuSpecs, case: dict[str, str]) -> None:
    answer = shared(facts, *_notebooks(case["busy"], float(case["memory"])), ROOMY)
    expected = " ".join(case[name] for name in ("needed", "saving"))
    assert figures(answer, "gpus_needed saving") == expected


def test_pods_with_preallocated_memory_share_only_with_work(facts: GpuSpecs) -> None:
    """Four servers that preallocate 37,000 of 40,960 MiB: sharing saves three nodes at 3 an hour for two days, with work."""
    there, levels = _notebooks("9 10 11 12", memory=37_000)
    fixed = {key: replace(level, has_fixed_memory=True) for key, level in levels.items()}
    answer, grows = shared(facts, there, fixed, ROOMY), shared(facts, there, levels, ROOMY)
    suits = "saving_by_suitability.safe saving_by_suitability.needs_work"
    assert figures(answer, f"saving cash_saving {suits}") == "0 0 0 432"
    assert "less memory needs preparation" in str(answer.tables[-1].lines[0][5])
    # memory that follows the load is needed
    assert figures(grows, suits) == "0 0"


def test_cash_counts_only_held_time_at_the_price_of_that_time(facts: GpuSpecs) -> None:
    """A node committed until hour 24 and empty from hour 48 saves the 24 hours in between."""
    there, levels = _notebooks("9 10")
    nodes = fleet(
        "name | hours | prices\nn0 | 0-100 | 3\nn1 | 0-100 | 3 committed, 3 from 24", gpus=1, gpu_model=A100
    ).nodes
    answer = shared(facts, Fleet(nodes, there.pods), levels, ROOMY)
    # the shared GPU is on a node like the first: 48 x 3 + 24 x 3 leave the bill, 48 x 3 are needed
    assert figures(answer, CASH) == "72 72"


def test_removed_nodes_give_cash_and_the_rest_is_freed_capacity(facts: GpuSpecs) -> None:
    # four nodes of two GPUs, one GPU of each held; the shared GPU fills half a node: three nodes are removed
    there, levels = _notebooks("9 10 11 12", gpus=2)
    assert figures(shared(facts, there, levels, ROOMY), f"today {CASH}") == "576 432 0"
    # other pods hold two of the nodes: one of the other two is removed, the shared GPU needs the other
    others = tuple(replace(pod, workload="Job/other", uid=f"o{pod.uid}") for pod in there.pods[:2])
    usage = Usage(there, "USD", "test", "all", is_narrowed=True, others=others)
    assert figures(share.answer(usage, ROOMY, levels, facts), CASH) == "288 144"
    own = there.with_nodes(lambda node: replace(node, provider=None, instance_type=None))
    assert figures(shared(facts, own, levels, ROOMY), CASH) == "0 432"


def test_every_pod_has_a_line_and_a_reason(facts: GpuSpecs) -> None:
    lines = shared(facts, *_fleet()).tables[-1].lines
    assert {shown(line[1], line[2], line[5]) for line in lines} == {
        "Deployment/api 4 shares a GPU, 4 pods at most",
        "Deployment/busy 1 keeps its GPU: no other pod fits next to it",
        "Job/big 1 holds 2 GPUs",
    }


def test_pods_get_slices_of_a_shared_gpu(facts: GpuSpecs) -> None:
    """4,000 MiB need 5,500 with margins, more than a 1g.5gb has. 15 % of activity needs 20.6 %: two of seven slices."""
    there, levels = _fleet()
    quiet = {key: replace(level, high=0.05) for key, level in levels.items()}
    for measured, profile in ((levels, "2g.10gb, 3"), (quiet, "1g.10gb, 4")):
        lines = shared(facts, there, measured, Sizing(method=Method.mig)).tables[-1].lines
        assert f"shares a GPU as {profile} pods at most" in {line[5] for line in lines}


def test_memory_teams_and_reserved_nodes_prevent_sharing(facts: GpuSpecs) -> None:
    there, levels = _fleet()
    full = dict.fromkeys(levels, Level(1, 1, 100, 0.05, 0.15, 12_000))
    assert shared(facts, there, full).figures["gpus_needed"] == 2  # two of 13,200 MiB in 32,768
    teams = replace(there, pods=tuple(replace(pod, team=pod.uid) for pod in there.pods))
    # reserved nodes are paid anyway
    paid = there.with_nodes(lambda node: replace(node, capacity_type="reserved"))
    answers = [
        shared(facts, teams, levels),
        shared(facts, paid, levels),
        shared(facts, teams, levels, Sizing(across_teams=True)),
    ]
    assert [answer.figures["freed_capacity_cost"] > 0 for answer in answers] == [False, False, True]
    with pytest.raises(GpucostError, match="measured"):
        shared(facts, there, {})
