"""Cases about the cost basis: a node's price split into GPU, cores and memory."""

from tests.replay.cases.words import Case, busy, fleet, node, pod

#: What any host costs, and A2's own: 24 cores and 170 GiB are $1.40.
_UNITS = {"gcp/us-central1/a2": ["0.03", "0.004"], "gcp/europe-west4/a2": ["0.03", "0.004"]}
_G5 = {"vcpus": 4, "memory_gib": 16}

BASES = [
    Case(
        "basis-opencost",
        "One A10G, 4 cores and 16 GiB at OpenCost's defaults are 0.95 + 0.126444 + 0.067792 = $1.144236, which the node costs. A "
        "trainer with the GPU and half the host for 5 h: 4.75 + 0.31611 + 0.16948; a helper without GPU, a quarter of the host "
        "for 8 h: 0.388472. Together $5.624062; 2 h idle cost the GPU alone, $1.90.",
        fleet(
            10,
            [node("n", "g5.xlarge", 0, 10, **_G5)],
            [
                pod("trainer", "n", [0], 1, 6, cpu=2, memory_gib=8),
                pod("helper", "n", [], 0, 8, "labs", cpu=1, memory_gib=4),
            ],
            busy("n", [0], 1, 4),
            cost_basis="opencost",
        ),
        {
            "allocated_gpu_hours": "5",
            "idle_gpu_hours": "2",
            "unallocated_gpu_hours": "5",
            "cost": "5.624062",
            "idle_cost": "1.9",
            "node_cost": "11.44236",
        },
        [",,,g5.xlarge,on_demand,1.144236,USD,"],
    ),
    Case(
        "basis-scad-over-requested",
        "90 : 36 : 16 of $1.42. Pod a, half the GPU, 4 of 4 cores (2 + a sidecar's 2, 3 at the start) and 12 of 16 GiB for 4 h; "
        "in the last two, b asks for half the GPU, 4 cores and 8 GiB, so that each gets half the cores and 12 / 20 or 8 / 20 of "
        "the memory. a: 1.80 + 0.72 + 0.36 + 0.24 + 0.192 = $3.312; b: 0.90 + 0.36 + 0.128 = $1.388.",
        fleet(
            6,
            [node("n", "g5.xlarge", 0, 6, replicas=2, **_G5)],
            [
                pod(
                    "a",
                    "n",
                    [0],
                    0,
                    4,
                    containers=[
                        {"name": "main", "count": 1, "cpu": 2, "memory_gib": 8},
                        {"name": "proxy", "count": 0, "role": "sidecar", "cpu": 2, "memory_gib": 4},
                        {"name": "fetch", "count": 0, "role": "init", "cpu": 3, "memory_gib": 2},
                    ],
                ),
                pod("b", "n", [0], 2, 4, "labs", cpu=4, memory_gib=8),
            ],
            busy("n", [0], 0, 6),
            cost_basis="scad",
        ),
        {"allocated_gpu_hours": "3", "active_gpu_hours": "3", "cost": "4.7", "node_cost": "8.52"},
        [",,,g5.xlarge,on_demand,1.42,USD,"],
    ),
    Case(
        "basis-sku-fallback",
        "AWS sells no parts, so A2's host stands for every host. "
        "g5.xlarge is listed at $1, its host at 4 x 0.03 + 16 x 0.004 = 0.184: the GPU is 81.6 % of whatever the node costs, "
        "here spot, $0.50 and from 03:00 on $1. The GPU and half the host: 90.8 % x (2 x 0.50 + 2 x 1) = $2.724. The host of a "
        "p5.48xlarge listed at $9.20 would be 5.76 + 8.192 = $13.952: its GPUs cost nothing, half the cores and a quarter of the "
        "memory for 2 h $9.856.",
        fleet(
            6,
            [
                node("n", "g5.xlarge", 0, 6, "spot", **_G5),
                node("h", "p5.48xlarge", 0, 6, vcpus=192, memory_gib=2048),
            ],
            [
                pod("t", "n", [0], 1, 5, cpu=2, memory_gib=8),
                pod("u", "h", list(range(8)), 0, 2, cpu=96, memory_gib=512),
            ],
            busy("h", list(range(8)), 0, 1),
            cost_basis="sku",
            list_prices={"g5.xlarge": "1.00", "p5.48xlarge": "9.20"},
            unit_prices=_UNITS,
        ),
        {"allocated_gpu_hours": "20", "cost": "12.58", "idle_cost": "2.448", "node_cost": "88.212"},
        [
            ",,,g5.xlarge,spot,0.50,USD,",
            ",,,g5.xlarge,spot,1.00,USD,2026-03-10T03:00:00Z",
            ",,,p5.48xlarge,on_demand,13.952,USD,",
        ],
    ),
    Case(
        "basis-sku",
        "a2-highgpu-2g is listed at $7, its host at 24 x 0.03 + 170 x 0.004 = $1.40; half price by contract: GPUs 2.80, cores "
        "0.36, memory 0.34. One GPU, half the cores and half of the 160 GiB that the node says it has, 4 h: $7. AWS sells no "
        "parts: g5.xlarge less a host like A2's, 81.6 % of $2 for the GPU alone, 2 h: $3.264.",
        fleet(
            6,
            [node("a", "a2-highgpu-2g", 0, 6, vcpus=24, memory_gib=160), node("g", "g5.xlarge", 0, 6, **_G5)],
            [pod("x", "a", [1], 0, 4, cpu=12, memory_gib=80), pod("y", "g", [0], 0, 2)],
            busy("a", [1], 0, 4),
            cost_basis="sku",
            list_prices={"g5.xlarge": "1.00", "a2-highgpu-2g": "7.00"},
            unit_prices=_UNITS,
        ),
        {
            "allocated_gpu_hours": "6",
            "idle_gpu_hours": "2",
            "cost": "10.264",
            "idle_cost": "3.264",
            "node_cost": "33",
        },
        ["gcp,,,a2-highgpu-2g,on_demand,3.50,USD,", ",,,g5.xlarge,on_demand,2.00,USD,"],
    ),
]
