"""What to apply for a finding: Kubernetes objects, with what the store knows of names and numbers filled in.

A comment stands where the store does not know: the name of a container, of a NodePool, an image with kubectl.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_DAYS = {"mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6, "sun": 7}
_NIGHT = "0 20 * * *"


def _object(subject: str) -> tuple[str, str] | None:
    """Kind and name of a workload that `kubectl scale` can set to 0, if it is one by itself."""
    kind, _, name = subject.partition("/")
    return (kind, name) if kind in _API and _NAME.fullmatch(name) else None


def smaller_request(subject: str, namespace: str, asked: float, used: int) -> str | None:
    """As many GPUs as were ever used: of the whole object where its kind is known, else of a container."""
    if used < 1 or asked <= used:
        return None
    container = f"- name: main  # its container\n  resources:\n    limits:\n      nvidia.com/gpu: {used}  # asks for {asked:g}\n"
    target = _object(subject)
    if target is None:
        return "# in the pod template\ncontainers:\n" + _indented(container, 2)
    head = f"apiVersion: {_API[target[0]]}\nkind: {target[0]}\nmetadata:\n  name: {target[1]}\n  namespace: {namespace}\n"
    return head + "spec:\n  template:\n    spec:\n      containers:\n" + _indented(container, 8)


def shared_gpus(replicas: int = 2) -> str:
    """Time slicing of NVIDIA's device plugin, as the GPU operator takes it."""
    return (
        "# GPU operator: name it in devicePlugin.config of the ClusterPolicy\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: time-slicing\n  namespace: gpu-operator\n"
        "data:\n  shared: |-\n    version: v1\n    sharing:\n      timeSlicing:\n        resources:\n"
        f"          - name: nvidia.com/gpu\n            replicas: {replicas}\n"
    )


def empty_nodes() -> str:
    """A NodePool of Karpenter that removes empty nodes sooner, and has a limit."""
    limit = "  limits:\n    nvidia.com/gpu: 8  # as many as are ever needed\n"
    return (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: gpus  # the NodePool of these nodes\n"
        f"spec:\n  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: 10m\n{limit}"
    )


def on_spot() -> str:
    """A pod template that asks for spot nodes of Karpenter."""
    others = '# EKS: eks.amazonaws.com/capacityType: SPOT\n# GKE: cloud.google.com/gke-spot: "true"\n'
    return f"# in the pod template, for Karpenter\n{others}nodeSelector:\n  karpenter.sh/capacity-type: spot\n"


def scaled_down(subject: str, namespace: str, timezone: str, options: Mapping[str, str | None]) -> str | None:
    """CronJobs that scale a workload down and up again by office hours; without any, down every evening."""
    target = _object(subject)
    if target is None:
        return None
    times = {"down": _NIGHT}
    if hours := options.get("--office-hours"):
        opens, _, closes = hours.partition("-")
        days = options.get("--weekdays") or "mon-sun"
        # what closes after midnight does so on the day after
        times = {"down": _cron(closes, _weekdays(days, later=closes < opens)), "up": _cron(opens, _weekdays(days))}
    return "---\n".join(_cronjob(*target, namespace, timezone, way, schedule) for way, schedule in times.items())


def _weekdays(text: str, *, later: bool = False) -> str:
    """mon-fri as cron has it: 1-5, a day `later` 2-6."""
    first, _, last = text.partition("-")
    return "*" if text == "mon-sun" else f"{_DAYS[first] + later}-{_DAYS[last or first] + later}"


def _cron(moment: str, days: str) -> str:
    # midnight belongs to the day that ends
    hour, _, minute = moment.replace("24:00", "23:59").partition(":")
    return f"{int(minute)} {int(hour)} * * {days}"


def _cronjob(kind: str, name: str, namespace: str, timezone: str, way: str, schedule: str) -> str:
    replicas = "0" if way == "down" else "1  # as many as it has"
    count, _, remark = replicas.partition("  ")
    return (
        f"apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: {name}-{way}\n  namespace: {namespace}\nspec:\n"
        f'  schedule: "{schedule}"\n  timeZone: {timezone}\n  jobTemplate:\n    spec:\n      template:\n        spec:\n'
        "          restartPolicy: Never\n          serviceAccountName: scaler  # may patch its scale\n          containers:\n"
        "            - name: kubectl\n              image: kubectl  # an image that has it\n"
        f"              command: [kubectl, scale, {kind.lower()}/{name}, --replicas={count}]{f'  {remark}' if remark else ''}\n"
    )


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())
