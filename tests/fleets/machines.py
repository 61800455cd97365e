"""Machines and their GPUs, each paid for once. Eight hours, a dollar per GPU-hour."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.fleets.case import Edit, case, drop, eight_hours, machine, relabel, revalue
from tests.replay.cases.words import at, busy, pod
from tests.replay.edits import drop as dropped, relabel as relabeled
from tests.replay.fleet import Fleet
from tests.replay.series import Series
from tests.text_tables import words

END = 8
PLAIN = "resource=nvidia_com_gpu"
NO_COUNT = relabel("kube_node_labels", "label_nvidia_com_gpu_count=")
BOARD = "4c4c4544-0043-3010-8048-b4c04f503832"
twin = partial(machine, gpus=1, dcgm=False)  # a node object without an exporter


def held(nodes: list[Any] | str, *pods: Any, util: Any = None, **more: Any) -> Fleet:
    """Return a case; nodes may be text: names and GPU counts."""
    if isinstance(nodes, str):
        nodes = [machine(name, int(gpus)) for name, gpus in words(nodes).items()]
    return eight_hours(nodes, list(pods), util or {}, **more)


def without(first: int, last: int, hour: float) -> Edit:
    """Remove DCGM's series of these GPUs of w before this hour."""
    return drop("DCGM_.*", f"UUID=GPU-w-[{first}-{last}].*", (0, hour))


def board(nodes: str, uuid: str = BOARD) -> Edit:
    """Give these nodes the system uuid and no provider id."""
    return relabel("kube_node_info", f"system_uuid={uuid} provider_id=", f"node={nodes}")


def cloud(machine_id: str, nodes: str = ".*", hours: tuple[float, float] = (-1, 99)) -> Edit:
    return relabel("kube_node_info", f"provider_id=aws:///z/{machine_id}", f"node={nodes}", hours)


# an A30 in four slices next to an RTX 2000 Ada; the label names one of them: a slice is a quarter of an A30
TWO = held(
    [machine("w", 2, mig={"GPU-w-0": [{"gi": gi, "profile": "1g.6gb"} for gi in (3, 4, 5, 6)]})],
    *(pod(f"s{gi}", "w", [(0, gi)], 0, END, resource="nvidia_com_mig_1g_6gb") for gi in (3, 4, 5)), "rtx | w | 1 | 0 | 4",
    util=busy("w", [(0, 3), 1], 0, END),
)  # fmt: skip
TWO_MODELS = """
    gpu_model pod | held unallocated cost unallocated_cost
    A30       s3  |    2           0    2                0
    A30       s4  |    2           0    2                0
    A30       s5  |    2           0    2                0
    A30       -   |    0           2    0                2
    {0}       rtx |    4           0    4                0
    {0}       -   |    0           4    0                4"""
ADDED = """
    gpu_count pod | held unallocated cost unallocated_cost
    4         a   |    4           0    8                0
    4         -   |    0          12    0               24
    8         a   |    4           0    4                0
    8         -   |    0          28    0               28"""
ONE_OF_EIGHT = held("w=8", "a | w | 0 | 0 | 8", util="w | 0 | 0 | 8")
FOUR_FIRST = revalue("kube_node_status_.*", 4, PLAIN, (0, 4))
OTHER_MODEL = 'modelName="NVIDIA RTX 2000 Ada Generation"'
BOTH_PAID = """
    node | unallocated unallocated_cost
    x    |           8                8
    y    |           6                6"""
OLD_AND_NEW = held(
    [machine("old", 1, not_ready=[[at(2), at(END)]], dcgm=False), machine("new", 1, 2)],
    "a | old | 0 | 0 | 2", "b | new | 0 | 3 | 8", util="new | 0 | 2 | 8",
)  # fmt: skip
STALE = """
    node pod | held unallocated cost unallocated_cost
    old  a   |    2           0    2                0
    new  b   |    5           0    5                0
    new  -   |    0           1    0                1"""
SAME = "shared_machine node old is the same machine as node new of cluster"
V_AND_W = held("w=1 v=1", "a | v | 0 | 0 | 8")
LABEL_LOST = held("w=1", "a | w | 0 | 0 | 8", util="w | 0 | 0 | 8")
TWO_OF_ONE = held("w=1 v=1")


