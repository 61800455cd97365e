"""`gpucost quote --file`: GPUs of manifests, price, hours of earlier runs, budgets."""

# ruff: noqa: E501 - a manifest is one row of a table

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.errors import GpucostError
from gpucost.periods import from_ms
from gpucost.questions.quote import files
from gpucost.questions.request import Request
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import cells, text_rows
from tests.unit.command import answer, check_end, run

#: Node, GPUs, from hour, to hour, Kind/name: an on-demand GPU costs 5.00 an hour, a spot GPU 2.00.
RUNS = """
own   | 01   |  1 |  5 | Job/sft-1
own   | 01   |  6 | 12 | Job/sft-2
own   | 6    |  7 | 12 | Job/sft-2
own   | 01   | 13 | 21 | Job/sft-3
own   | 01   | 22 | 32 | Job/sft-4-x7k2p
own   | 01   | 33 | 34 | Job/sft-5
own   | 2    | 60 | 96 | Job/sft-6
spot  | 01   |  1 |  7 | Job/sft-21
spot  | 01   | 10 | 16 | Job/sft-22
spot  | 01   | 20 | 26 | Job/sft-23
spot  | 2    | 20 | 21 | Job/eval-1
own   | 3    | 40 | 43 | Job/again
own   | 3    | 43.5 | 45 | Job/again
own   | 3    | 50 | 52 | Job/again
own   | 4    |  2 | 90 | Deployment/sft
spot  | 6    |  2 | 96 | Deployment/live
spot  | 3    | 60 | 61 | Job/again
spot  | 4    |  1 |  3 | CronJob/night-29381000
spot  | 5    |  2 |  5 | CronJob/night-29381060
"""
SETTINGS = """
[[budgets]]
name = "one"
team = "one"
amount = 1400
[[budgets]]
name = "two"
team = "two"
amount = 5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quote")
    nodes = [node("own", "p4de.24xlarge", 0, 96), node("spot", "p4de.24xlarge", 0, 96, "spot")]
    pods = []
    for where, gpus, start, end, owner in text_rows(RUNS):
        kind, name = owner.split("/")
        owned: dict[str, Any] = {"owner": ["Job", "night"] if kind == "CronJob" else [kind, name]}
        owned["end_phase"] = "Failed" if name == "sft-5" else "Succeeded"
        place = (where, list(map(int, gpus)), float(start), float(end))
        pods.append(pod(f"{name}-{start}-{gpus}", *place, **owned))
    pods.append(pod("sft-50-0", "own", [5], 1, 51, "eval", owner=["Job", "sft-50"]))
    described = fleet(
        96, nodes, pods, busy("own", [0], 1, 5), scrape=300, teams=[{"name": "one", "namespaces": ["train"]}]
    )
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]))
    config = write_config(described, folder, folder / "prices.csv", settings=SETTINGS)
    pipeline.attribute(config, load(described, scrape(described, lean=True), config, 96))
    return folder


@pytest.fixture
def work(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("gpucost.toml", "gpucost.duckdb"):
        shutil.copyfile(folder / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Request, "now", from_ms(at(96) * 1000))
    return tmp_path


def job(name: str = "sft-9", kind: str = "Job", spec: str = "", **more: Any) -> str:
    """The text of a manifest with a pod of two GPUs in namespace `train`."""
    pod_spec = "".join(f"\n      {key}: {value}" for key, value in more.items())
    return f"""
kind: {kind}
metadata: {{name: {name}, namespace: train}}
spec:
  {spec or "paused: false"}
  template:
    spec:{pod_spec}
      containers:
      - resources: {{limits: {{nvidia.com/gpu: 2}}}}
