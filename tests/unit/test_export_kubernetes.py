"""`gpucost export cronjob` and `chart`: manifests that run, what Kubernetes would refuse, and places that are taken."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpucost import __version__
from gpucost.config.load import load_config
from tests.text_tables import text_rows
from tests.unit.command import check_end, run

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


CRONJOB = "export cronjob --image registry.example.com/gpucost:1.0"
CHART = "export chart --image registry.example.com/gpucost:1.0 --out"


def _manifest(words: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(run(f"{CRONJOB} {words}").stdout))


def test_a_cronjob_runs_one_command_after_the_other_or_on_a_claim_that_is_there(tmp_path: Path) -> None:
    runs = """--run 'gpucost collect prometheus' --run "notify slack --link 'https://x/$(HOME)?a b'" """
    claim, job = _manifest(f"{runs} --secret secrets")
    assert (claim["kind"], job["kind"], job["apiVersion"]) == ("PersistentVolumeClaim", "CronJob", "batch/v1")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (last,) = pod["containers"]
    assert [step["args"] for step in pod["initContainers"]] == [["collect", "prometheus"]]
    assert last["args"] == ["notify", "slack", "--link", "https://x/$$(HOME)?a b"]
    assert pod["securityContext"]["runAsNonRoot"] is last["securityContext"]["readOnlyRootFilesystem"] is True
    assert last["envFrom"] == [{"secretRef": {"name": "secrets"}}]
    assert {mount["name"] for mount in last["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (tmp_path / "gpucost.toml").write_text('timezone = "Europe/Berlin"\n')
    place = "--existing-claim --claim shared --service-account sa"
    (job,) = _manifest(f"{place} --schedule '0 6 2 jan-MAR mon,*/2'")
    assert job["spec"]["timeZone"] == "Europe/Berlin"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "sa" and "initContainers" not in pod
    assert pod["containers"][0]["args"] == ["collect", "prometheus"]


REFUSED = f"""
--schedule | hourly | is not valid in Kubernetes
--schedule | 60 * * * * | is not valid in Kubernetes
--schedule | * * * * | is not valid in Kubernetes
--schedule | */0 * * * * | is not valid in Kubernetes
--namespace | Upper | --namespace 'Upper'
--name | {"x" * 53} | at most 52
--name | a\0b: c | --name
--secret | a b | --secret
--claim-size | 10 GB | --claim-size
--run | colect prometheus | gpucost has no such command
--run | collect 'prometheus | is not valid: No closing quotation
--run | | gpucost has no such command
--image | a" b | --image
"""


@pytest.mark.parametrize(("option", "value", "message"), text_rows(REFUSED))
def test_what_kubernetes_would_refuse(option: str, value: str, message: str) -> None:
    words = shlex.join([option, value.replace("\0", "\n")])
    check_end(f"export cronjob --image a {words}", "2", message)


WRONG = """{"immage": "a"}
{"image": "a b"}
{"claim": {"size": "10 GB"}}
{"jobs": {"a": {"schedule": "daily", "run": [["x"]]}}}"""


def test_the_chart_has_values_that_its_own_schema_takes(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('timezone = "Europe/Berlin"\n')
    out = tmp_path / "charts" / "gpucost"
    for _ in range(2):  # the second run writes it anew
        assert run(f"{CHART} {out}").stdout == ""
    about, values = (yaml.safe_load((out / name).read_text()) for name in ("Chart.yaml", "values.yaml"))
    assert about["version"] == about["appVersion"] == __version__
    assert (values["image"], values["timezone"]) == ("registry.example.com/gpucost:1.0", "Europe/Berlin")
    schema = json.loads((out / "values.schema.json").read_text())
    jsonschema.validate(values, schema)
    assert set(values) | {"global"} == set(schema["properties"])
    for wrong in WRONG.splitlines():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(values | json.loads(wrong), schema)
    scheduling = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text(encoding="utf-8")
    (of_docs,) = re.findall(r"```yaml\n(.*?)```", scheduling, re.S)
    more = yaml.safe_load(of_docs)
    jsonschema.validate(values | more, schema)
    # what its jobs run are commands, and its config is one
    for job in (*values["jobs"].values(), *more["jobs"].values()):
        run(shlex.join([*CRONJOB.split(), *(f"--run={shlex.join(told)}" for told in job["run"])]))
    (tmp_path / "own.toml").write_text(values["config"])
    config = load_config(tmp_path / "own.toml", environ={})
    assert config.prometheus[0].url == "http://prometheus-operated.monitoring:9090"


def test_a_chart_of_others_stays_as_it_is(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    (theirs / "Chart.yaml").write_text("apiVersion: v2\nname: prometheus\n")
    (tmp_path / "thesis.txt").write_text("years of work")
    for out in (theirs, tmp_path, tmp_path / "thesis.txt"):
        check_end(f"{CHART} {out}", "2", "holds no chart of gpucost")
    assert {path.name for path in tmp_path.rglob("*")} == {"theirs", "Chart.yaml", "thesis.txt"}
    own = ours / "templates" / "own.yaml"
    run(f"{CHART} {ours}")
    own.write_text("kind: Own\n")
    check_end(f"{CHART} {ours}", "0", "own.yaml")
    assert own.is_file()
