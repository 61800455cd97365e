"""The chart of `gpucost export chart` in Helm: its jobs are those of `export cronjob`, and Kubernetes knows every field."""

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


def cronjob(*words: str) -> dict[tuple[str, str], Any]:
    return objects(call("export", "cronjob", "--image", IMAGE, *words)[0])


def known_to_kubernetes(text: str, file: Path) -> int:
    """How many objects of `text` fit Kubernetes' own schema, down to the names of fields."""
    file.write_text(text)
    words = [program("GPUCOST_KUBERNETES_VALIDATE", "kubernetes-validate"), "--strict", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout + done.stderr).count(" passed for resource ")


def test_as_it_is_it_makes_what_export_cronjob_prints(chart: Path, tmp_path: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(chart))
    text = rendered(chart)
    made = objects(text)
    kept = made["PersistentVolumeClaim", "gpucost-data"]["metadata"].pop("annotations")
    assert kept == {"helm.sh/resource-policy": "keep"}
    config = made.pop(("ConfigMap", "gpucost-config"))["data"]["gpucost.toml"]
    charging = "chargeback --collect --out /data/reports"
    month = ("--name", "gpucost-chargeback", "--schedule", "0 6 3 * *", "--run", charging)
    assert made == cronjob("--name", "gpucost-collect") | cronjob(*month)
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


def test_each_value_does_what_the_option_of_its_name_does(chart: Path, tmp_path: Path) -> None:
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
    pod = made["CronJob", "gpucost-collect"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert {name: pod.pop(name) for name in values["pod"]} == values["pod"]
    del made["PersistentVolumeClaim", "gpucost-data"]["metadata"]["annotations"]
    words = "--name gpucost-collect --schedule @hourly --secret tokens --storage-class fast --claim-size 1Ti"
    steps = ("--run", "collect prometheus", "--run", "notify slack --link 'https://x/$(HOME)?a&b <c>'")
    assert made == cronjob(*words.split(), "--service-account", "finops", "--memory", "8Gi", *steps)
    assert known_to_kubernetes(text, tmp_path / "made.yml") == 4  # and the operator's own

    made = objects(
        rendered(chart, "--set", "claim.existing=there,existingConfigMap=ours,jobs.chargeback=null")
    )
    words = "--name gpucost-collect --existing-claim --claim there --config-map ours"
    assert made == cronjob(*words.split())
