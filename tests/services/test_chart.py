"""The chart of `gpucost export chart` in Helm: its jobs have few rights, and every field is valid in Kubernetes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import program
from tests.unit.command import call

IMAGE = "registry.example.com/gpucost:1.0"

pytestmark = [pytest.mark.services, pytest.mark.ci, pytest.mark.usefixtures("in_an_empty_folder")]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("charts") / "gpucost"
    call("export", "chart", "--image", IMAGE, "--out", str(out))
    return out


def helm(*words: str) -> str:
    done = subprocess.run(
        [program("GPUCOST_HELM", "helm"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(chart: Path, *words: str) -> str:
    return helm(*f"template gpucost {chart} --namespace gpucost --kube-version 1.37.0".split(), *words)


def objects(text: str) -> dict[tuple[str, str], Any]:
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}


def pod_of(job: Any) -> Any:
    return job["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def known_to_kubernetes(text: str, file: Path) -> int:
    """Return how many objects of `text` match Kubernetes' own schema, including field names."""
    file.write_text(text)
    words = [program("GPUCOST_KUBERNETES_VALIDATE", "kubernetes-validate"), "--strict", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout + done.stderr).count(" passed for resource ")


def test_default_chart_collects_and_charges_with_few_rights(chart: Path, tmp_path: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(chart))
    text = rendered(chart)
    made = objects(text)
    kept = made.pop(("PersistentVolumeClaim", "gpucost-data"))["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}
    config = made.pop(("ConfigMap", "gpucost-config"))["data"]["gpucost.toml"]
    runs = {"gpucost-collect": ("30 2 * * *", "collect prometheus")}
    runs["gpucost-chargeback"] = ("0 6 3 * *", "chargeback --collect --out /data/reports")
    assert {name for _, name in made} == set(runs)
    for (kind, name), job in made.items():
        pod = pod_of(job)
        (container,) = pod["containers"]
        assert (kind, job["spec"]["concurrencyPolicy"], job["spec"]["timeZone"]) == (
            "CronJob",
            "Forbid",
            "UTC",
        )
        assert (job["spec"]["schedule"], " ".join(container["args"])) == runs[name]
        assert (
            pod["securityContext"]["runAsNonRoot"]
            is container["securityContext"]["readOnlyRootFilesystem"]
            is True
        )
        assert pod["automountServiceAccountToken"] is False and "initContainers" not in pod
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "gpucost-data"
    assert config == yaml.safe_load((chart / "values.yaml").read_text())["config"]
    assert known_to_kubernetes(text, tmp_path / "made.yml") == 4


VALUES = """
jobs:
  chargeback: null
  collect:
    schedule: "@hourly"
    run: [[collect, prometheus], [notify, slack, --link, "https://x/$(HOME)?a&b <c>"]]
files: {prices.csv: "provider,region\\n"}
secret: tokens
claim: {storageClass: fast, size: 1Ti}
serviceAccount: {create: true, name: finops, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/x"}}
resources: {memory: 8Gi}
pod: {nodeSelector: {pool: small}, imagePullSecrets: [{name: pull}]}
ruleLabels: {release: prometheus}
"""


def test_each_value_is_used(chart: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(VALUES)
    (tmp_path / "values.yml").write_text(VALUES)
    rules, _ = call("export", "alerts")
    (tmp_path / "alerts.yml").write_text(rules)
    text = rendered(chart, *f"-f {tmp_path}/values.yml --set-file rules.alerts={tmp_path}/alerts.yml".split())
    made = objects(text)
    rule = made.pop(("PrometheusRule", "gpucost-alerts"))
    assert rule["spec"] == yaml.safe_load(rules) and rule["metadata"]["labels"]["release"] == "prometheus"
    account = made.pop(("ServiceAccount", "finops"))["metadata"]["annotations"]
    assert account == values["serviceAccount"]["annotations"]
    assert set(made.pop(("ConfigMap", "gpucost-config"))["data"]) == {"gpucost.toml", "prices.csv"}
    claim = made.pop(("PersistentVolumeClaim", "gpucost-data"))["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "1Ti")
    ((name, job),) = made.items()
    assert (name, job["spec"]["schedule"]) == (("CronJob", "gpucost-collect"), "@hourly")
    pod = pod_of(job)
    assert {name: pod[name] for name in values["pod"]} == values["pod"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("finops", True)
    first, last = *pod["initContainers"], *pod["containers"]
    assert first["args"] == ["collect", "prometheus"]
    # Kubernetes replaces $(NAME) by a variable's value
    assert last["args"] == ["notify", "slack", "--link", "https://x/$$(HOME)?a&b <c>"]
    for step in (first, last):
        assert step["envFrom"] == [{"secretRef": {"name": "tokens"}}]
        assert step["resources"]["limits"] == {"memory": "8Gi"}
    assert known_to_kubernetes(text, tmp_path / "made.yml") == 4  # and the operator's own

    made = objects(
        rendered(chart, "--set", "claim.existing=there,existingConfigMap=ours,jobs.chargeback=null")
    )
    (job,) = made.values()
    volumes = {one["name"]: one for one in pod_of(job)["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "there"}
    assert volumes["config"]["configMap"] == {"name": "ours"}