"""


def quoted(text: str, options: str = "", code: int = 0) -> Any:
    Path("job.yaml").write_text(text)
    document = answer(f"quote -f job.yaml {options}", code)
    assert document["schema"] == "gpucost.quote.files/1"
    return document


PLACED = (
    "workload gpus capacity_type price_per_gpu_hour runs hours_source hours_p50 hours_p95 cost_p50 cost_p95"
)


def test_cost_is_gpus_times_price_times_hours_of_earlier_runs(work: Path) -> None:
    """Of Job/sft-*, one run failed and one still runs. A restart within an hour belongs to its run.

    A name with runs of its own has no others. Pods of one CronJob at one time are of several jobs.
    """
    found = [row for name in ("sft-9", "again", "sft-2", "night") for row in quoted(job(name))["workloads"]]
    assert cells(found, PLACED) == text_rows("""
        Job/sft-9 | 2.0 | on_demand | 5.0 | 4 | history | 7.0 | 9.7 | 70.0 | 97.0
        Job/again | 2.0 | on_demand | 5.0 | 2 | history | 3.25 | 4.375 | 32.5 | 43.75
        Job/sft-2 | 2.0 | on_demand | 5.0 | 1 | history | 6.0 | 6.0 | 60.0 | 60.0
        Job/night | 2.0 | spot | 2.0 | 2 | history | 2.5 | 2.95 | 10.0 | 11.8
    """)
    cheaper = "capacity_type runs price_per_gpu_hour hours_p50"
    assert cells([found[0]["cheaper"]], cheaper) == text_rows("spot | 3 | 2.0 | 6.0")
    # one run proves no cheaper place
    assert found[1]["cheaper"] is None


def test_run_at_the_end_of_its_cluster_is_not_finished(work: Path) -> None:
    """Another cluster was collected for a day longer."""
    with Store(work / "gpucost.duckdb").write() as con:
        con.execute("INSERT INTO collected SELECT 'other', from_ms, to_ms + 86400000 FROM collected")
    assert quoted(job())["workloads"][0]["runs"] == 4


def test_hours_without_runs(work: Path) -> None:
    texts = (
        job("sft", "Deployment", "replicas: 3"),
        job("live", "Deployment", "replicas: 1"),
        job("new"),
        job("new", spec="activeDeadlineSeconds: 7200"),
        job("eval-2"),
    )
    found = [row for text in texts for row in quoted(text, code=3 if "replicas" in text else 0)["workloads"]]
    # from the 14th to the end of March are 18 days
    assert cells(found, PLACED) == text_rows("""
        Deployment/sft | 6.0 | on_demand | 5.0 | 5 | month | 432.0 | 432.0 | 12960.0 | 12960.0
        Deployment/live | 2.0 | spot | 2.0 | 0 | month | 432.0 | 432.0 | 1728.0 | 1728.0
        Job/new | 2.0 | on_demand | 5.0 | 0 | limit | None | None | None | None
        Job/new | 2.0 | on_demand | 5.0 | 0 | limit | None | 2.0 | None | 20.0
        Job/eval-2 | 2.0 | spot | 2.0 | 1 | history | 1.0 | 1.0 | 4.0 | 4.0
    """)
    (row,) = quoted(job("new"), "--hours 3")["workloads"]
    assert (row["hours_source"], row["cost_p50"], row["cost_p95"]) == ("option", 30.0, 30.0)


def test_labels_of_nodes_select_the_place(work: Path) -> None:
    spot = "{karpenter.sh/capacity-type: spot, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-SHARED}"
    (row,) = quoted(job(nodeSelector=spot))["workloads"]
    assert (row["capacity_type"], row["cost_p50"], row["cheaper"]) == ("spot", 24.0, None)
    for key, text in (("cloud.google.com/gke-spot", "'true'"), ("eks.amazonaws.com/capacityType", "SPOT")):
        assert quoted(job(nodeSelector=f"{{{key}: {text}}}"))["workloads"][0]["capacity_type"] == "spot"
    kept = "{node.kubernetes.io/instance-type: p4de.24xlarge, disk: ssd}"
    assert quoted(job(nodeSelector=kept))["workloads"][0]["gpu_model"] == "A100-SXM4-80GB"
    Path("job.yaml").write_text(job(nodeSelector="{nvidia.com/gpu.product: NVIDIA-L4}"))
    check_end("quote -f job.yaml", "1", "job.yaml: no GPU of the store fits Job/sft-9")


def test_cost_above_the_rest_of_a_budget_exits_with_3(work: Path) -> None:
    """Team one spent 1,241.50 of 1,400. The files of a team add up; the budget of team two pays for none."""
    assert quoted(job())["budgets"] == [{"name": "one", "team": "one", "left": 158.5, "cost_p95": 97.0}]
    Path("other.yaml").write_text(job("sft-10"))
    document = quoted(job(), "-f other.yaml", 3)
    assert [row["cost_p95"] for row in document["budgets"]] == [194.0]
    lines = run("quote -f job.yaml -f other.yaml --brief", 3).stdout
    assert lines == "".join(
        f"{file}.yaml: over budget one: $158.50 left; Job/{name}: 2 × A100-SXM4-80GB, $70.00 to $97.00; cheaper: A100-SXM4-80GB, spot\n"
        for file, name in (("job", "sft-9"), ("other", "sft-10"))
    )


C = "containers: [{resources: {limits: {nvidia.com/gpu: %s}}}]"
TEMPLATE = "template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: %s}}}]}}"
#: Kind, spec, and its GPUs.
KINDS = f"""
Pod         | {C % 3} | 3
Job         | {{parallelism: 4, {TEMPLATE % 2}}} | 8
Job         | {{parallelism: null, activeDeadlineSeconds: null, {TEMPLATE % 2}}} | 2
Deployment  | {{replicas: null, {TEMPLATE % 4}}} | 4
CronJob     | {{jobTemplate: {{spec: {{parallelism: 2, {TEMPLATE % 1}}}}}}} | 2
Deployment  | {{replicas: 3, {TEMPLATE % 4}}} | 12
StatefulSet | {{{TEMPLATE % 1}}} | 1
JobSet      | {{replicatedJobs: [{{replicas: 2, template: {{spec: {{parallelism: 4, {TEMPLATE % 8}}}}}}}, {{{TEMPLATE % 1}}}]}} | 65
PyTorchJob  | {{pytorchReplicaSpecs: {{Master: {{replicas: 1, {TEMPLATE % 8}}}, Worker: {{replicas: 3, {TEMPLATE % 8}}}}}}} | 32
MPIJob      | {{mpiReplicaSpecs: {{Launcher: {{{TEMPLATE % 0}}}, Worker: {{replicas: 2, {TEMPLATE % 4}}}}}}} | 8
RayJob      | {{rayClusterSpec: {{headGroupSpec: {{{TEMPLATE % 1}}}, workerGroupSpecs: [{{groupName: a, replicas: 2, {TEMPLATE % 4}}}, {{groupName: b, minReplicas: 1, {TEMPLATE % 2}}}, {{groupName: c, {TEMPLATE % 2}}}]}}}} | 11
"""


@pytest.mark.parametrize(("kind", "spec", "gpus"), text_rows(KINDS))
def test_gpus_of_each_kind(kind: str, spec: str, gpus: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    body = spec if spec.startswith("{") else f"{{{spec}}}"
    file.write_text(
        f"kind: Service\nspec: {{}}\n---\nkind: {kind}\nmetadata: {{generateName: a-}}\nspec: {body}\n---\n"
    )
    (found,) = files.read(file)
    assert (found.workload, found.units) == (f"{kind}/a-", {"nvidia_com_gpu": int(gpus)})


INIT = "initContainers: [{%sresources: {requests: {nvidia.com/gpu: %s, cpu: 500m}}}]"
#: The spec of a pod, and its units.
PODS = f"""
{INIT % ("", 5)}, {C % 3} | nvidia_com_gpu=5
{INIT % ("", 1)}, {C % 3} | nvidia_com_gpu=3
{INIT % ("restartPolicy: Always, ", 1)}, {C % 3} | nvidia_com_gpu=4
containers: [{{resources: {{limits: {{nvidia.com/gpu: 1}}}}}}, {{resources: {{limits: {{nvidia.com/gpu: 2, cpu: 4}}}}}}] | nvidia_com_gpu=3
containers: [{{resources: {{limits: {{nvidia.com/mig-1g.10gb: 2}}, requests: null}}}}, {{name: a}}] | nvidia_com_mig_1g_10gb=2
containers: [{{resources: {{limits: {{amd.com/gpu: '8', rdma/hca: 1}}}}}}] | amd_com_gpu=8
"""


@pytest.mark.parametrize(("spec", "units"), text_rows(PODS))
def test_gpus_of_containers(spec: str, units: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"kind: Pod\nmetadata: {{name: a}}\nspec: {{{spec}}}\n")
    (found,) = files.read(file)
    assert "".join(f"{name}={count}" for name, count in found.units.items()) == units


#: Directives, workload, account, units, labels, seconds and jobs of an array.
SCRIPTS = """
-N 2 --gres=gpu:a100:4 -A bio -J fold -t 1-12 -a 0-3%2 | Job/fold | bio | gres_gpu_a100=8 | gpu=a100 | 129600 | 4
--gpus=8 --time=90 --exclusive --nodes=2-4 | Job/a.sh | None | gres_gpu=8 | | 5400 | 1
-G a100:8 --time 2:30:00 --array=1,3,5-7,0-15:4 | Job/a.sh | None | gres_gpu_a100=8 | gpu=a100 | 9000 | 9
--gpus-per-task=2 --ntasks=3 --time=90:30 | Job/a.sh | None | gres_gpu=6 | | 5430 | 1
--gpus-per-task=1 -N2 --ntasks-per-node=4 | Job/a.sh | None | gres_gpu=8 | | 0 | 1
--gpus-per-node=h100:4 -N2 --job-name="a b" | Job/a b | None | gres_gpu_h100=8 | gpu=h100 | 0 | 1
--gpus=1 --time=UNLIMITED | Job/a.sh | None | gres_gpu=1 | | 0 | 1
--gpus=1 -t infinite | Job/a.sh | None | gres_gpu=1 | | 0 | 1
--gres=gpu:2,nvme:1 -N3 -t 1-2:30 | Job/a.sh | None | gres_gpu=6 | | 95400 | 1
"""


@pytest.mark.parametrize(("directives", "expected"), [(row[0], row[1:]) for row in text_rows(SCRIPTS)])
def test_directives_of_sbatch(directives: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    """Directives after the first command are none."""
    file = tmp_path / "a.sh"
    file.write_text(
        f"#!/bin/bash\n\n#SBATCH {directives}\n  srun python train.py\n#SBATCH --gpus=99 --time=1\n"
    )
    (found,) = files.read(file)
    units, labels = (
        " ".join(f"{key}={text}" for key, text in each.items()) for each in (found.units, found.labels)
    )
    assert (
        found.workload,
        str(found.namespace),
        units,
        labels,
        str(found.seconds),
        str(found.tasks),
    ) == expected


def test_array_without_jobs_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.sh"
    file.write_text("#!/bin/sh\n#SBATCH --gpus=1 --array=x\n")
    with pytest.raises(GpucostError, match="invalid --array 'x'"):
        files.read(file)


@pytest.mark.parametrize("directive", ["--gres=shard:8", "--tres-per-task=gres/gpu:1", "--gpus-per-socket=1"])
def test_directives_of_gpus_that_are_not_read_are_an_error(directive: str, tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(f"#!/bin/sh\n#SBATCH {directive}\n")
    with pytest.raises(GpucostError, match="GPUs are read from --gpus, --gpus-per-node"):
        files.read(file)


def test_jobs_of_an_array_add_up(work: Path) -> None:
    Path("job.sh").write_text("#!/bin/sh\n#SBATCH -J sft-9 -A train --gpus=2 -a 1-2\nsrun x\n")
    (row,) = answer("quote -f job.sh", 3)["workloads"]
    assert cells([row], PLACED) == text_rows(
        "Job/sft-9 | 2.0 | on_demand | 5.0 | 4 | history | 7.0 | 9.7 | 140.0 | 194.0"
    )


#: A manifest, and the message.
REFUSED = f"""
kind: Pod, metadata: {{name: a}}, spec: {{resourceClaims: [{{name: gpu}}], {C % 1}}} | resource claims are not supported
kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{resources: {{claims: [{{name: gpu}}]}}}}]}} | resource claims are not supported
kind: Job, metadata: {{name: a}}, spec: {{tasks: [{{{TEMPLATE % 1}}}]}} | GPUs outside the specs of pods are not supported
kind: Workflow, spec: {{templates: [{{container: {{resources: {{limits: {{nvidia.com/gpu: 1}}}}}}}}]}} | kind Workflow is not supported
kind: Job, metadata: {{name: a}}, spec: {{parallelism: 999999999, {TEMPLATE % 999999999}}} | more than 10,000,000 GPUs
kind: Job, metadata: {{name: a}}, spec: [[1]] | [1] is not an object
kind: DaemonSet, spec: {{{TEMPLATE % 1}}} | kind DaemonSet is not supported
kind: Pod, metadata: {{name: a}}, spec: {{{C % "many"}}} | invalid quantity 'many'
kind: Pod, metadata: {{name: a}}, spec: {{{C % -1}}} | invalid quantity -1
kind: Job, metadata: {{name: a}}, spec: {{parallelism: 1.5, {TEMPLATE % 1}}} | invalid quantity 1.5
kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{resources: {{limits: {{example.com/npu: 1}}}}}}]}} | pricing/resources.csv lacks the resource example.com/npu
kind: Pod, metadata: {{name: a}}, spec: {{containers: 5}} | invalid containers: 5
kind: Pod, metadata: {{name: a}}, spec: {{nodeSelector: 5, {C % 1}}} | invalid nodeSelector: 5
kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{resources: {{limits: 5}}}}]}} | invalid limits: 5
kind: Pod, metadata: {{name: 5}}, spec: {{{C % 1}}} | invalid name: 5
kind: Pod, spec: {{{C % 1}}} | metadata.name is missing
kind: Pod, metadata: {{name: a}}, spec: {{affinity: {{nodeAffinity: {{a: [{{key: nvidia.com/gpu.product}}]}}}}, {C % 1}}} | nodeAffinity is not supported
a: &a 1, kind: Pod, b: *a | aliases (*name) are not supported
kind: Pod, metadata: [1], spec: {{{C % 1}}} | invalid metadata: [1]
kind: [ | while parsing
kind: Pod, metadata: {{name: "a\\ude00"}}, spec: {{{C % 1}}} | cannot read a.yaml
"""


@pytest.mark.parametrize(("text", "message"), text_rows(REFUSED))
def test_broken_manifest_is_one_error_that_names_the_file(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(f"{{{text}}}")
    with pytest.raises(GpucostError) as caught:
        files.read(Path("a.yaml"))
    assert "a.yaml" in caught.value.message and message in caught.value.message


def test_surrogate_pairs_of_json_are_one_character(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text('{kind: Pod, metadata: {name: "a\\ud83d\\ude00"}, spec: {' + C % 1 + "}}")
    assert [each.workload for each in files.read(path)] == ["Pod/a\U0001f600"]


#: Manifests without GPUs.
NO_GPUS = f"""
kind: Service
kind: ConfigMap, data: {{path: /var/log/containers/*.log}}
kind: LimitRange, spec: {{limits: [{{max: {{nvidia.com/gpu: 8}}}}]}}
kind: Pod, metadata: {{name: a}}, spec: {{{C % 0}}}
kind: Deployment, metadata: {{name: a}}, spec: {{replicas: 0, {TEMPLATE % 1}}}
"""


@pytest.mark.parametrize("text", [row for (row,) in text_rows(NO_GPUS)])
def test_files_without_gpus_are_listed(text: str, work: Path) -> None:
    document = quoted(f"{{{text}}}")
    assert (document["workloads"], document["budgets"]) == ([], [])
    Path("other.yaml").write_text(job())
    first, second = run("quote -f job.yaml -f other.yaml --brief").stdout.splitlines()
    assert first == "job.yaml: requests no GPUs" and second.startswith("other.yaml: budget one")


def test_cost_of_a_cron_job_is_of_one_run(work: Path) -> None:
    Path("job.yaml").write_text(
        f"{{kind: CronJob, metadata: {{name: night, namespace: train}}, spec: {{jobTemplate: {{spec: {{{TEMPLATE % 2}}}}}}}}}"
    )
    assert (
        "CronJob/night: 2 × A100-SXM4-80GB, $10.00 to $11.80 per run"
        in run("quote -f job.yaml --brief").stdout
    )


def test_names_keep_to_their_line(work: Path) -> None:
    """A manifest of a pull request is untrusted: its names begin no lines and control no terminal."""
    Path("job.yaml").write_text(job('"sft-9\\n# head\\e[1m"'))
    text = run("quote -f job.yaml --brief").stdout
    assert text.count("\n") == 1 and "\x1b" not in text
    run("quote -f job.yaml --brief -o quote.md")
    brief = Path("quote.md").read_text()
    assert brief.startswith("- job.yaml: ") and brief.count("\n") == 1 and r"\[1m" in brief


def test_missing_file_and_other_options_are_errors(work: Path) -> None:
    check_end("quote -f none.yaml", "1", "cannot read none.yaml: No such file or directory")
    check_end("quote H100 -f none.yaml", "2", "--file takes only --hours and --brief")


def test_slice_is_the_part_of_a_gpu_that_pods_held(work: Path) -> None:
    Path("job.yaml").write_text(job().replace("nvidia.com/gpu: 2", "nvidia.com/mig-1g.10gb: 2"))
    check_end("quote -f job.yaml", "1", "no pod of the store held nvidia_com_mig_1g_10gb")
    with Store(work / "gpucost.duckdb").write() as con:
        con.execute(
            "UPDATE allocations SET resource = 'nvidia_com_mig_1g_10gb', gpus = units / 7 WHERE pod LIKE 'again%'"
        )
    assert round(quoted(Path("job.yaml").read_text())["workloads"][0]["gpus"], 6) == round(2 / 7, 6)
    assert ": 0.286 × A100-SXM4-80GB," in run("quote -f job.yaml --brief").stdout
