"""Query Slurm directly: by its commands, locally or over ssh, or through slurmrestd."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from tempfile import TemporaryFile
from typing import IO, Any, cast
from zoneinfo import ZoneInfo

from gpucost import http, inputs, texts
from gpucost.collect.slurm.sacct import (
    DELIMITER,
    FIELDS,
    Batch,
    Notes,
    SacctFormat,
    read_answer,
    read_records,
)
from gpucost.config.model import Slurm
from gpucost.config.secrets import from_environment, secret
from gpucost.errors import ConfigError, SourceError, UsageError
from gpucost.periods import Period

_SECONDS = 3600
_PATIENT = 60
_UTC = ZoneInfo("UTC")


class Commands:
    """Slurm's commands. `command` is the command line of sacct, such as `ssh login /opt/slurm/bin/sacct`."""

    def __init__(self, command: str) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--sacct {command!r} is not a valid command: {error}") from None
        if not words or not words[-1].endswith("sacct"):
            raise UsageError(f"--sacct {command!r} does not end in sacct", '--sacct "ssh login sacct"')
        self.name = command
        self._before, self._path = words[:-1], words[-1].removesuffix("sacct")

    def _words(self, program: str, *args: str) -> list[str]:
        # The clock's variables must reach the host that runs the program.
        return [*self._before, "env", "TZ=UTC", "SLURM_TIME_FORMAT=%s", f"{self._path}{program}", *args]

    def run(self, program: str, *args: str) -> str:
        """The output of a command. Raises SourceError if it fails."""
        words = self._words(program, *args)
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._failed(program, str(error)) from None
        if done.returncode:
            raise self._failed(program, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace")

    def _failed(self, program: str, output: str) -> SourceError:
        command = shlex.join([*self._before, f"{self._path}{program}"])
        return SourceError(
            f"{command} failed: {texts.excerpt(output) or 'no output'}", f"make {command} work in your shell"
        )

    def cluster(self) -> str | None:
        """The name in `scontrol show config`."""
        match = re.search(r"^ClusterName\s*=\s*(\S+)", self.run("scontrol", "show", "config"), re.MULTILINE)
        return match[1] if match else None

    def hidden(self) -> str | None:
        """The data that PrivateData hides from this user; None if all data is visible."""
        # slurmdbd's setting applies to accounting, slurmctld's to running jobs.
        reported_config = self.run("sacctmgr", "show", "config") + self.run("scontrol", "show", "config")
        private = ",".join(re.findall(r"^PrivateData\s*=\s*(\S+)", reported_config, re.MULTILINE))
        hides = {"jobs", "usage"} & set(private.lower().split(","))
        if not hides:
            return None
        user = self._plain("id", "-un").strip()
        level = self.run("sacctmgr", "-nP", "show", "user", user, "format=AdminLevel").strip()
        return None if level in ("Operator", "Administrator") or user == "root" else ", ".join(sorted(hides))

    def _plain(self, *words: str) -> str:
        return subprocess.run(  # noqa: S603
            [*self._before, *words], capture_output=True, timeout=_PATIENT, check=False, text=True
        ).stdout

    def retention(self) -> timedelta | None:
        """How long slurmdbd keeps jobs; None if without limit or unknown."""
        match = re.search(
            r"^PurgeJobAfter\s*=\s*(\d+)\s*(hour|day|month)",
            self.run("sacctmgr", "show", "config"),
            re.MULTILINE,
        )
        hours = {"hour": 1, "day": 24, "month": 28 * 24}
        return timedelta(hours=int(match[1]) * hours[match[2]]) if match else None

    def jobs(self, period: Period, notes: Notes) -> Iterator[Batch]:
        """Runs from sacct, with their steps, which give the placement on nodes."""
        supported = {word.lower() for word in self.run("sacct", "--helpformat").split()}
        fields = [name for name in FIELDS if name.lower() in supported]
        start, end = (
            moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S") for moment in (period.start, period.end)
        )
        options = f"-a -D -S {start} -E {end} --parsable2 --delimiter={DELIMITER} -o {','.join(fields)}"
        words = self._words("sacct", *options.split(" "))
        with TemporaryFile() as messages:
            try:
                process = subprocess.Popen(  # noqa: S603
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages
                )
            except OSError as error:
                raise self._failed("sacct", str(error)) from None
            with process:
                form = SacctFormat(delimiter=DELIMITER, timezone=_UTC)
                yield from read_records(cast("IO[bytes]", process.stdout), self.name, form, notes)
            if process.returncode:
                messages.seek(0)
                raise self._failed("sacct", messages.read().decode("utf-8", "replace"))

    def facts(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Nodes, reservations, GPUs of running jobs, node events, accounts and shares."""
        year = (datetime.now(UTC) - timedelta(days=366)).strftime("%Y-%m-%d")
        for command in (
            "scontrol show node -o",
            "scontrol show reservation -o",
            "scontrol show job -d -o",
            f"sacctmgr -P show event start={year} format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason",
            "sacctmgr -P show assoc tree format=Cluster,Account,User,ParentName",
            "sshare -a -P -l",
        ):
            yield command, partial(self.run, *command.split())


class Slurmrestd:
    """slurmrestd with a token: SLURM_JWT, or the file named by `token_file`."""

    def __init__(self, settings: Slurm) -> None:
        self.name = settings.slurmrestd or ""
        session = http.session(self.name, _SECONDS, inputs.ANSWER, settings.tls, "slurm")
        if token := secret("slurm", "token", settings.token_file, settings.token_env) or from_environment(
            "SLURM_JWT"
        ):
            session.headers["X-SLURM-USER-TOKEN"] = token.removeprefix("SLURM_JWT=")
        if user := settings.user or os.environ.get("SLURM_USER_NAME") or os.environ.get("USER"):
            session.headers["X-SLURM-USER-NAME"] = user
        self._server = http.JsonServer(
            f"slurmrestd at {self.name}",
            session,
            login="create one with scontrol token lifespan=86400",
            address="check slurmrestd, its base URL, and api_version in [slurm]",
            later="collect again later: loaded data is kept",
            seconds=_SECONDS,
        )
        self._version = settings.api_version

    def _get(self, path: str, query: dict[str, str] | None = None) -> Any:
        url = f"{self.name.rstrip('/')}/{path}"
        return self._server.ask("GET", url, params=query, allow_redirects=False)

    @cached_property
    def _paths(self) -> dict[str, Any]:
        """The server's description of each path."""
        return {path.strip("/"): item for path, item in self._get("openapi/v3").get("paths", {}).items()}

    @cached_property
    def _api(self) -> str:
        """The API version: the configured one, otherwise the server's newest."""
        matches = (re.fullmatch(r"slurmdb/(v\d+\.\d+\.\d+)/jobs", path) for path in self._paths)
        versions = sorted(match[1] for match in matches if match)
        has = f"{self.name} does not serve slurmdbd's jobs"
        if not versions:
            raise SourceError(has, "start slurmrestd with its plugin openapi/slurmdbd")
        if self._version not in (None, *versions):
            fix = f"set api_version in [slurm] to one of {', '.join(versions)}, or remove it"
            raise SourceError(f"{has} in {self._version}", fix)
        return self._version or max(
            versions, key=lambda version: [int(part) for part in version[1:].split(".")]
        )

    def cluster(self) -> str | None:
        """The name in an answer's metadata, from Slurm 23.11 on."""
        meta = self._get(f"slurm/{self._api}/ping").get("meta") or {}
        names = (meta[key].get("cluster") for key in ("slurm", "Slurm") if isinstance(meta.get(key), dict))
        return next(names, None)

    def retention(self) -> timedelta | None:
        """Unknown."""
        return None

    def jobs(self, period: Period, _notes: Notes) -> Iterator[Batch]:
        """Runs from /slurmdb/vX/jobs, including runs of requeued jobs."""
        path = f"slurmdb/{self._api}/jobs"
        query = {
            # Seconds, independent of the server's time zone.
            "start_time": f"uts{period.start.timestamp():.0f}", "end_time": f"uts{period.end.timestamp():.0f}",
            "show_duplicates": "true", "skip_steps": "false",
        }  # fmt: skip
        # Versions refuse filters that they do not know.
        parameters = self._paths[path]["get"].get("parameters") or ()
        supported = {"start_time", "end_time", *(parameter.get("name") for parameter in parameters)}
        filters = {name: value for name, value in query.items() if name in supported}
        yield from read_answer(self._get(path, filters), self.name, SacctFormat())

    def facts(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Nodes, reservations, GPUs of running jobs, accounts; shares if the API version has them."""
        for name in ("nodes", "reservations", "jobs", "associations", "shares"):
            path = f"{'slurmdb' if name == 'associations' else 'slurm'}/{self._api}/{name}"
            if name != "shares" or path in self._paths:
                yield name, lambda path=path: json.dumps(self._get(path))  # type: ignore[misc]


# A Slurm that can be queried.
Slurmlike = Commands | Slurmrestd


def slurm_of(settings: Slurm) -> Slurmlike:
    """The configured Slurm. Raises ConfigError without one."""
    if settings.slurmrestd:
        return Slurmrestd(settings)
    if settings.sacct:
        return Commands(settings.sacct)
    raise ConfigError(
        "no Slurm is configured, and no file is given",
        'gpucost collect slurm FILE, or --sacct "ssh login sacct", or sacct = "sacct" in [slurm] of gpucost.toml',
    )
