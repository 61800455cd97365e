"""A secret that is planted in each way in comes out nowhere, whatever the server that it is meant for does with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import keyring
import pytest
from keyring.backend import KeyringBackend
from typer.testing import CliRunner

from gpucost import texts
from gpucost.cli.app import app
from gpucost.config.model import Config
from tests.golden.report_fleet import stored
from tests.loopback import Quiet, serving
from tests.replay.server import free_port

pytestmark = pytest.mark.services

SECRET = "planted/s3cret+0f=the owner"  # noqa: S105
PARTS = ("planted/", "s3cret+0f")
PROMETHEUS, MLFLOW, SLURM = (
    ("collect prometheus --from 2026-10-01 --to 2026-10-02",),
    ("collect progress --source mlflow",),
    ("collect slurm",),
)
EVERYWHERE = (
    "config show",
    "config show --format json",
    "doctor",
    "store info --format json",
    "report --month 2026-10",
)

store = stored(hours=4)


@dataclass(frozen=True)
class Way:
    """A setting: what stands in the configuration before and after the secret's place, and the commands that use it."""

    config: str
    commands: tuple[str, ...]
    by: tuple[str, ...] = ("_file", "_env", "keyring")
    environment: dict[str, str] = field(default_factory=dict)


WAYS = {
    "prometheus token": Way('[prometheus]\nurl = "{url}"\nbearer_token{place}\n', PROMETHEUS),
    "prometheus password": Way(
        '[prometheus]\nurl = "{url}"\n[prometheus.basic_auth]\nusername = "me"\npassword{place}\n', PROMETHEUS
    ),
    "prometheus header": Way(
        '[prometheus]\nurl = "{url}"\nheaders_env = {{ X-Key{place} }}\n',
        PROMETHEUS,
        ("header", "keyring header"),
    ),
    "mlflow token": Way('[mlflow]\nname = "mlflow"\nurl = "{url}"\ntoken{place}\n', MLFLOW),
    "mlflow token of its own": Way(
        '[mlflow]\nname = "mlflow"\nurl = "{url}"\n',
        MLFLOW,
        ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD"),
        {"MLFLOW_TRACKING_USERNAME": ""},
    ),
    "slurm token": Way('[slurm]\nslurmrestd = "{url}"\ntoken{place}\n', SLURM),
    "slurm token of its own": Way('[slurm]\nslurmrestd = "{url}"\n', SLURM, ("SLURM_JWT",)),
    "slack": Way("[notify.slack]\nwebhook_url{place}\n", ("notify slack --month 2026-10",)),
    "webhook": Way("[notify.webhook]\nurl{place}\n", ("notify webhook --month 2026-10",)),
    "webhook header": Way(
        '[notify.webhook]\nurl = "{url}"\nheaders_env = {{ Authorization{place} }}\n',
        ("notify webhook --month 2026-10",),
        ("header", "keyring header"),
    ),
}
URLS = ("slack", "webhook")


class Kept(KeyringBackend):
    """A keyring in memory, asked by the real library."""

    priority = 1
    held: ClassVar[dict[tuple[str, str], str]] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


class Echo(Quiet):
    """Says all that it was sent: as an error, as an answer that is none, as a redirect, and as the reason of a status."""

    manner: ClassVar[str] = "error"
    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:  # noqa: N802
        length = int(self.headers.get("Content-Length") or 0)
        sent = f"{self.path} {dict(self.headers)} {self.rfile.read(length)[:500]!r}"
        self.heard.append(sent)
        status, body = {
            "error": (
                400,
                json.dumps({"status": "error", "errorType": "bad", "error": sent, "message": sent}),
            ),
            "text": (401, sent),
            "nonsense": (200, sent),
            "redirect": (302, ""),
            "reason": (403, ""),
        }[self.manner]
        self.send_response(status, sent.replace("\n", " ")[:900] if self.manner == "reason" else None)
        if self.manner == "redirect":
            self.send_header("Location", f"/elsewhere?{quote(sent)}")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET  # noqa: N815


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Echo) as url:
        yield url


def spellings() -> set[str]:
    encoded = {base64.b64encode(text.encode()).decode()[:-4] for text in (SECRET, f"me:{SECRET}")}
    return {*PARTS, quote(SECRET, safe=""), quote(PARTS[1], safe=""), *encoded}


def check_nowhere(text: bytes, where: object) -> None:
    leaked = [one for one in spellings() if one.encode() in text]
    assert leaked == [], (where, leaked, text[:2000])


#: Each setting in one of its ways, by turns, and one command that needs no secret; with all ways and commands it is slow.
QUICK = [
    pytest.param(
        name, way.by[number % len(way.by)], ("error", "text", "redirect", "reason"), EVERYWHERE[:1], id=name
    )
    for number, (name, way) in enumerate(WAYS.items())
]
MANNERS = ("error", "text", "nonsense", "redirect", "reason", "gone")
ALL = [
    pytest.param(name, by, MANNERS, EVERYWHERE, id=f"{name} by {by}", marks=pytest.mark.slow)
    for name, way in WAYS.items()
    for by in way.by
]


