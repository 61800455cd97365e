"""Kubernetes: a CronJob that collects and reports with the volume of its store, as a manifest, or as a Helm chart."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gpucost import __version__
from gpucost.errors import UsageError
from gpucost.publish.rules import quoted, render
from gpucost.resources import reports_dir

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
    for name in _RULES:
        if options[name] is not None:
            _check(name, options[name])
    _check_schedule(options["schedule"])
    steps = [json.dumps(_words(run), ensure_ascii=True) for run in runs]
    values: dict[str, Any] = {name: quoted(value) for name, value in options.items() if isinstance(value, str)}
    mounts_token = "true" if options["service_account"] is not None else "false"
    values |= {"cpu": _CPU, "mounts_token": mounts_token, "steps": steps, "last_step": steps[-1]}
    holds = {name: options[name] is not None for name in ("secret", "storage_class", "service_account")}
    holds |= {"makes_claim": options["claim_size"] is not None, "has_steps": len(steps) > 1}
    return render("cronjob.yml.j2", options=options, v=values, holds=holds, in_chart=False)


_CPU = "500m"
_CHART = "chart"
_WORDS = '{{ toJson $words | replace "$(" "$$(" }}'
# What stands in the chart where the manifest has values of options. `$` is the root wherever an expression stands.
_EXPRESSIONS = {
    "image": "{{ $.Values.image | quote }}",
    "name": '{{ printf "%s-%s" ($.Release.Name | trunc 40 | trimSuffix "-") $name | quote }}',
    "namespace": "{{ $.Release.Namespace | quote }}",
    "schedule": "{{ $job.schedule | quote }}",
    "timezone": "{{ $.Values.timezone | quote }}",
    "claim": '{{ $.Values.claim.existing | default (printf "%s-data" $.Release.Name) | quote }}',
    "claim_size": "{{ $.Values.claim.size | quote }}",
    "config_map": '{{ $.Values.existingConfigMap | default (printf "%s-config" $.Release.Name) | quote }}',
    "memory": "{{ $.Values.resources.memory | quote }}",
    "cpu": "{{ $.Values.resources.cpu | quote }}",
    "mounts_token": '{{ ne $.Values.serviceAccount.name "" }}',
    "words": _WORDS,
    "last_step": _WORDS.replace("$words", "(last $job.run)"),
    "secret": "{{ $.Values.secret | quote }}",
    "storage_class": "{{ $.Values.claim.storageClass | quote }}",
    "service_account": "{{ $.Values.serviceAccount.name | quote }}",
}
_CONDITIONS = {
    "makes_claim": "not $.Values.claim.existing",
    "has_steps": "initial $job.run",
    "secret": "$.Values.secret",
    "storage_class": "$.Values.claim.storageClass",
    "service_account": "$.Values.serviceAccount.name",
}


def chart(image: str, timezone: str) -> dict[str, str]:
    """The files of a Helm chart by their paths in it: jobs that collect and charge, and what they need. Values are the user's.

    Its CronJobs and its claim are the manifest's, from the same templates. Raises UsageError for what Kubernetes would refuse.
    """
    _check("image", image)
    files = {}
    for path in sorted((reports_dir() / _CHART).rglob("*.*")):
        name = path.relative_to(reports_dir()).as_posix()
        if path.suffix != ".j2":
            files[name] = path.read_text(encoding="utf-8")
        elif path.stem != "marks":
            common = {"v": _EXPRESSIONS, "holds": _CONDITIONS, "in_chart": True}
            own = {"image": image, "timezone": timezone, "version": __version__, "cpu": _CPU}
            files[name.removesuffix(".j2")] = render(name, **common, **own)
    files[f"{_CHART}/values.schema.json"] = json.dumps(_schema(), indent=2) + "\n"
    return {name.removeprefix(f"{_CHART}/"): text for name, text in files.items()}


def _schema() -> dict[str, Any]:
    """JSON Schema of the chart's values, by the same rules as the options of `gpucost export cronjob`."""

    def text(rule: str, *, may_be_empty: bool = False) -> dict[str, Any]:
        pattern = f"^({_RULES[rule][0]})$"
        return {"type": "string", "pattern": f"^$|{pattern}" if may_be_empty else pattern, "maxLength": 253}

    def only(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "additionalProperties": False, "required": list(required)}

    def texts_by(name: str) -> dict[str, Any]:
        return {"type": "object", "propertyNames": {"pattern": name}, "additionalProperties": {"type": "string"}}

    words = {"type": "array", "minItems": 1, "items": {"type": "string"}}
    job = only(
        ("schedule", "run"),
        schedule={"type": "string", "pattern": r"^(@[a-z]+|\S+( \S+){4})$"},
        run={"type": "array", "minItems": 1, "items": words},
    )
    any_object, any_list, any_text = {"type": "object"}, {"type": "array"}, {"type": "string"}
    schema = only(
        image=text("image"),
        timezone={"type": "string", "minLength": 1},
        # with the release's name in front it is a CronJob's name
        jobs={"type": "object", "propertyNames": {"pattern": f"^{_NAME}$", "maxLength": 11}, "additionalProperties": job},
        config=any_text,
        files=texts_by(r"^[-._a-zA-Z0-9]+$"),
        existingConfigMap=text("config_map", may_be_empty=True),
        secret=text("secret", may_be_empty=True),
        claim=only(
            existing=text("claim", may_be_empty=True),
            size=text("claim_size"),
            storageClass=text("storage_class", may_be_empty=True),
        ),
        serviceAccount=only(
            create={"type": "boolean"}, name=text("service_account", may_be_empty=True), annotations=texts_by(".+")
        ),
        resources=only(cpu={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+|m)?$"}, memory=text("memory")),
        pod=only(
            imagePullSecrets=any_list,
            nodeSelector=any_object,
            tolerations=any_list,
            affinity=any_object,
            priorityClassName=any_text,
        ),
        rules=texts_by(f"^{_SUBDOMAIN}$"),
        ruleLabels=texts_by(".+"),
    )
    schema["properties"]["global"] = any_object  # Helm puts it there where the chart is part of another
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def _check(name: str, value: str) -> None:
    pattern, fix = _RULES[name]
    if not re.fullmatch(pattern, value) or len(value) > 253:
        raise UsageError(f"--{name.replace('_', '-')} {value!r} is nothing that Kubernetes takes", fix)


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
