"""Sources of GPU activity for Slurm jobs: devices listed by scontrol, and plugins with and without
measurements."""

from __future__ import annotations

import json

from tests.unit.slurm_words import FIELDS, Measured, Scene, T, jobs, rows, scene, text

# On n2, the first of two A100 and the first of two V100 are busy; job 1 has both A100, job 2 the idle V100.
DEVICES = {1: "gpu:a100:2(IDX:0-1)", 2: "gpu:v100:1(IDX:3)"}
DETAILS = [
    f"JobId={n} JobName=a=b\n   SubmitTime={T} StartTime={T}\n   NodeList=n2 NumNodes=1\n"
    f"   TRES=cpu=1,gres/gpu=1\n     Nodes=n2 CPU_IDs=0-3 Mem=100 GRES={gres}\n   Power=\n\n"
    for n, gres in DEVICES.items()
]
SHOWN = {
    "text": "".join(DETAILS),
    "oneliner": "".join(one.replace("\n  ", "") for one in DETAILS),
    "json": json.dumps({"meta": {}, "jobs": [
        {"accrue_time": 0, "job_id": n, "submit_time": T, "nodes": "n2", "gres_detail": [gres]} for n, gres in DEVICES.items()
    ]}),
}  # fmt: skip
USED = [*FIELDS, "TRESUsageInTot", "TRESUsageInAve"]


def gpuutil(
    total: str, average: str, shell: str = "cpu=00:01:00,gres/gpumem=9M,gres/gpuutil=0,mem=1M"
) -> str:
    """Two GPUs for two hours: a step on both in the second hour, next to an idle shell step."""
    total, average = (f"cpu=00:01:00,gres/gpumem=9M,gres/gpuutil={one},mem=1M" if one != "-" else one
                      for one in (total, average))  # fmt: skip
    return text(jobs(f"""
        job     start  end nodes gpus   TRESUsageInTot TRESUsageInAve
        1           0 7200 n1    a100:2 -              -
        1.batch     0 7200 n1    a100:2 {shell}        {shell}
        1.0      3600 7200 n1    a100:2 {total}        {average}"""), fields=USED)  # fmt: skip


#: A one-hour job on each model: gpuutil and gpumem of its batch step, next to an external step with zeros,
#: and the mean utilization. Zeros count if memory was used or the model ever had a measurement. "Infinite"
#: (all bits set) never counts, as a sum, as a mean over tasks, or with a unit; the zeros of the shell next to
#: it are then not a measurement either.
PLUGINS = rows("""
    model util                 memory               mean
    a100  90                   40G                  0.9
    a100  0                    400M                 0
    a100  0                    0                    0
    a100  18446744073709551615 18446744073709551615 -
    mi210 0                    0                    -
    gh200 0                    0                    -
    gh200 0                    18446744073709551615 -
    h200  0                    1M                   0
    a40   18446744073709551615 0                    -
    a40   16777216T            16E                  -
    a40   4611686018427387903  0                    -
    v100  0.01K                1G                   0.1024""")


def plugins() -> Scene:
    table, measured = "job start end nodes gpus TRESUsageInTot TRESUsageInAve\n", dict[str, Measured]()
    for number, row in enumerate(PLUGINS, 1):
        run = "0 3600 {model} {model}:1".format(**row)
        used = "cpu=1,gres/gpumem={memory},gres/gpuutil={util},mem=1M".format(**row)
        none = "cpu=1,gres/gpumem=0,gres/gpuutil=0,mem=1M"
        table += (
            f"{number} {run} - -\n{number}.batch {run} {used} {used}\n{number}.extern {run} {none} {none}\n"
        )
        mean = float(row["mean"]) if row["mean"] else None
        measured[f"{number}"] = (
            (0, 0, 1, None) if mean is None else (float(mean > 0), float(mean == 0), 0, mean)
        )
    nodes = "".join(
        f"NodeName={name} Gres=gpu:{name}:8 Partitions=gpu\n" for name in {row["model"] for row in PLUGINS}
    )
    return scene(text(jobs(table), fields=USED), "", nodes, measured=measured)
