"""Shared GPUs: the calculator's figures, and packings that never exceed what a GPU has."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif import share
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Level, Levels, Node, Pod, Price, Usage
from gpucost.whatif.gpu_specs import Facts
from gpucost.whatif.packing import PackedPod, pack, peak, slots
from gpucost.whatif.share import Method, Sizing, layout_name, layouts, profile_for
from tests.unit.whatif_costs import ask

H = MS_PER_HOUR
A100 = "A100-SXM4-40GB"

pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.mark.parametrize(
    ("words", "today", "needed", "per_gpu"),
    [
        ("--pods 40 --utilization-percent 15 --gpus-per-pod 1 --ways 4", 40, 10, 4),
        ("--pods 5 --utilization-percent 90", 5, 5, 1),
        # 3 x 9,900 of 32,768 MiB
        (
            f"--pods 12 --utilization-percent 1 --ways 12 --gpu-model {A100} --memory-per-pod-mib 9000",
            12,
            4,
            3,
        ),
    ],
)
def test_pods_on_gpus(words: str, today: int, needed: int, per_gpu: int) -> None:
    answer = ask("share", f"{words} --on-demand-price 3 --price-per gpu")
    assert (answer["gpus_today"], answer["gpus_needed"], answer["pods_per_gpu"]) == (today, needed, per_gpu)
    for state, gpus in (("today", today), ("scenario", needed)):
        assert (answer[state]["gpu_hours"], answer[state]["cost"]) == (gpus * 730, gpus * 730 * 3)


def test_mig_slices_have_the_memory(facts: Facts) -> None:
    answer = ask(
        "share",
        f"--pods 12 --utilization-percent 5 --method mig --gpu-model {A100} --memory-per-pod-mib 4000",
    )
    # 4,400 MiB and a fifth free need 5,500: more than a 1g.5gb has
    assert answer["pods_per_gpu"] == 4
    model = facts.models[A100]
    assert profile_for(model, 0.05, 5500) == next(p for p in model.profiles if p.name == "1g.10gb")


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
def test_a_packing_never_exceeds_a_gpu(pods: list[PackedPod], ways: int) -> None:
    fits = slots(activity=0.8, memory_mib=32_768, ways=ways)
    gpus = pack(pods, fits)
    for gpu in gpus:
        for moment in {item.from_ms for item in gpu.items}:
            held = gpu.at(moment)
            assert len(held) <= ways
            assert sum(item.memory_mib for item in held) <= 32_768
            assert sum(item.activity for item in held) <= 0.8 + 1e-6
        assert gpu.from_ms == min(i.from_ms for i in gpu.items) and gpu.to_ms == max(
            i.to_ms for i in gpu.items
        )
    packed = [item.of for gpu in gpus for item in gpu.items]
    assert sorted(packed) == sorted(item.of for item in pods if fits([item]))


@settings(max_examples=25)
@given(items, st.sampled_from([A100, "A30", "H100-80GB-HBM3", "RTX-PRO-6000"]))
def test_a_mig_layout_never_exceeds_a_gpu(facts: Facts, pods: list[PackedPod], name: str) -> None:
    model = facts.models[name]
    for gpu in pack(pods, layouts(model)):
        for moment in {item.from_ms for item in gpu.items}:
            profiles = [profile_for(model, item.activity, item.memory_mib) for item in gpu.at(moment)]
            assert all(profiles)
            chosen = [profile for profile in profiles if profile is not None]
            assert sum(profile.compute_slices for profile in chosen) <= model.mig_slices
            assert sum(profile.memory_slices for profile in chosen) <= chosen[0].memory_slices_total
            assert sum(item.memory_mib for item in gpu.at(moment)) <= (model.memory_mib or 0)


def test_layouts_that_nvidia_lists(facts: Facts) -> None:
    """Of the A100's layouts in the MIG user guide: 3g+3g, 4g+3g, 3g+2g+2g and 7 x 1g are valid, 3g+3g+1g and 4g+4g are not."""
    model = facts.models[A100]
    fits = layouts(model)

    def of(*slices: int) -> list[PackedPod]:
        return [PackedPod(str(number), count / 7) for number, count in enumerate(slices)]

    assert all(fits(of(*layout)) for layout in ((3, 3), (4, 3), (3, 2, 2), (1,) * 7, (2, 2, 2, 1)))
    assert not any(fits(of(*layout)) for layout in ((3, 3, 1), (4, 4), (1,) * 8, (2, 2, 2, 2)))
    assert layout_name(model, of(3, 2, 2)) == "2 x 2g.10gb + 1 x 3g.20gb"