@pytest.mark.parametrize(("name", "by", "manners", "everywhere"), [*QUICK, *ALL])
def test_a_planted_secret_comes_out_nowhere(
    name: str,
    by: str,
    manners: tuple[str, ...],
    everywhere: tuple[str, ...],
    url: str,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way, folder = WAYS[name], tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setattr("gpucost.http.retry", lambda ask, **_: ask())
    monkeypatch.setattr("gpucost.http._TIMEOUT_SECONDS", (1.0, 0.5))
    monkeypatch.setattr("gpucost.pipeline.attribute", lambda *_: None)
    monkeypatch.setattr("gpucost.pipeline.attribution.is_current", lambda *_: True)
    monkeypatch.setattr(texts, "_SECRETS", set())
    for manner in manners:
        at = f"http://127.0.0.1:{free_port()}" if manner == "gone" else url
        secret = f"{at}/{SECRET.replace(' ', '-')}" if name in URLS else SECRET
        (tmp_path / "secret").write_text(secret)
        monkeypatch.setattr(keyring.core, "_keyring_backend", Kept())
        Kept.held = {("service/of", "me"): secret}
        for variable, value in ({"PLANTED": secret} | way.environment).items():
            monkeypatch.setenv(variable, value)
        if by.isupper():
            monkeypatch.setenv(by, secret)
            if by == "MLFLOW_TRACKING_PASSWORD":
                monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        place = {
            "_file": f'_file = "{tmp_path}/secret"',
            "_env": '_env = "PLANTED"',
            "keyring": '_env = "keyring:service/of/me"',
            "header": ' = "PLANTED"',
            "keyring header": ' = "keyring:service/of/me"',
        }.get(by, "")
        (folder / "gpucost.toml").write_text(way.config.format(url=at, place=place))
        Echo.manner, Echo.heard[:] = manner, []
        texts._SECRETS.clear()
        for words in (*way.commands, *(everywhere if manner == "error" else ())):
            result = CliRunner().invoke(app, [*words.split(), "-v", "--store", str(store)])
            assert result.exit_code in (0, 1, 4), (words, result.output)
            check_nowhere(result.output.encode(), (words, manner))
        if manner != "gone":
            assert any(one in "".join(Echo.heard) for one in spellings()), (manner, Echo.heard, result.output)
    for path in (*folder.rglob("*"), store):
        if path.is_file():
            check_nowhere(path.read_bytes(), path)


def test_an_unexpected_error_is_told_without_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANTED", SECRET)
    monkeypatch.setattr(texts, "_SECRETS", set())
    (tmp_path / "gpucost.toml").write_text(
        '[prometheus]\nurl = "http://127.0.0.1:1"\nbearer_token_env = "PLANTED"\n'
    )

    def fail(source: object, store: object, *_: object, **__: object) -> None:
        from gpucost.collect.prometheus.client import session

        raise RuntimeError(f"defect with {dict(session(source).headers)}")  # type: ignore[arg-type]

    monkeypatch.setattr("gpucost.collect.prometheus.collector.collect_prometheus", fail)
    result = CliRunner().invoke(app, ["collect", "prometheus", "-v"])
    assert result.exit_code == 1 and "Traceback" in result.stderr and "***" in result.stderr
    check_nowhere(result.output.encode(), "traceback")


def secret_settings() -> set[str]:
    """Every setting that names where a secret is, by the configuration's own model."""

    def below(model: type, path: str) -> Iterator[str]:
        for name, one in model.model_fields.items():  # type: ignore[attr-defined]
            inner = [
                part
                for part in (one.annotation, *getattr(one.annotation, "__args__", ()))
                if hasattr(part, "model_fields")
            ]
            if inner:
                yield from below(inner[0], f"{path}{one.alias or name}.")
            elif name.endswith(("_env", "token_file", "password_file", "url_file")):
                yield f"{path}{name}"

    return set(below(Config, ""))


def test_every_setting_of_a_secret_is_planted() -> None:
    planted = {
        *(f"prometheus.{name}" for name in ("bearer_token_file", "bearer_token_env", "headers_env")),
        *(f"prometheus.basic_auth.{name}" for name in ("password_file", "password_env")),
        *(f"{section}.token_{kind}" for section in ("mlflow", "slurm") for kind in ("file", "env")),
        *(f"notify.slack.webhook_url_{kind}" for kind in ("file", "env")),
        *(f"notify.webhook.{name}" for name in ("url_file", "url_env", "headers_env")),
        # tests/services/test_notify.py plants this one, in a server that speaks SMTP
        *(f"notify.email.password_{kind}" for kind in ("file", "env")),
    }
    assert secret_settings() == planted


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("keyring:nothing", "is no place in a keyring"),
        ("keyring:service/none", "the keyring holds no service/none"),
        ("keyring:service/two", "holds more than one line"),
    ],
)
def test_a_keyring_that_holds_nothing_says_what_to_do(
    place: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(keyring.core, "_keyring_backend", Kept())
    Kept.held = {("service", "two"): "one\ntwo"}
    (tmp_path / "gpucost.toml").write_text(
        f'[prometheus]\nurl = "http://127.0.0.1:1"\nbearer_token_env = "{place}"\n'
    )
    result = CliRunner().invoke(app, ["collect", "prometheus"])
    assert result.exit_code == 1 and said in result.stderr, result.output