def second_w(start: float = -1, end: float = 99) -> Edit:
    """Add a node w of another cluster, also without a cluster label."""

    def change(series: list[Series]) -> list[Series]:
        infos = [
            one for one in series if one.labels["__name__"] == "kube_node_info" and one.labels["node"] == "w"
        ]
        other = relabeled(infos, ".*", "provider_id=aws:///z/i-2 instance=10.9.0.30:8080")
        return [*series, *dropped(dropped(other, ".*", "", (-9, start)), ".*", "", (end, 99))]

    return change


CASES = [
    *(
        case(
            f"two models in a node named {name}", TWO, TWO_MODELS.format(rtx),
            relabel("DCGM_.*", OTHER_MODEL, "UUID=GPU-w-1"),
            relabel("kube_node_labels", f"label_nvidia_com_gpu_product={label}"),
        )
        for name, label, rtx in (
            ("A30", "NVIDIA-A30", "RTX_2000_Ada_Generation"),
            ("RTX", "NVIDIA-RTX-2000-Ada-Generation", "RTX-2000-Ada-Generation"),
            ("nothing", "", "RTX_2000_Ada_Generation"),
        )
    ),
    # one of 8 falls off the bus at 02:00 and is missing after a reboot at 04:00, also in the labels: 8 are charged
    *(
        case(
            f"a lost GPU is unavailable {'with' if labeled else 'without'} a label",
            held("w=8", "a | w | 0 1 2 3 4 | 0 | 8", util="w | 0 | 0 | 8"), """
            pod | held unallocated unavailable cost unallocated_cost
            a   |   40           0           0   40                0
            -   |    0          24           6    0               24""",
            revalue("kube_node_status_allocatable", 7, PLAIN, (2, END)), revalue("kube_node_status_capacity", 7, PLAIN, (4, END)),
            drop("DCGM_.*", "UUID=GPU-w-7.*", (2, END)),
            relabel("kube_node_labels", "label_nvidia_com_gpu_count=7", "", (4, END)) if labeled else NO_COUNT,
        )
        for labeled in (True, False)
    ),
    # 4 GPUs until 04:00 and 8 from then on; one is held throughout: 1/4 of the machine, then 1/8
    case(
        "GPUs added at noon according to a label", ONE_OF_EIGHT, ADDED, without(4, 7, 4), FOUR_FIRST,
        relabel("kube_node_labels", "label_nvidia_com_gpu_count=4", "", (0, 4)),
    ),
    case("GPUs added at noon according to uuids", ONE_OF_EIGHT, ADDED, without(4, 7, 4), FOUR_FIRST, NO_COUNT),
    # only two GPUs of a g6.12xlarge are visible until 04:00: it has four, and two of them are unavailable for 4 h
    case(
        "an instance type has all its GPUs from the start", held(["w | g6.12xlarge | 0 | 8"]), """
        gpu_count | unallocated unavailable unallocated_cost
        4         |          32           8             38.4""",
        without(2, 3, 4), revalue("kube_node_status_.*", 2, PLAIN, (0, 4)), NO_COUNT,
    ),
    # at 04:00 another model replaces one of two GPUs: two GPUs at any time
    case(
        "a replaced GPU does not count twice", held("w=2"), """
        gpu_model gpu_count | unallocated unallocated_cost
        A30       2         |          16               16""",
        relabel("DCGM_.*", 'UUID=GPU-new modelName="NVIDIA A10"', "UUID=GPU-w-1", (4, END)), NO_COUNT,
    ),
    # one GPU in four slots until 04:00, in two from then on, without labels: a slot is a quarter, then a half
    case(
        "slots that change without labels",
        held(
            [machine("w", 1, replicas=4)], "a | w | 0 | 0 | 4", "b | w | 0 | 4 | 8",
            util="w | 0 | 0 | 8", node_labels=False,
        ), """
        pod | held unallocated
        a   |    1           0
        b   |    2           0
        -   |    0           5""",
        revalue("kube_node_status_.*", 2, PLAIN, (4, END)),
        warnings="missing_kube_node_labels\nunknown_capacity_type node w exports no labels",
    ),
    # a machine registers again as `new` at 02:00; `old` stays listed, not ready
    case("a stale node object costs nothing", OLD_AND_NEW, STALE, board("old|new"), warnings=SAME),
    case(
        "a stale node object without a status costs nothing", OLD_AND_NEW, STALE, board("old|new"),
        drop("kube_node_status_condition"), warnings=SAME,
    ),
    # two machines whose mainboards have no uuid are both charged, also while one is not ready
    *(
        case(
            f"a placeholder uuid proves nothing {number}", held([twin("x", not_ready=[[at(2), at(END)]]), twin("y", start=2)]),
            BOTH_PAID, board("x|y", uuid),
        )
        for number, uuid in enumerate((
            "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009",
            "Not-Settable-0123456789abcdef0123456789",
        ))
    ),
    # two machines from one image are both ready for hours
    case(
        "one uuid of two ready nodes proves nothing",
        held([twin("x", not_ready=[[at(7.5), at(END)]]), twin("y", start=2, not_ready=[[at(7.5), at(END)]])]), BOTH_PAID,
        board("x|y"),
    ),
    # one provider id, but each node's exporter measures a GPU of its own
    case(
        "other GPUs are another machine", held("x=1 y=1"), """
        node | unallocated_cost
        x    |                8
        y    |                8""",
        cloud("i-0123456789abcdef0"),
    ),
    # two nodes without a common id whose exporters measure the same GPU
    case(
        "one GPU is one machine", held("x=1 y=1"), """
        | capacity node_cost
        |        8         8""",
        relabel("DCGM_.*", "UUID=GPU-of-both"), relabel("kube_node_info", "system_uuid="),
        warnings="shared_machine",
    ),
    # two clusters without a distinguishing label both have a node w: w is left out, v is not
    case(
        "two machines of one name are not collected", V_AND_W, """
        node pod | held cost
        v    a   |    8    8""",
        cloud("i-1", "w"), second_w(), warnings="twofold_node node w is two machines",
        gaps="partial 0 8 nodes: two machines have the node name w at once",
    ),
    # from 05:00 to 06:00 a second machine has the name w
    case(
        "a name shared by two machines is left out in that hour", held("w=1", "a | w | 0 | 0 | 8"), """
        node pod | held cost
        w    a   |    7    7""",
        cloud("i-1"), second_w(5, 6), warnings="twofold_node node w is two machines",
        gaps="partial 5 6 nodes: two machines have the node name w at once",
    ),
    # Neuron cores are numbered per machine: i-1 and i-2 both have a core 0
    case(
        "numbers of devices prove nothing", TWO_OF_ONE, """
        node | unallocated unallocated_cost
        v    |           8                8
        w    |           8                8""",
        relabel("DCGM_.*", "UUID= neuroncore=0 __name__=neuroncore_utilization_ratio"),
    ),
    # `old` and, from 02:00, `new` both measure one GPU: the pod on `new` pays its 4 of 8 hours
    case(
        "the newer of two live objects keeps the machine",
        held([machine("old", 1), machine("new", 1, 2)], "a | new | 0 | 4 | 8"), """
        node pod | held unallocated cost unallocated_cost
        old  -   |    0           2    0                2
        new  a   |    4           0    4                0
        new  -   |    0           2    0                2""",
        relabel("DCGM_.*", "UUID=GPU-of-both"), warnings=SAME,
    ),
    # node w is deleted at 03:00, and another machine has the name w from then on
    case(
        "a node created again is another machine", held("w=1"), """
        node | unallocated unallocated_cost
        w    |           8                8""",
        cloud("i-1", hours=(0, 3)), cloud("i-2", hours=(3, END)),
    ),
    # from 03:00 to 04:00 series have no cluster label and belong to the server's own cluster
    case(
        "a cluster label lost for an hour is charged once", LABEL_LOST, "pod | held cost\na | 8 8", cloud("i-1"), strays=(3, 4),
        gaps="bridged 3 4",
    ),
    case(
        "a cluster label lost for an hour is charged once stray", LABEL_LOST, "pod | held", series=list,
        warnings="shared_machine node w is the same machine as node w of cluster a-cluster-label-lost-for-an-hour-is",
    ),
]  # fmt: skip
