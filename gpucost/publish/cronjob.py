"""A Kubernetes CronJob that collects and reports, and the volume that its store lies on."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from gpucost.errors import UsageError
from gpucost.publish.rules import render

_LONGEST_NAME = 52  # of a CronJob: Kubernetes appends eleven characters to the names of its jobs
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_NAME}(\.{_NAME})*"
_QUANTITY = r"[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"
# host, port, path, tag and digest: nothing in it is a blank or a quote
_IMAGE = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = (
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
)


@dataclass(frozen=True, slots=True)
class CronJobOptions:
    """What the manifest is made of. `claim_size` None: the claim is there already. `runs` are commands, one after the other.

    Raises UsageError for what Kubernetes would refuse.
    """

    image: str
    name: str
    namespace: str
    schedule: str
    timezone: str
    runs: tuple[str, ...]
    claim: str
    claim_size: str | None
    storage_class: str | None
    config_map: str
    secret: str | None
    service_account: str | None
    memory: str

    def __post_init__(self) -> None:
        _check("--image", self.image, _IMAGE, "for example registry.example.com/gpucost:1.0")
        if len(self.name) > _LONGEST_NAME:
            raise UsageError(f"--name is {len(self.name)} characters long", f"a CronJob's name has at most {_LONGEST_NAME}")
        names = (("--name", self.name, _SUBDOMAIN), ("--namespace", self.namespace, _NAME), ("--claim", self.claim, _SUBDOMAIN))
        more = (
            ("--config-map", self.config_map, _SUBDOMAIN),
            ("--secret", self.secret, _SUBDOMAIN),
            ("--storage-class", self.storage_class, _SUBDOMAIN),
            ("--service-account", self.service_account, _SUBDOMAIN),
        )
        for option, value, pattern in (*names, *more):
            if value is not None:
                _check(option, value, pattern, "names in Kubernetes are lower-case letters, digits and -")
        for option, value in (("--claim-size", self.claim_size), ("--memory", self.memory)):
            if value is not None:
                _check(option, value, _QUANTITY, "for example 10Gi")
        _check_schedule(self.schedule)


def cronjob(options: CronJobOptions) -> str:
    """The manifest (YAML): a claim, where one is to be made, and a CronJob; every run but the last is an init container."""
    return render("cronjob.yml.j2", options=options, steps=[_words(run) for run in options.runs])


def _words(run: str) -> list[str]:
    try:
        words = shlex.split(run)
    except ValueError as error:
        raise UsageError(f"--run {run!r} cannot be read: {error}", "for example --run 'collect prometheus'") from None
    words = words[1:] if words[:1] == ["gpucost"] else words
    if not words:
        raise UsageError("--run is empty", "for example --run 'collect prometheus'")
    # Kubernetes would put variables in place of $(NAME)
    return [word.replace("$(", "$$(") for word in words]


def _check(option: str, value: str, pattern: str, fix: str) -> None:
    if not re.fullmatch(pattern, value) or len(value) > 253:
        raise UsageError(f"{option} {value!r} is nothing that Kubernetes takes", fix)


def _check_schedule(schedule: str) -> None:
    fields = schedule.split()
    if schedule in _MACROS:
        return
    good = len(fields) == len(_BOUNDS) and all(
        _is_field(field.lower(), *bounds, names)
        for field, bounds, names in zip(fields, _BOUNDS, ((), (), (), *_NAMES), strict=True)
    )
    if not good:
        raise UsageError(
            f"--schedule {schedule!r} is no schedule", "five fields as cron has them, for example '30 2 * * *': each day at 2:30"
        )


def _is_field(field: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    def is_value(text: str) -> bool:
        return text in names or (text.isdecimal() and low <= int(text) <= high)

    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            return False
        first, dash, last = span.partition("-")
        if span not in ("*", "?") and not (is_value(first) and (not dash or is_value(last))):
            return False
    return True
