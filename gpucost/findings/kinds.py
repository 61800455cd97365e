"""The kinds of findings, in the order in which they lay claim to GPU time: what nobody uses first, what is bought dear last."""

from __future__ import annotations

from gpucost.findings.view import Kind

KINDS = (
    Kind("idle_notebook", "Idle notebook", "release its GPUs when it is idle, or end it"),
    Kind("idle_workload", "Idle workload", "ask its owner whether it is still needed"),
    Kind("over_requested", "GPUs asked for, never used", "ask for as many GPUs as are used"),
    Kind("over_provisioned", "Replicas or GPUs to spare", "fewer replicas, a shared GPU, or a smaller one"),
    Kind("off_peak", "Serving idle off its peak", "scale it down outside of those hours"),
    Kind("on_demand_training", "Training on demand", "move it to spot, with checkpoints"),
    Kind("empty_nodes", "Empty nodes", "let the autoscaler remove them sooner"),
    Kind("steady_on_demand", "Steady use on demand", "commit to the base"),
    Kind("data_stall", "GPUs waiting for data", "cache and prefetch its data, or add workers that load it"),
    Kind("lost_work", "Work lost to failures", "write checkpoints more often, and mend what fails"),
    Kind("slow_start", "Slow starts", "keep images on nodes, or make them smaller"),
    Kind("fragmentation", "GPUs too few to use", "pack pods closer, or ask for sizes that fit"),
    Kind("unavailable", "GPUs that cannot be used", "repair these nodes, or give them back"),
)
BY_NAME = {kind.name: kind for kind in KINDS}
