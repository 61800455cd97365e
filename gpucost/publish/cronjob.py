"""A Kubernetes CronJob that collects and reports, and the volume that its store lies on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gpucost.errors import UsageError
from gpucost.publish.rules import render

_LONGEST_NAME = 52  # of a CronJob: Kubernetes appends eleven characters to the names of its jobs
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_NAME}(\.{_NAME})*"
_QUANTITY = r"[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"
# host, port, path, tag and digest: nothing in it is a blank or a quote
_IMAGE = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
# Of minute, hour, day, month and weekday: the numbers and the names that stand for one.
_FIELDS: tuple[tuple[int, int, str], ...] = (
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 7, "sun mon tue wed thu fri sat"),
)
_A_NAME = "names in Kubernetes are lower-case letters, digits and -"
_A_SIZE = "for example 10Gi"
# What Kubernetes takes for an option, and what to write instead.
_RULES = {
    "image": (_IMAGE, "for example registry.example.com/gpucost:1.0"),
    "name": (_SUBDOMAIN, _A_NAME),
    "namespace": (_NAME, _A_NAME),
    "claim": (_SUBDOMAIN, _A_NAME),
    "config_map": (_SUBDOMAIN, _A_NAME),
    "secret": (_SUBDOMAIN, _A_NAME),
    "storage_class": (_SUBDOMAIN, _A_NAME),
    "service_account": (_SUBDOMAIN, _A_NAME),
    "claim_size": (_QUANTITY, _A_SIZE),
    "memory": (_QUANTITY, _A_SIZE),
}


def cronjob(options: Mapping[str, Any], runs: Sequence[str]) -> str:
    """The manifest (YAML): a claim, where one is to be made, and a CronJob; every run but the last is an init container.

    `options` are those of _RULES, `schedule` and `timezone`; `claim_size` None: the claim is there already.
    Raises UsageError for what Kubernetes would refuse.
    """
    if len(options["name"]) > _LONGEST_NAME:
        message = f"--name is {len(options['name'])} characters long"
        raise UsageError(message, f"a CronJob's name has at most {_LONGEST_NAME}")
    for name, (pattern, fix) in _RULES.items():
        value = options[name]
        if value is not None and (not re.fullmatch(pattern, value) or len(value) > 253):
            raise UsageError(f"--{name.replace('_', '-')} {value!r} is nothing that Kubernetes takes", fix)
    _check_schedule(options["schedule"])
    return render("cronjob.yml.j2", options=options, steps=[_words(run) for run in runs])


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


def _check_schedule(schedule: str) -> None:
    fields = schedule.lower().split()
    good = len(fields) == len(_FIELDS) and all(map(_is_field, fields, _FIELDS))
    if schedule not in _MACROS and not good:
        raise UsageError(
            f"--schedule {schedule!r} is no schedule", "five fields as cron has them, for example '30 2 * * *': each day at 2:30"
        )


def _is_field(field: str, known: tuple[int, int, str]) -> bool:
    low, high, names = known

    def is_value(text: str) -> bool:
        return text in names.split() or (text.isdecimal() and low <= int(text) <= high)

    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            return False
        first, dash, last = span.partition("-")
        if span not in ("*", "?") and not (is_value(first) and (not dash or is_value(last))):
            return False
    return True