def test_first_fit_decreasing_and_peaks() -> None:
    pods = [PackedPod(str(n), size) for n, size in enumerate([0.3, 0.5, 0.4, 0.7, 0.5, 0.6])]
    assert len(pack(pods, slots(activity=1.0, memory_mib=None, ways=9))) == 3
    items = [PackedPod(str(begin), 1, from_ms=begin, to_ms=end) for begin, end in ((0, 5), (3, 8), (5, 9))]
    assert (peak(items), peak([])) == ((2, 3), (0, 0))


def test_many_described_gpus_are_packed(facts: Facts) -> None:
    pods = share.DescribedPods(pods=100, utilization_percent=10, gpus_per_pod=10, on_demand_price=Decimal(32))
    usage, levels = share.described(Sizing(ways=6), pods, facts, "USD")
    answer = share.answer(usage, Sizing(ways=6), levels, facts)
    assert answer.figures["pods_shared"] == 100 and answer.figures["gpus_needed"] == 167
    assert (answer.today.cost, answer.scenario.cost) == (1000 * 4 * 730, 167 * 4 * 730)


def _fleet() -> tuple[Fleet, Levels]:
    node = Node("n", 8, 0, 100 * H, (Price(Decimal(24), "option"),), gpu_model=A100)
    pods = [Pod("n", "Deployment/api", 1, 0, 100 * H, uid=str(number), team="a") for number in range(4)]
    pods += [
        Pod("n", "Deployment/busy", 1, 0, 100 * H, uid="busy", team="a"),
        Pod("n", "Job/big", 2, 0, 9 * H, uid="big"),
    ]
    levels = {("default", str(number)): Level(1, 1, 100, 0.05, 0.15, 4000) for number in range(4)}
    levels["default", "busy"] = Level(1, 1, 100, 0.5, 0.9, 4000)
    return Fleet((node,), tuple(pods)), levels


def shared(facts: Facts, fleet: Fleet, levels: Levels, sizing: Sizing | None = None, **more: Any) -> Answer:
    return share.answer(Usage(fleet, "USD", "test", "all"), sizing or Sizing(), levels, facts, **more)


@pytest.mark.parametrize("method", list(Method))
def test_measured_pods_share(facts: Facts, method: Method) -> None:
    answer = shared(facts, *_fleet(), Sizing(method))
    needed = 1 if method is not Method.mig else 2  # 0.165 / 0.8 of 7 slices are two: three such pods on a GPU
    assert (answer.figures["gpus_today"], answer.figures["gpus_needed"]) == (4, needed)
    # other pods hold the node: GPUs are freed, and no money leaves the bill
    freed = answer.figures["freed_capacity_cost"]
    assert (answer.today.cost, answer.saving, freed) == (3 * (5 * 100 + 2 * 9), 0, 3 * (4 - needed) * 100)


def _notebooks(hours: list[int], memory: float = 4000, gpus: int = 1) -> tuple[Fleet, Levels]:
    """A pod on each of as many nodes for two days, 95 % busy in its hour of each day, at 1 % otherwise."""
    price = (Price(Decimal(3 * gpus), "price_book"),)
    nodes = [
        Node(f"n{n}", gpus, 0, 48 * H, price, provider="aws", instance_type="x", gpu_model=A100)
        for n in range(len(hours))
    ]
    pods = [
        Pod(f"n{n}", f"StatefulSet/nb-{n}", 1, 0, 48 * H, uid=str(n), team="a") for n in range(len(hours))
    ]
    levels = {}
    for number, busy in enumerate(hours):
        profile = tuple((hour, 0.95 if hour % 24 == busy else 0.01) for hour in range(48))
        levels["default", str(number)] = Level(1, 1, 48, 0.05, 0.95, memory, profile)
    return Fleet(tuple(nodes), tuple(pods)), levels


ROOMY = Sizing(margin_percent=0, headroom_percent=0)


def test_pods_that_are_busy_in_the_same_hour_collide_and_others_share(facts: Facts) -> None:
    same = shared(facts, *_notebooks([9, 9, 9, 9]), ROOMY)
    assert (same.figures["pods_shared"], same.saving) == (0, 0)
    apart = shared(facts, *_notebooks([9, 10, 11, 12]), ROOMY)
    # on one GPU: three nodes of one GPU go for two days
    assert (apart.figures["pods_shared"], apart.figures["gpus_needed"], apart.saving) == (4, 1, 3 * 3 * 48)
    pairs = shared(facts, *_notebooks([9, 9, 10, 10]), ROOMY)
    assert (pairs.figures["gpus_needed"], pairs.saving) == (2, 2 * 3 * 48)


