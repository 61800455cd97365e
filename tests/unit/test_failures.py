"""Failures: incidents, their time, cost and evidence."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.work import counter, put, stored
from tests.text_tables import text_rows
from tests.unit.command import call

XID = "DCGM_FI_DEV_XID_ERRORS"
GPU = "GPU-train-0"
JOB: dict[str, Any] = {"owner": ["Job", "run-a"], "end_phase": "Failed"}


def asked(
    described: dict[str, Any], folder: Path, *words: str, epochs: Any = (), settings: str = ""
) -> dict[str, Any]:
    """Return the answer for the day of the fleet."""
    _, store = stored(described, folder, settings)
    if epochs:
        put(store, epochs)
    words = ("failures", "--from", "2026-03-10", "--to", "2026-03-11", "--format", "json", *words)
    return json.loads(call(*words, "--config", str(folder / "gpucost.toml"))[0])


def errors(*spans: tuple[float, float, int], metric: str = XID, device: str = GPU) -> dict[str, Any]:
    return {metric: {device: [[at(start), at(end), value] for start, end, value in spans]}}


def broken(profile: dict[str, Any], **of_node: Any) -> dict[str, Any]:
    """A job on 8 GPUs for $24 an hour that fails at 10:06, and runs again from 15:30 on."""
    spans = {"not_ready": [[at(10.25), at(15)]]} | of_node
    pods = [
        pod("run-a-0", "train", list(range(8)), 0, 10.1, **JOB),
        pod("run-a-1", "train", list(range(8)), 15.5, 24, **JOB),
    ]
    return fleet(24, [node("train", "p4de.24xlarge", 0, 24, **spans)], pods, {}, profile=profile)


def epochs(number: int, *points: tuple[float, float]) -> Any:
    return counter("epoch", f"run-a-{number}", kind="gauge"), points


#: Six epochs of 90 minutes, then epochs 5 and 6 again.
REPEATED = [
    epochs(0, (0.1, 0), (1.5, 1), (3, 2), (4.5, 3), (6, 4), (7.5, 5), (9, 6)),
    epochs(1, (15.6, 4), (17, 5), (18.5, 6), (20, 7)),
]


def test_hardware_error_has_its_lost_and_unavailable_cost(tmp_path: Path) -> None:
    """06:00 to 10:06 are lost: $24 x 4.1; 10:15 to 15:00 are unavailable: $24 x 4.75."""
    answer = asked(broken(errors((0, 10, 0), (10, 24, 79))), tmp_path, epochs=REPEATED)
    (incident,) = answer["incidents"]
    assert incident["description"] == "XID 79: GPU has fallen off the bus"
    assert (incident["from"], incident["to"]) == ("2026-03-10T10:00:00Z", "2026-03-10T15:00:00Z")
    assert (incident["devices"], incident["workloads"]) == ([GPU], ["train/Job/run-a"])
    assert (incident["lost_cost"], incident["unavailable_cost"], incident["cost"]) == (98.4, 114, 212.4)
    assert (incident["restart_seconds"], incident["is_evidence"]) == (5.4 * 3600, True)
    (provider,) = [part for part in answer["totals"] if part["by"] == "provider"]
    hours = [provider[f"{state}_gpu_hours"] for state in ("delivered", "healthy", "reserved", "in_use")]
    assert hours == [192, 154, 148.8, 0]
    assert (provider["mean_hours_between"], provider["mean_hours_to_repair"]) == (192, 5)


#: A node, the error metric of its GPU, values by hour, and incidents: cause, hour, evidence. Nodes are not ready from 10:15 on.
SIGNS = text_rows("""
old          | XID_ERRORS                | 0 24 79                    | not_ready 10.25 yes
application  | XID_ERRORS                | 0 10 0, 10 24 31           | xid 10 no, not_ready 10.25 yes
unknown      | XID_ERRORS                | 0 10 0, 10 24 999          | xid 10 no, not_ready 10.25 yes
two          | XID_ERRORS                | 0 10 0, 10 20 79, 20 24 48 | xid 10 yes, xid 20 yes
cleared      | XID_ERRORS                | 0 10 79, 10 24 0           | not_ready 10.25 yes
unwitnessed  | XID_ERRORS                | 0 9 0, 10 24 79            | xid 10 no, not_ready 10.25 yes
enabled      | XID_ERRORS                | 10 24 79                   | not_ready 10.25 yes
from-4-9     | XID_ERROR                 | 0 10 0, 10 24 79           | xid 10 yes
blank        | XID_ERRORS                | 0 10 0, 10 24 2147483632   | not_ready 10.25 yes
followed     | XID_ERRORS                | 0 10 0, 10 10.1 79, 10.1 24 45 | xid 10 yes
ecc          | ECC_DBE_VOL_TOTAL         | 0 10 0, 10 24 2            | uncorrectable_ecc 10 yes
remapped     | UNCORRECTABLE_REMAPPED_ROWS | 0 10 0, 10 24 1          | row_remap 10 no, not_ready 10.25 yes
unmapped     | ROW_REMAP_FAILED          | 0 10 0, 10 24 1            | row_remap_failure 10 yes
""")
COUNTS = text_rows("""
rises        | 0 10 1, 10 24 2           | xid 10 yes
restarts     | 0 10 5, 10 24 1           | xid 10 yes
late         | 0 8.5 1, 8.5 24 2         | xid 8.5 yes, not_ready 10.25 yes
""")


def listed(answer: dict[str, Any]) -> dict[str, str]:
    """Return cause, hour and evidence of the incidents of each node."""
    found: dict[str, list[str]] = {}
    for incident in answer["incidents"]:
        hour = (datetime.fromisoformat(incident["from"]).timestamp() - at(0)) / 3600
        sign = f"{incident['cause']} {hour:g} {'yes' if incident['is_evidence'] else 'no'}"
        found.setdefault(incident["node"], []).append(sign)
    return {name: ", ".join(signs) for name, signs in found.items()}


def test_signs_of_devices(tmp_path: Path) -> None:
    rows = [(name, f"DCGM_FI_DEV_{metric}", values, expected) for name, metric, values, expected in SIGNS]
    rows += [(name, "DCGM_EXP_XID_ERRORS_TOTAL 79", values, expected) for name, values, expected in COUNTS]
    profile: dict[str, dict[str, Any]] = {}
    for name, metric, values, _ in rows:
        spans = [tuple(map(float, span.split())) for span in values.split(",")]
        profile.setdefault(metric, {}).update(errors(*spans, device=f"GPU-{name}-0")[XID])
    span = {"not_ready": [[at(10.25), at(15)]]}
    nodes = [node(name, "g5.xlarge", 0, 24, **span) for name, *_ in rows]
    answer = asked(fleet(24, nodes, [], {}, profile=profile), tmp_path)
    assert listed(answer) == {name: expected for name, *_, expected in rows}


def test_signs_of_nodes_and_pods(tmp_path: Path) -> None:
    """Each GPU costs $1 an hour; a node has four."""
    nodes = [
        node("cordoned", "g6.12xlarge", 0, 24, cordoned=[[at(10), at(14)]]),
        node("maintained", "g6.12xlarge", 0, 24, cordoned=[[at(10), at(14)]], not_ready=[[at(11), at(12)]]),
        node("reclaimed", "g6.12xlarge", 0, 16, "spot", not_ready=[[at(15), at(16)]]),
        node("removed", "g6.12xlarge", 0, 16, not_ready=[[at(15.75), at(16)]]),
        node("died", "g6.12xlarge", 0, 16, not_ready=[[at(12), at(16)]]),
        node("starting", "g6.12xlarge", 6, 24, not_ready=[[at(6), at(6.25)]]),
        node("short", "g6.12xlarge", 0, 24, allocatable=[[at(8), at(9), 3]]),
        *(node(name, "g6.12xlarge", 0, 24) for name in ("crashing", "evicting")),
    ]
    pods = [
        pod(
            "loop", "crashing", [0], 0, 24, restarts=[at(hour) for hour in (9, 9.1, 9.2, 12)], completes=False
        ),
        pod("gone", "evicting", [0], 0, 9, evicted=at(9), end_phase="Failed", keep_until=at(10)),
    ]
    answer = asked(fleet(24, nodes, pods, {}), tmp_path)
    assert listed(answer) == {
        "cordoned": "cordoned 10 no",
        "maintained": "cordoned 10 no, not_ready 11 no",
        "reclaimed": "not_ready 15 no",
        "removed": "not_ready 15.75 no",
        "died": "not_ready 12 yes",
        "starting": "not_ready 6 no",
        "short": "not_offered 8 yes",
        "crashing": "restarted 9 no, restarted 12 no",
        "evicting": "evicted 9 no",
    }
    of_node = {incident["node"]: incident for incident in answer["incidents"]}
    costs = {name: of_node[name]["unavailable_cost"] for name in ("cordoned", "died", "short", "evicting")}
    assert costs == {"cordoned": 16, "died": 16, "short": 1, "evicting": 0}
    assert [one["restarts"] for one in answer["incidents"] if one["node"] == "crashing"] == [3, 1]
    (by_provider,) = [part for part in answer["totals"] if part["by"] == "provider"]
    # own cordons are not unhealthy; half of the hour in which `maintained` was not ready, too, is
    assert by_provider["delivered_gpu_hours"] - by_provider["healthy_gpu_hours"] == pytest.approx(
        4 * (1 + 0.25 + 4 + 0.25) + 1 + 2
    )
    report = json.loads(
        call(
            "report",
            "--from",
            "2026-03-10",
            "--to",
            "2026-03-11",
            "--format",
            "json",
            "--config",
            str(tmp_path / "gpucost.toml"),
        )[0]
    )
    total = sum(incident["unavailable_gpu_hours"] for incident in answer["incidents"])
    assert total == pytest.approx(report["totals"]["unavailable_gpu_hours"])


def test_work_of_a_gang_is_lost_on_every_node(tmp_path: Path) -> None:
    """XID 79 on one of two nodes for $24 an hour at 10:00; both pods restart at 10:05 and repeat epoch 4 from 06:00 on."""
    nodes = [node(name, "p4de.24xlarge", 0, 24) for name in ("train", "other")]
    pods = [
        pod(f"run-a-{number}", one["name"], list(range(8)), 0, 24, restarts=[at(10 + 5 / 60)], **JOB)
        for number, one in enumerate(nodes)
    ]
    work = [epochs(0, (0, 0), (3, 2), (6, 3), (9, 4), (10.2, 3), (13, 4))]
    answer = asked(
        fleet(24, nodes, pods, {}, profile=errors((0, 10, 0), (10, 24, 79))), tmp_path, epochs=work
    )
    (incident,) = answer["incidents"]
    hours = 10 + 5 / 60 - 6
    assert incident["lost_cost"] == pytest.approx(2 * 24 * hours)
    assert (incident["restart_seconds"], incident["unavailable_cost"]) == (0, 0)


def test_declared_off_time_is_neither_evidence_nor_unhealthy(tmp_path: Path) -> None:
    """A node of 4 GPUs for $4 is not ready from 15:00 to 23:00; the cluster runs from 22:00 to 20:00."""
    described = fleet(24, [node("own", "g6.12xlarge", 0, 24, not_ready=[[at(15), at(23)]])], [], {})
    hours = '[[clusters]]\nname = "main"\nhours = ["22:00-20:00"]\n'
    answer = asked(described, tmp_path, settings=hours)
    assert listed(answer) == {"own": "not_ready 15 yes, off 20 no, not_ready 22 no"}
    assert [each["unavailable_cost"] for each in answer["incidents"]] == [20, 8, 4]
    (total,) = [part for part in answer["totals"] if part["by"] == "node"]
    assert total["delivered_gpu_hours"] - total["healthy_gpu_hours"] == 4 * (5 + 1)


def test_work_that_ends_long_after_an_error_is_not_lost(tmp_path: Path) -> None:
    """Jobs with pods on two nodes; the first has the error at 10:00."""
    ends = {"early": 10.1, "early-2": 12.0, "late": 12.0, "late-2": 10.1}
    pods = [
        pod(name, name, [0], 0, end, owner=["Job", name[:4]], end_phase="Failed")
        for name, end in ends.items()
    ]
    profile = {
        XID: {f"GPU-{name}-0": [[at(0), at(10), 0], [at(10), at(24), 79]] for name in ("early", "late")}
    }
    nodes = [node(name, "g5.xlarge", 0, 24) for name in ends]
    answer = asked(fleet(24, nodes, pods, {}, profile=profile), tmp_path)
    stops = {each["node"]: each["stops_of_unknown_progress"] for each in answer["incidents"]}
    assert stops == {"early": 1, "late": 0}


def test_no_evidence_after_time_without_samples(tmp_path: Path) -> None:
    """Not ready from 10:00 on, which is first seen at 12:00."""
    described = fleet(
        24,
        [node("w", "g6.12xlarge", 0, 24, not_ready=[[at(10), at(14)]])],
        [],
        {},
        ksm_silent=[[at(9), at(12)]],
    )
    assert listed(asked(described, tmp_path)) == {"w": "not_ready 12 no"}


def test_unknown_progress_is_null(tmp_path: Path) -> None:
    (incident,) = asked(broken(errors((0, 10, 0), (10, 24, 79))), tmp_path)["incidents"]
    assert (incident["lost_cost"], incident["cost"]) == (None, 114)


def test_claim_names_only_evidence(tmp_path: Path) -> None:
    _, store = stored(broken(errors((0, 10, 0), (10, 24, 79))), tmp_path)
    put(store, REPEATED)
    words = ("failures", "--month", "2026-03", "--config", str(tmp_path / "gpucost.toml"))
    call(*words, "--claim", str(tmp_path / "claims"))
    text = (tmp_path / "claims" / "claim-aws.md").read_text()
    assert (
        "observed XID 79: GPU has fallen off the bus on GPU-train-0, consistent with a hardware fault" in text
    )
    assert "38.0 GPU-hours were unavailable; cost with lost work: $212.40." in text
    rows = (tmp_path / "claims" / "claim-aws.csv").read_text().splitlines()
    assert len(rows) == 2
    _, error = call(*words, "--claim", str(tmp_path / "gpucost.toml"), code=1)
    assert "fix: use another folder for --claim" in error


def test_throttled_hours_are_named(tmp_path: Path) -> None:
    """Half of each minute from 02:00 to 04:00 in a counter of nanoseconds, then a twentieth."""
    counted, values = 0.0, []
    for minute in range(6 * 60):
        values.append([at(minute / 60), at((minute + 1) / 60), counted])
        counted += 30e9 if 120 <= minute < 240 else 3e9 if minute >= 240 else 0
    pods = [pod("a", "w", [0], 0, 6)]
    described = fleet(
        6,
        [node("w", "g6.12xlarge", 0, 6)],
        pods,
        "w | 0 | 0 | 6",
        profile={"DCGM_FI_DEV_THERMAL_VIOLATION": {"GPU-w-0": values}},
    )
    (incident,) = asked(described, tmp_path)["incidents"]
    assert (incident["description"], incident["duration_hours"], incident["is_evidence"]) == (
        "Thermal throttling",
        2,
        False,
    )
    assert (incident["workloads"], incident["cost"]) == (["train/Pod/a"], 0)


def test_fleet_without_failures_shows_its_availability(tmp_path: Path) -> None:
    stored(fleet(24, [node("w", "g6.12xlarge", 0, 24)], [], {}), tmp_path)
    shown = call("failures", "--month", "2026-03", "--config", str(tmp_path / "gpucost.toml"))[0]
    assert "no signs of failures in the collected time" in shown
    assert "Causes" not in shown and "GPU models" in shown


def eight(profile: dict[str, Any] | None = None, **spans: Any) -> dict[str, Any]:
    """A node with 8 GPUs for $24 an hour, without pods."""
    return fleet(48, [node("n", "p4de.24xlarge", 0, 48, **spans)], [], {}, profile=profile or {})


def between(described: dict[str, Any], folder: Path, start: str, end: str) -> list[dict[str, Any]]:
    stored(described, folder)
    words = f"failures --from {start} --to {end} --format json --config {folder / 'gpucost.toml'}".split()
    return json.loads(call(*words)[0])["incidents"]


def test_metrics_that_are_exported_later_have_old_errors(tmp_path: Path) -> None:
    """Row remapping and ECC errors are exported from 12:00 on; the XID has a new name from then on."""
    profile = (
        errors((0, 48, 0))
        | errors((12, 48, 1), metric="DCGM_FI_DEV_ROW_REMAP_FAILURE", device="GPU-n-1")
        | errors((12, 48, 1), metric="DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", device="GPU-n-1")
    )
    profile[XID] = {"GPU-n-0": [[at(0), at(48), 0]], "GPU-n-2": [[at(0), at(12), 79]]}
    profile["DCGM_FI_DEV_XID_ERROR"] = {"GPU-n-2": [[at(12), at(48), 79]]}
    assert between(eight(profile), tmp_path, "2026-03-10", "2026-03-11") == []


def test_devices_with_errors_of_applications_are_not_accused(tmp_path: Path) -> None:
    profile = {
        XID: {f"GPU-n-{gpu}": [[at(0), at(10), 0], [at(10), at(48), 43 if gpu else 79]] for gpu in range(4)}
    }
    (incident,) = between(eight(profile), tmp_path, "2026-03-10", "2026-03-11")
    assert (incident["xid"], incident["devices"]) == (79, ["GPU-n-0"])


def test_old_errors_of_instances_are_not_new(tmp_path: Path) -> None:
    """One instance of a GPU has an old error, the other has none."""
    mig = {"GPU-n-0": [{"gi": gi, "profile": "3g.40gb"} for gi in (1, 2)]}
    profile = {XID: {"GPU-n-0/1": [[at(0), at(48), 79]], "GPU-n-0/2": [[at(0), at(48), 0]]}}
    described = fleet(48, [node("n", "p4de.24xlarge", 0, 48, mig=mig)], [], {}, profile=profile)
    assert between(described, tmp_path, "2026-03-10", "2026-03-11") == []


def test_hour_of_two_incidents_is_divided_by_gpu_time(tmp_path: Path) -> None:
    """One GPU is not offered from 8:00 to 8:30: 0.5 GPU-hours at $3; the node is cordoned from 8:42 to 8:57: 2 GPU-hours."""
    described = eight(allocatable=[[at(8), at(8.5), 7]], cordoned=[[at(8.7), at(8.95)]])
    first, second = between(described, tmp_path, "2026-03-10", "2026-03-11")
    assert (first["cause"], first["is_evidence"], first["unavailable_cost"]) == ("not_offered", True, 1.5)
    assert (second["cause"], second["is_evidence"], second["unavailable_cost"]) == ("cordoned", False, 6)


def test_own_cordon_within_evidence_is_not_claimed(tmp_path: Path) -> None:
    """One of 8 GPUs is not offered from 8:00 to 20:00, the node is cordoned from 10:00 to 12:00."""
    described = eight(allocatable=[[at(8), at(20), 7]], cordoned=[[at(10), at(12)]])
    first, second = between(described, tmp_path, "2026-03-10", "2026-03-11")
    assert first["is_evidence"] and first["unavailable_gpu_hours"] <= 12
    assert first["unavailable_gpu_hours"] + second["unavailable_gpu_hours"] == pytest.approx(10 + 2 * 8)


def test_evidence_does_not_depend_on_the_period(tmp_path: Path) -> None:
    """A cordon on the evening before explains a node that is not ready after midnight."""
    described = eight(cordoned=[[at(20), at(23.95)]], not_ready=[[at(24.02), at(26)]])
    (incident,) = between(described, tmp_path, "2026-03-11", "2026-03-12")
    assert (incident["cause"], incident["is_evidence"]) == ("not_ready", False)


def test_incident_counts_in_the_period_in_which_it_begins(tmp_path: Path) -> None:
    described = eight(not_ready=[[at(20), at(28)]])
    (first,) = between(described, tmp_path, "2026-03-10", "2026-03-11")
    (again,) = between(described, tmp_path, "2026-03-11", "2026-03-12")
    assert (first["is_continued"], again["is_continued"]) == (False, True)
    assert (first["unavailable_gpu_hours"], again["unavailable_gpu_hours"]) == (32, 32)
    words = ("failures", "--from", "2026-03-11", "--to", "2026-03-12", "--format", "json")
    answer = json.loads(call(*words, "--config", str(tmp_path / "gpucost.toml"))[0])
    (part,) = [part for part in answer["totals"] if part["by"] == "cause"]
    assert (
        part["incidents"],
        part["evidence"],
        part["mean_hours_between"],
        part["mean_hours_to_repair"],
    ) == (0, 0, None, None)


def test_restart_of_a_device_plugin_does_not_count(tmp_path: Path) -> None:
    (incident,) = between(eight(allocatable=[[at(8), at(8.05), 0]]), tmp_path, "2026-03-10", "2026-03-11")
    assert (incident["cause"], incident["is_evidence"]) == ("not_offered", False)
