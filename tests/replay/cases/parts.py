"""Cases about parts of devices that others than NVIDIA's device plugin tell: by cores, memory, names and annotations."""

from typing import Any

from tests.replay.cases.words import BOOK, Case, busy, fleet, node, pod

_HAMI = {"offers": {"nvidia_com_gpu": 40}}
_MEMORY = 24576  # MiB of an L4
_GROUP = "5b1f4c52-one"


def _part(
    name: str, number: int, part: str, hours: float, asks: dict[str, int], **more: Any
) -> dict[str, Any]:
    """A pod with one virtual GPU on a device, of which it holds a part."""
    devices = [{"uuid": f"GPU-h-{number}", "part": part}]
    return pod(name, "h", [number], 0, hours, devices=devices, asks=asks, **more)


PARTS = [
    Case(
        "hami-cores-only-and-bare",
        "HAMi offers 40 virtual GPUs of 4 L4s. Cores alone (25 %) and no part at all take all memory: a device each, "
        "2 x 5 h = 10 GPU-hours at $1.20 = $12, never a tenth of it.",
        fleet(
            5,
            [node("h", "g6.12xlarge", 0, 5, **_HAMI)],
            [_part("cores", 0, "1", 5, {"nvidia_com_gpucores": 25}), pod("bare", "h", [1], 0, 5)],
            busy("h", [0, 1], 0, 5),
        ),
        {"allocated_gpu_hours": "10", "active_gpu_hours": "10", "cost": "12", "node_cost": "24"},
        BOOK,
    ),
    Case(
        "hami-memory-and-percentages",
        "6,144 of 24,576 MiB = 1/4; 50 % of the memory = 1/2; 20 % of the memory and 30 % of the cores = 0.3, on one L4: "
        "1.05 held in all is over no node of 4. 4 h x 1.05 = 4.2 GPU-hours, $5.04.",
        fleet(
            4,
            [node("h", "g6.12xlarge", 0, 4, **_HAMI)],
            [
                _part("memory", 0, "1/4", 4, {"nvidia_com_gpumem": 6144}),
                _part("half", 0, "1/2", 4, {"nvidia_com_gpumem_percentage": 50}),
                _part("both", 1, "3/10", 4, {"nvidia_com_gpumem_percentage": 20, "nvidia_com_gpucores": 30}),
            ],
            busy("h", [0, 1], 0, 4),
        ),
        {"allocated_gpu_hours": "4.2", "active_gpu_hours": "4.2", "cost": "5.04"},
        BOOK,
    ),
    Case(
        "hami-scaled-memory",
        "deviceMemoryScaling 2: the node offers 4 x 49,152 MiB. 12,288 of them are 1/4 of an L4, not 1/2: "
        "8 h = 2 GPU-hours, $2.40.",
        fleet(
            8,
            [
                node(
                    "h",
                    "g6.12xlarge",
                    0,
                    8,
                    offers={"nvidia_com_gpu": 40, "nvidia_com_gpumem": 4 * 2 * _MEMORY},
                )
            ],
            [_part("quarter", 2, "1/4", 8, {"nvidia_com_gpumem": 12288})],
            busy("h", [2], 0, 4),
        ),
        {"allocated_gpu_hours": "2", "active_gpu_hours": "1", "idle_gpu_hours": "1", "cost": "2.4"},
        BOOK,
    ),
    Case(
        "hami-two-devices",
        "30 % of the cores and 1/8 of the memory of each of two L4s are 0.6; the next container's bare one is whole; "
        "150 % of a device's memory is one device. (0.6 + 1 + 1) x 5 h = 13 GPU-hours, $15.60.",
        fleet(
            5,
            [node("h", "g6.12xlarge", 0, 5, **_HAMI)],
            [
                pod(
                    "pair",
                    "h",
                    [],
                    0,
                    5,
                    devices=[{"uuid": f"GPU-h-{n}", "part": "8/15"} for n in range(3)],
                    containers=[
                        {
                            "name": "two",
                            "count": 2,
                            "asks": {"nvidia_com_gpucores": 30, "nvidia_com_gpumem": 3072},
                        },
                        {"name": "one", "count": 1},
                    ],
                ),
                _part("more", 3, "1", 5, {"nvidia_com_gpumem": 36864}),
            ],
            busy("h", [0, 1, 2, 3], 0, 5),
        ),
        {"allocated_gpu_hours": "13", "active_gpu_hours": "13", "cost": "15.6"},
        BOOK,
    ),
    Case(
        "volcano-virtual-gpus",
        "Volcano: 2 virtual GPUs with 12,288 MiB each are 1 GPU, one with 40 % of the cores and 10 % of the memory 0.4, "
        "a bare one 1: 2.4 x 5 h = 12 GPU-hours, $14.40.",
        fleet(
            5,
            [node("h", "g6.12xlarge", 0, 5, offers={"nvidia_com_gpu": 0, "volcano_sh_vgpu_number": 40})],
            [
                pod(
                    "two",
                    "h",
                    [0, 1],
                    0,
                    5,
                    resource="volcano_sh_vgpu_number",
                    devices=[{"uuid": f"GPU-h-{n}", "part": "1/2"} for n in range(2)],
                    asks={"volcano_sh_vgpu_memory": 12288},
                ),
                _part(
                    "cores",
                    2,
                    "2/5",
                    5,
                    {"volcano_sh_vgpu_cores": 40, "volcano_sh_vgpu_memory_percentage": 10},
                    resource="volcano_sh_vgpu_number",
                ),
                pod("bare", "h", [3], 0, 5, resource="volcano_sh_vgpu_number"),
            ],
            busy("h", [0, 1, 2, 3], 0, 5),
        ),
        {"allocated_gpu_hours": "12", "active_gpu_hours": "12", "cost": "14.4"},
        BOOK,
    ),
    Case(
        "aliyun-gpu-memory",
        "aliyun.com/gpu-mem: 92 GiB of 4 GPUs are 23 each. A pod with 11.5 of them holds half a GPU, one with 46 two: "
        "2.5 x 4 h = 10 GPU-hours, $12.",
        fleet(
            4,
            [
                node(
                    "h",
                    "g6.12xlarge",
                    0,
                    4,
                    offers={"nvidia_com_gpu": 0, "aliyun_com_gpu_mem": 92, "aliyun_com_gpu_count": 4},
                )
            ],
            [
                _part("half", 0, "1/2", 4, {"aliyun_com_gpu_mem": 11.5}, count=0),
                pod(
                    "two",
                    "h",
                    [1, 2],
                    0,
                    4,
                    count=46,
                    resource="aliyun_com_gpu_mem",
                    devices=[{"uuid": f"GPU-h-{n}", "part": "1"} for n in (1, 2)],
                ),
            ],
            busy("h", [0, 1, 2], 0, 4),
        ),
        {"allocated_gpu_hours": "10", "active_gpu_hours": "10", "cost": "12"},
        BOOK,
    ),
    Case(
        "kai-fractions",
        "KAI reserves two L4s; three pods in two namespaces share them: 0.5 + 0.25 of one, 6,144 MiB = 1/4 of the other, and the "
        "reservations hold nothing. 4 h x 1 = 4 GPU-hours, $4.80; the rest of both is unallocated.",
        fleet(
            4,
            [node("h", "g6.12xlarge", 0, 4)],
            [
                pod(
                    f"gpu-reservation-{n}",
                    "h",
                    [],
                    0,
                    4,
                    "kai-resource-reservation",
                    count=1,
                    labels={"runai_gpu_group": f"{_GROUP}-{n}"},
                    devices=[{"uuid": f"GPU-h-{n}", "part": "0"}],
                )
                for n in range(2)
            ]
            + [
                pod(
                    name,
                    "h",
                    [],
                    0,
                    4,
                    namespace,
                    count=0,
                    annotations=asked,
                    labels={"runai_gpu_group": f"{_GROUP}-{n}"},
                    devices=[{"uuid": f"GPU-h-{n}", "part": part, "labeled": False}],
                )
                for name, namespace, n, part, asked in (
                    ("half", "research", 0, "1/2", {"gpu_fraction": "0.5"}),
                    ("quarter", "apps", 0, "1/4", {"gpu_fraction": "0.25"}),
                    ("memory", "apps", 1, "1/4", {"gpu_memory": "6144"}),
                )
            ],
            {**busy("h", [0], 0, 4), **busy("h", [1], 0, 2)},
        ),
        {
            "allocated_gpu_hours": "4",
            "active_gpu_hours": "3.5",
            "idle_gpu_hours": "0.5",
            "cost": "4.8",
            "unallocated_gpu_hours": "12",
        },
        BOOK,
    ),
    Case(
        "amd-partitions",
        "Six MI300X whole and two in 8 partitions each (cpx_nps4): 12 partitions are 1.5 GPUs, and one is whole: "
        "2.5 x 2 h = 5 GPU-hours at $6.50 = $32.50.",
        fleet(
            2,
            [
                node(
                    "x",
                    "metal-mi300x",
                    0,
                    2,
                    shared_resource="amd_com_gpu",
                    dcgm=False,
                    offers={"amd_com_gpu": 6, "amd_com_cpx_nps4": 16},
                )
            ],
            [
                pod(
                    "parts",
                    "x",
                    [],
                    0,
                    2,
                    resource="amd_com_cpx_nps4",
                    count=12,
                    devices=[{"uuid": "GPU-x-0", "part": "3/2"}],
                ),
                pod("whole", "x", [], 0, 2, resource="amd_com_gpu", count=1),
            ],
            {},
        ),
        {"allocated_gpu_hours": "5", "unmeasured_gpu_hours": "5", "cost": "32.5", "capacity_gpu_hours": "16"},
        [*BOOK, "azure,,,metal-mi300x,on_demand,52.00,USD,"],
    ),
    Case(
        "neuron-cores-of-an-unknown-type",
        "An instance type that no catalog knows offers 16 Neuron devices and 64 cores: 8 cores are 2 devices, 1 device is 1. "
        "3 x 4 h = 12 device-hours at $2 = $24.",
        fleet(
            4,
            [
                node(
                    "t",
                    "trn3.48xlarge",
                    0,
                    4,
                    shared_resource="aws_amazon_com_neuron",
                    dcgm=False,
                    gfd=False,
                    offers={"aws_amazon_com_neuroncore": 64, "aws_amazon_com_neurondevice": 16},
                )
            ],
            [
                pod(
                    "cores",
                    "t",
                    [],
                    0,
                    4,
                    resource="aws_amazon_com_neuroncore",
                    count=8,
                    devices=[{"uuid": "GPU-t-0", "part": "2"}],
                ),
                pod("one", "t", [], 0, 4, resource="aws_amazon_com_neurondevice", count=1),
            ],
            {},
        ),
        {"allocated_gpu_hours": "12", "unmeasured_gpu_hours": "12", "cost": "24", "capacity_gpu_hours": "64"},
        [*BOOK, ",,,trn3.48xlarge,on_demand,32.00,USD,"],
    ),
]
