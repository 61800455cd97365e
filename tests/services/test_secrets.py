"""A secret planted in each setting never appears in output, regardless of the server that receives it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import keyring
import pytest
from keyring.backend import KeyringBackend
from typer.testing import CliRunner

from gpucost import texts
from gpucost.cli.app import app
from gpucost.collect.prometheus.client import session
from tests.golden.report_fleet import alone, stored
from tests.loopback import Quiet, serving
from tests.replay.server import free_port
from tests.text_tables import columns, named_rows, text_rows

pytestmark = pytest.mark.services

SECRET = "planted/s3cret+0f=the owner"  # noqa: S105
PARTS = ("planted/", "s3cret+0f")
MONTH = "--month 2026-10"
PROMETHEUS = "collect prometheus --from 2026-10-01 --to 2026-10-02"
EVERYWHERE = (
    "config show", "config show --format json", "doctor", "store info --format json", f"report {MONTH}",
)  # fmt: skip
#: A server's behavior and its status.
MANNERS = {"error": 400, "text": 401, "nonsense": 200, "redirect": 302, "reason": 403, "gone": 0}

store = stored(hours=4)

#: Spelling of a secret's place by its kind; by default it is in a variable of this name.
PLACES = columns("""
    file            _file = "../secret"
    env             _env = "PLANTED"
    keyring         _env = "keyring:service/of/me"
    header          = "PLANTED"
    keyring-header  = "keyring:service/of/me"
""")
#: By setting: the configuration around the secret's place, the command that uses it, and its possible kinds of places.
WAYS = {
    name: (config, command.replace("MONTH", MONTH).replace("PROMETHEUS", PROMETHEUS), holders.split(", "))
    for name, config, command, holders in text_rows("""
prometheus token        | prometheus = {{ url = "{url}", bearer_token{place} }} | PROMETHEUS | file, env, keyring
prometheus password     | prometheus = {{ url = "{url}", basic_auth = {{ username = "me", password{place} }} }} | PROMETHEUS | file, env, keyring
prometheus header       | prometheus = {{ url = "{url}", headers_env = {{ X-Key {place} }} }} | PROMETHEUS | header, keyring-header
mlflow token            | mlflow = {{ name = "mlflow", url = "{url}", token{place} }} | collect progress --source mlflow | file, env, keyring
mlflow token of its own | mlflow = {{ name = "mlflow", url = "{url}" }} | collect progress --source mlflow | MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_PASSWORD
slurm token             | slurm = {{ slurmrestd = "{url}", token{place} }} | collect slurm | file, env, keyring
slurm token of its own  | slurm = {{ slurmrestd = "{url}" }} | collect slurm | SLURM_JWT
slack                   | notify.slack = {{ webhook_url{place} }} | notify slack MONTH | file, env, keyring
""")  # noqa: E501
}


class Kept(KeyringBackend):
    """A keyring in memory for the real library."""

    priority = 1
    held: ClassVar[dict[tuple[str, str], str]] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password


class Echo(Quiet):
    """Echoes everything it receives: as an error, an invalid answer, a redirect, and the reason of a status."""

    manner: ClassVar[str] = "error"
    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:  # noqa: N802
        sent = f"{self.path} {dict(self.headers)} {self.received()[:500]!r}"
        self.heard.append(sent)
        answer = {"status": "error", "errorType": "bad", "error": sent, "message": sent}
        body = (
            json.dumps(answer)
            if self.manner == "error"
            else sent
            if self.manner in ("text", "nonsense")
            else ""
        )
        if self.manner == "reason":
            self.responses = {403: (sent.replace("\n", " ")[:900], "")}
        more = {"Location": f"/elsewhere?{quote(sent)}"} if self.manner == "redirect" else {}
        self.respond(MANNERS[self.manner], body.encode(), more)

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    alone(folder, monkeypatch)
    for variable in ("XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setattr("gpucost.http.retry", lambda ask, **_: ask())
    monkeypatch.setattr("gpucost.http._TIMEOUT_SECONDS", (1.0, 0.5))
    monkeypatch.setattr(texts, "_SECRETS", set())
    monkeypatch.setattr(keyring.core, "_keyring_backend", Kept())
    return folder


def every_way() -> Iterator[Any]:
    """Yield each setting with each of its places; all except one of each, in turn, are slow."""
    for number, (name, (_, _, holders)) in enumerate(WAYS.items()):
        for at, by in enumerate(holders):
            marks = [] if at == number % len(holders) else [pytest.mark.slow]
            yield pytest.param(name, by, id=f"{name} by {by}", marks=marks)


@pytest.mark.parametrize(("name", "by"), list(every_way()))
def test_planted_secret_never_appears(
    name: str, by: str, url: str, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, command, _ = WAYS[name]
    for manner in MANNERS:
        at = f"http://127.0.0.1:{free_port()}" if manner == "gone" else url
        secret = f"{at}/{SECRET.replace(' ', '-')}" if name == "slack" else SECRET
        folder.with_name("secret").write_text(secret)
        Kept.held = {("service/of", "me"): secret}
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me" if by.endswith("PASSWORD") else "")
        monkeypatch.setenv("PLANTED" if by in PLACES else by, secret)
        (folder / "gpucost.toml").write_text(config.format(url=at, place=PLACES.get(by, "")))
        Echo.manner, Echo.heard[:] = manner, []
        texts._SECRETS.clear()
        for words in (command, *(EVERYWHERE if manner == "error" else ())):
            result = CliRunner().invoke(app, [*words.split(), "-v", "--store", str(store)])
            assert result.exit_code in (0, 1, 4), (words, result.output)
            check_nowhere(result.output.encode(), (words, manner))
        if manner != "gone":
            assert any(one in "".join(Echo.heard) for one in spellings()), (manner, Echo.heard, result.output)
    for path in (*folder.rglob("*"), store):
        if path.is_file():
            check_nowhere(path.read_bytes(), path)


def test_unexpected_error_hides_the_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", SECRET)
    (folder / "gpucost.toml").write_text(
        '[prometheus]\nurl = "http://127.0.0.1:1"\nbearer_token_env = "PLANTED"\n'
    )

    def fail(_config: object, source: Any, *_: object, **__: object) -> None:
        raise RuntimeError(f"defect with {dict(session(source).headers)}")

    monkeypatch.setattr("gpucost.collect.prometheus.collector.collect_prometheus", fail)
    result = CliRunner().invoke(app, ["collect", "prometheus", "-v"])
    assert result.exit_code == 1 and "Traceback" in result.stderr and "***" in result.stderr
    check_nowhere(result.output.encode(), "traceback")


EMPTY = """
nothing   | keyring:nothing      | invalid keyring entry keyring:nothing
none      | keyring:service/none | service/none is not in the keyring
two lines | keyring:service/two  | contains more than one line
"""


@pytest.mark.parametrize(("place", "message"), named_rows(EMPTY))
def test_empty_keyring_error_has_a_fix(place: str, message: str, folder: Path) -> None:
    Kept.held = {("service", "two"): "one\ntwo"}
    (folder / "gpucost.toml").write_text(
        f'[prometheus]\nurl = "http://127.0.0.1:1"\nbearer_token_env = "{place}"\n'
    )
    result = CliRunner().invoke(app, ["collect", "prometheus"])
    assert result.exit_code == 1 and message in result.stderr, result.output
