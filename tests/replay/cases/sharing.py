"""Cases about shares of a GPU."""

from tests.replay.cases.words import BOOK, Case, at, busy, fleet, node, pod

_H100_CUT = {
    "GPU-m-0": [
        {"gi": 9, "profile": "1g.10gb"},
        {"gi": 10, "profile": "1g.10gb"},
        {"gi": 5, "profile": "2g.20gb"},
        {"gi": 1, "profile": "3g.40gb"},
    ]
}
_SEVENTHS = [{"gi": 7 + i, "profile": "1g.5gb"} for i in range(7)]
_A30 = {"gpu_model": "NVIDIA A30", "instance_type": "g6.12xlarge"}

SHARING = [
    Case(
        "mig-mixed",
        "H100 at $8: 1g.10gb x 14 h = 2 GPU-hours, 3g.40gb x 7 h = 3, a whole one x 7 h = 7: 12 GPU-hours, $96; the 3g is idle.",
        fleet(
            14,
            [node("m", "p5.48xlarge", 0, 14, mig=_H100_CUT)],
            [
                pod("small", "m", [(0, 9)], 0, 14, "tiny", resource="nvidia_com_mig_1g_10gb"),
                pod("middle", "m", [(0, 1)], 7, 14, "mid", resource="nvidia_com_mig_3g_40gb"),
                pod("whole", "m", [4], 0, 7, "big"),
            ],
            {**busy("m", [(0, 9)], 0, 14, 30), **busy("m", [(0, 1)], 7, 14, 2), **busy("m", [4], 0, 7, 99)},
        ),
        {
            "allocated_gpu_hours": "12",
            "active_gpu_hours": "9",
            "idle_gpu_hours": "3",
            "cost": "96",
            "idle_cost": "24",
            "node_cost": "896",
        },
        BOOK,
    ),
    Case(
        "mig-single",
        "Two A100s in 14 plain nvidia.com/gpu that are 1g.5gb: 3 + 1 slices x 7 h = 4 GPU-hours at $4.20 = $16.80; "
        "gpu.count says 14, there are 2.",
        fleet(
            7,
            [
                node(
                    "g",
                    "a2-highgpu-2g",
                    0,
                    7,
                    mig={"GPU-g-0": _SEVENTHS, "GPU-g-1": _SEVENTHS},
                    mig_single="1g.5gb",
                )
            ],
            [pod("three", "g", [(0, 7), (0, 8), (1, 7)], 0, 7), pod("one", "g", [(1, 13)], 0, 7, "labs")],
            {**busy("g", [(0, 7), (0, 8)], 0, 7, 45), **busy("g", [(1, 7)], 0, 7, 60)},
        ),
        {
            "allocated_gpu_hours": "4",
            "active_gpu_hours": "3",
            "idle_gpu_hours": "1",
            "cost": "16.8",
            "node_cost": "58.8",
        },
        BOOK,
    ),
    Case(
        "mig-single-time-sliced",
        "Seven 1g.5gb per A100, each in 4 slots: one slot is 1/28 GPU. Two slots x 14 h = 1 GPU-hour, $4.20; both on "
        "one slice, active half the time.",
        fleet(
            14,
            [
                node(
                    "g",
                    "a2-highgpu-2g",
                    0,
                    14,
                    mig={"GPU-g-0": _SEVENTHS, "GPU-g-1": _SEVENTHS},
                    mig_single="1g.5gb",
                    replicas=4,
                )
            ],
            [pod("left", "g", [(0, 9)], 0, 14), pod("right", "g", [(0, 9)], 0, 14, "labs")],
            busy("g", [(0, 9)], 0, 7, 20),
        ),
        {
            "allocated_gpu_hours": "1",
            "active_gpu_hours": "0.5",
            "idle_gpu_hours": "0.5",
            "cost": "4.2",
            "node_cost": "117.6",
        },
        BOOK,
    ),
    Case(
        "gke-partitions-and-clients",
        "GKE says it its own way: partition 1g.5gb, 7 pods x 4 h of one slice = 4 GPU-hours at $1.40 spot; "
        "another node with 2 clients per GPU: 1 slot x 6 h = 3 GPU-hours at $4.20. $5.60 + $12.60 = $18.20.",
        fleet(
            6,
            [
                node(
                    "g",
                    "a2-highgpu-2g",
                    0,
                    6,
                    "spot",
                    mig={"GPU-g-0": _SEVENTHS, "GPU-g-1": _SEVENTHS},
                    gke_partition="1g.5gb",
                    gke_accelerator="nvidia-tesla-a100",
                ),
                node("c", "a2-highgpu-2g", 0, 6, gke_shared_clients=2, gke_accelerator="nvidia-tesla-a100"),
            ],
            [
                *(pod(f"part-{i}", "g", [(1, 7 + i)], 1, 5) for i in range(7)),
                pod("client", "c", [0], 0, 6, "labs"),
            ],
            {**busy("g", [(1, 7 + i) for i in range(7)], 1, 5, 50), **busy("c", [0], 0, 3)},
        ),
        {
            "allocated_gpu_hours": "7",
            "active_gpu_hours": "5.5",
            "idle_gpu_hours": "1.5",
            "cost": "18.2",
            "spot_gpu_hours": "4",
            "node_cost": "67.2",
        },
        BOOK,
    ),
    Case(
        "a30-quarters",
        "An A30 has four slices, not seven: 1g.6gb x 4 h = 1 GPU-hour, 2g.12gb x 4 h = 2, at $1.20: $3.60.",
        fleet(
            4,
            [
                node(
                    "a",
                    mig={
                        "GPU-a-2": [
                            {"gi": 3, "profile": "1g.6gb"},
                            {"gi": 4, "profile": "1g.6gb"},
                            {"gi": 1, "profile": "2g.12gb"},
                        ]
                    },
                    start=0,
                    end=4,
                    **_A30,
                )
            ],
            [
                pod("one", "a", [(2, 4)], 0, 4, resource="nvidia_com_mig_1g_6gb"),
                pod("two", "a", [(2, 1)], 0, 4, resource="nvidia_com_mig_2g_12gb"),
            ],
            {**busy("a", [(2, 4)], 0, 4), **busy("a", [(2, 1)], 0, 1)},
        ),
        {
            "allocated_gpu_hours": "3",
            "active_gpu_hours": "1.5",
            "idle_gpu_hours": "1.5",
            "cost": "3.6",
            "node_cost": "19.2",
        },
        BOOK,
    ),
    Case(
        "time-slicing",
        "Three slots of an A10G (nvidia.com/gpu.shared, 3 a GPU) x 5 h are 5 GPU-hours, $6 and never $18; "
        "on L4s in 5 slots (plain name) two pods x 5 h are 2 GPU-hours, $2.40.",
        fleet(
            5,
            [
                node("t", "g5.xlarge", 0, 5, replicas=3, shared_resource="nvidia_com_gpu_shared"),
                node("w", "g6.12xlarge", 0, 5, replicas=5),
            ],
            [
                *(
                    pod(f"slot-{i}", "t", [0], 0, 5, "packed", resource="nvidia_com_gpu_shared")
                    for i in range(3)
                ),
                pod("chat-a", "w", [1], 0, 5, "chat"),
                pod("chat-b", "w", [1], 0, 5, "chat"),
            ],
            {**busy("t", [0], 0, 4, 60), **busy("w", [1], 0, 5, 2)},
        ),
        {
            "allocated_gpu_hours": "7",
            "active_gpu_hours": "4",
            "idle_gpu_hours": "3",
            "cost": "8.4",
            "node_cost": "30",
        },
        BOOK,
    ),
    Case(
        "mps-slots",
        "MPS in 2 slots: one pod holds half an A10G for 6 h = 3 GPU-hours, $3.60; the other half is unallocated.",
        fleet(
            6,
            [node("t", "g5.xlarge", 0, 6, replicas=2, sharing="mps")],
            [pod("half", "t", [0], 0, 6)],
            busy("t", [0], 0, 6, 5),
        ),
        {
            "allocated_gpu_hours": "3",
            "active_gpu_hours": "3",
            "unallocated_gpu_hours": "3",
            "cost": "3.6",
            "node_cost": "7.2",
        },
        BOOK,
    ),
    Case(
        "one-label-for-three",
        "Three of three slots on a node's only GPU, one of them labeled: all are measured. 9 h / 3 x 3 = 9 GPU-hours, "
        "6 active, $10.80.",
        fleet(
            9,
            [node("t", "g5.xlarge", 0, 9, replicas=3)],
            [pod(f"slot-{i}", "t", [0], 0, 9, "packed", keep_until=at(9)) for i in range(3)],
            busy("t", [0], 0, 6, 50),
            label_one=True,
        ),
        {
            "allocated_gpu_hours": "9",
            "active_gpu_hours": "6",
            "idle_gpu_hours": "3",
            "cost": "10.8",
            "unallocated_gpu_hours": "0",
        },
        BOOK,
    ),
    Case(
        "amd",
        "amd.com/gpu is allocated and priced, its activity unmeasured: 2 of 8 MI300X x 3 h at $6.50 = 6 GPU-hours, $39.",
        fleet(
            3,
            [node("x", "Standard_ND96isr_MI300X_v5", 0, 3, shared_resource="amd_com_gpu", dcgm=False)],
            [pod("rocm", "x", [0, 1], 0, 3, resource="amd_com_gpu", devices=[])],
            {},
        ),
        {"allocated_gpu_hours": "6", "unmeasured_gpu_hours": "6", "cost": "39", "node_cost": "156"},
        [*BOOK, "azure,,,Standard_ND96isr_MI300X_v5,on_demand,52.00,USD,"],
    ),
]