def test_memory_counts_by_its_maximum(facts: Facts) -> None:
    """30,000 MiB for 40 minutes a day are 30,000 MiB: no two of them fit the 40,960 MiB of a GPU."""
    answer = shared(facts, *_notebooks([9, 10, 11, 12], memory=30_000), ROOMY)
    assert (answer.figures["pods_shared"], answer.saving) == (0, 0)


def test_pods_that_preallocate_memory_share_only_with_work(facts: Facts) -> None:
    """Four servers that hold 37,000 of 40,960 MiB from their start: three nodes at 3 an hour for two days if they need less."""
    fleet, levels = _notebooks([9, 10, 11, 12], memory=37_000)
    fixed = {key: replace(level, has_fixed_memory=True) for key, level in levels.items()}
    answer = shared(facts, fleet, fixed, ROOMY)
    work = 3 * 3 * 48
    assert (answer.saving, answer.figures["cash_saving"]) == (0, 0)
    assert answer.figures["saving_by_suitability"] == {"safe": 0, "needs_work": work}
    assert "whatever the load, less needs work" in str(answer.tables[-1].lines[0][5])
    # memory that follows the load is needed
    assert shared(facts, fleet, levels, ROOMY).figures["saving_by_suitability"]["needs_work"] == 0


def test_cash_is_of_the_time_in_which_pods_held_a_node_at_its_price_then(facts: Facts) -> None:
    """A node under a commitment until hour 24 and free from hour 48 on brings back the 24 hours in between."""
    fleet, levels = _notebooks([9, 10])
    ends = (Price(Decimal(3), "bill", is_committed=True), Price(Decimal(3), "price_book", from_ms=24 * H))
    first, second = (replace(node, to_ms=100 * H) for node in fleet.nodes)
    answer = shared(facts, Fleet((first, replace(second, prices=ends)), fleet.pods), levels, ROOMY)
    # the shared GPU is on a node like the first one: 48 x 3 + 24 x 3 leave the bill, 48 x 3 are needed
    assert (answer.saving, answer.figures["freed_capacity_cost"]) == (3 * 24, 3 * 24)


def test_cash_is_of_nodes_that_go_and_the_rest_is_freed_capacity(facts: Facts) -> None:
    fleet, levels = _notebooks([9, 10, 11, 12], gpus=2)
    answer = shared(facts, fleet, levels, ROOMY)
    # four nodes of two GPUs, one GPU of each held; the shared GPU fills half of one: three nodes go
    assert answer.today.cost == 4 * 3 * 48
    assert answer.saving == 3 * 3 * 48 and answer.figures["freed_capacity_cost"] == 0
    # other pods hold two of the nodes: of the other two one goes, the shared GPU needs one
    others = tuple(Pod(f"n{n}", "Job/other", 1, 0, 48 * H, uid=f"o{n}") for n in (0, 1))
    usage = Usage(fleet, "USD", "test", "all", is_narrowed=True, others=others)
    answer = share.answer(usage, ROOMY, levels, facts)
    assert (answer.saving, answer.figures["freed_capacity_cost"]) == (6 * 48, 3 * 48)
    own = replace(
        fleet, nodes=tuple(replace(node, provider=None, instance_type=None) for node in fleet.nodes)
    )
    answer = shared(facts, own, levels, ROOMY)
    assert (answer.saving, answer.figures["freed_capacity_cost"]) == (0, 3 * 3 * 48)


def test_every_pod_has_a_line_and_a_reason(facts: Facts) -> None:
    fleet, levels = _fleet()
    pods = {line[1]: line for line in shared(facts, fleet, levels).tables[-1].lines}
    assert {name: (line[2], line[5]) for name, line in pods.items()} == {
        "Deployment/api": (4, "shares a GPU, 4 pods at most"),
        "Deployment/busy": (1, "keeps its GPU: no other pod fits next to it"),
        "Job/big": (1, "holds 2 GPUs"),
    }


def test_what_keeps_pods_apart(facts: Facts) -> None:
    fleet, levels = _fleet()
    full = {key: Level(1, 1, 100, 0.05, 0.15, 12_000) for key in levels}
    assert shared(facts, fleet, full).figures["gpus_needed"] == 2  # two of 13,200 MiB in 32,768
    teams = replace(fleet, pods=tuple(replace(pod, team=pod.uid) for pod in fleet.pods))

    def freed(of: Fleet, **more: Any) -> Decimal:
        return Decimal(shared(facts, of, levels, **more).figures["freed_capacity_cost"])

    assert freed(teams) == 0 < freed(teams, across_teams=True)
    # reserved nodes are paid anyway
    paid = replace(fleet, nodes=tuple(replace(node, capacity_type="reserved") for node in fleet.nodes))
    assert freed(paid) == 0
    with pytest.raises(GpucostError, match="measured"):
        shared(facts, fleet, {})
