"""`gpucost notify` and the Pushgateway, against servers on loopback that speak HTTP and SMTP."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.periods import month_name
from tests.golden.report_fleet import stored
from tests.loopback import Quiet, serving
from tests.programs import require
from tests.replay.server import free_port

pytestmark = pytest.mark.services

HOSTILE = "a<!channel> & <https://evil|x>`*_~\r\nBcc: x@evil\u202e{{ 7*7 }}" + "n" * 200


store = stored(hours=48, team=HOSTILE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("gpucost.pipeline.attribute", lambda *_: None)
    monkeypatch.setattr("gpucost.pipeline.attribution.is_current", lambda *_: True)
    monkeypatch.setattr("gpucost.http._FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("gpucost.http._TIMEOUT_SECONDS", (1.0, 0.5))
    monkeypatch.setattr("gpucost.publish.notify._TIMEOUT_SECONDS", 10.0)
    return tmp_path


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(store)])


def notify(store: Path, way: str, *words: str) -> Result:
    return run(store, "notify", way, "--month", "2026-10", *words)


@dataclass
class Web:
    """An HTTP server that answers with what it is told, one after the other, the last one for good."""

    url: str
    answers: list[tuple[int, str, dict[str, str]]] = field(default_factory=lambda: [(200, "ok", {})])
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)
    hangs: bool = False


@pytest.fixture
def web() -> Iterator[Web]:
    class Handler(Quiet):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.requests.append((self.command, self.path, dict(self.headers), body))
            if made.hangs:
                made.hang.wait(5)
            status, text, headers = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_PUT = answer  # noqa: N815 - names that http.server asks for

    with serving(Handler) as url:
        made = Web(url)
        yield made
        made.hang.set()


@pytest.fixture
def slack(web: Web, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Web:
    (folder / "gpucost.toml").write_text('[notify.slack]\nwebhook_url_env = "SLACK_URL"\n')
    monkeypatch.setenv("SLACK_URL", f"{web.url}/services/T0/B0/verysecret")
    return web


def _texts(body: dict[str, Any]) -> str:
    return "\n".join(block["text"]["text"] for block in body["blocks"])


def test_slack_gets_the_figures_of_the_report(slack: Web, store: Path) -> None:
    result = notify(store, "slack", "--link", "https://reports.example.com/?a=1&b=2")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    ((method, path, headers, raw),) = slack.requests
    assert (method, path) == ("POST", "/services/T0/B0/verysecret")
    assert headers["Content-Type"].startswith("application/json")
    body = json.loads(raw)
    totals = json.loads(run(store, "report", "--month", "2026-10", "--format", "json").stdout)["totals"]
    text = _texts(body)
    assert f"*GPU nodes:* ${totals['node_cost']:,.2f}" in text
    assert f"*Idle:* ${totals['idle_cost']:,.2f}" in text
    assert f"*Unallocated:* ${totals['unallocated_cost']:,.2f}" in text
    assert "<https://reports.example.com/?a=1&amp;b=2|The whole report>" in text
    assert all(len(block["text"]["text"]) <= 3000 for block in body["blocks"])
    assert (
        json.loads(
            notify(store, "slack", "--dry-run", "--link", "https://reports.example.com/?a=1&b=2").stdout
        )
        == body
    )


def test_the_last_month_is_the_one_that_is_over(slack: Web, store: Path) -> None:
    last = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    result = run(store, "notify", "slack", "--last-month")
    # the store holds October 2026: another month has no data, which the message names
    assert month_name(last) in (json.loads(slack.requests[0][3])["text"] if slack.requests else result.stderr)
    assert run(store, "notify", "slack", "--last-month", "--last", "7d").exit_code == 2


def test_a_dry_run_shows_no_secret(store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gpucost.toml").write_text(
        '[notify.slack]\nwebhook_url_file = "slack"\n[notify.webhook]\nurl_env = "HOOK_URL"\n'
        'headers_env = { Authorization = "HOOK_AUTH" }\n'
    )
    (folder / "slack").write_text("https://hooks.example.com/verysecret\n")
    monkeypatch.setenv("HOOK_URL", "https://example.com/verysecret")
    monkeypatch.setenv("HOOK_AUTH", "Bearer verysecret")
    for way in ("slack", "webhook"):
        result = notify(store, way, "--dry-run", "-v")
        assert result.exit_code == 0, result.output
        assert "verysecret" not in result.output


@pytest.mark.parametrize(
    ("answers", "requests", "code", "message"),
    [
        ([(429, "slow", {"Retry-After": "0"}), (200, "ok", {})], 2, 0, "sent to Slack"),
        ([(500, "boom", {})], 4, 1, "answered 500: boom (tried 4 times)"),
        ([(403, "invalid_token", {})], 1, 1, "the webhook was revoked"),
        ([(302, "", {"Location": "http://127.0.0.1:9/elsewhere"})], 1, 1, "answered 302"),
    ],
)
def test_what_slack_may_answer(
    slack: Web, store: Path, answers: list[Any], requests: int, code: int, message: str
) -> None:
    slack.answers = answers
    result = notify(store, "slack")
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert len(slack.requests) == requests
    assert "verysecret" not in result.output


def test_a_message_that_may_have_arrived_is_not_sent_twice(slack: Web, store: Path) -> None:
    slack.hangs = True
    result = notify(store, "slack")
    assert result.exit_code == 1
    assert "did not answer in time; the message may have arrived" in result.stderr
    assert len(slack.requests) == 1
    assert "verysecret" not in result.output


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "[notify.slack] names no URL"),
        ('[notify.slack]\nwebhook_url_file = "two"', "holds more than one line"),
        ('[notify.slack]\nwebhook_url_file = "word"', "should begin with http:// or https://"),
        ('[notify.slack]\nwebhook_url = "https://x"', "did you mean notify.slack.webhook_url_env?"),
        ('[notify]\nlink = "ftp://x"', "notify.link"),
    ],
)
def test_wrong_settings_of_slack(store: Path, folder: Path, config: str, message: str) -> None:
    (folder / "gpucost.toml").write_text(config)
    (folder / "two").write_text("https://verysecret\nmore")
    (folder / "word").write_text("verysecret")
    result = notify(store, "slack")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "verysecret" not in result.output


def test_a_webhook_gets_the_report_itself(
    web: Web, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "gpucost.toml").write_text(
        f'[notify]\nlink = "https://reports.example.com"\n[notify.webhook]\nurl = "{web.url}/hook"\n'
        'headers_env = { Authorization = "HOOK_AUTH" }\n'
    )
    (folder / ".netrc").write_text("machine 127.0.0.1 login wrong password wrong\n")
    monkeypatch.setenv("HOOK_AUTH", "Bearer abc")
    assert notify(store, "webhook").exit_code == 0
    ((_, path, headers, raw),) = web.requests
    assert (path, headers["Authorization"]) == ("/hook", "Bearer abc")
    body = json.loads(raw)
    report = json.loads(run(store, "report", "--month", "2026-10", "--format", "json").stdout)
    assert body["schema"] == "gpucost.notification/1"
    assert body["report"] == report
    assert body["link"] == "https://reports.example.com"
    # an address whose words stand in the report, too
    (folder / "gpucost.toml").write_text('[notify.webhook]\nurl_env = "HOOK"\n')
    monkeypatch.setenv("HOOK", f"{web.url}/research")
    assert notify(store, "webhook").exit_code == 0 and json.loads(web.requests.pop()[3])["report"] == report
    (folder / "gpucost.toml").write_text(
        f'[notify.webhook]\nurl = "{web.url}/hook"\nheaders_env = {{ Authorization = "HOOK_AUTH" }}\n'
    )
    web.answers = [(401, "who are you?\x1b[31m", {})]
    refused = notify(store, "webhook")
    assert refused.exit_code == 1
    assert "answered 401: who are you?" in refused.stderr and "set headers_env" in refused.stderr
    assert "\x1b" not in refused.stderr and "Bearer abc" not in refused.output


@pytest.mark.slow
def test_metrics_go_to_a_pushgateway(web: Web, store: Path) -> None:
    web.answers = [(202, "", {})]
    result = run(
        store,
        "export",
        "openmetrics",
        "--month",
        "2026-10",
        "--pushgateway",
        f"{web.url}/",
        "--job",
        "gpu cost",
    )
    assert result.exit_code == 0, result.output
    ((method, path, headers, raw),) = web.requests
    assert (method, path) == ("PUT", "/metrics/job/gpu%20cost")
    assert headers["Content-Type"].startswith("text/plain")
    assert raw.decode() == run(store, "export", "openmetrics", "--month", "2026-10").stdout
    web.answers = [(400, "bad", {})]
    assert (
        "answered 400: bad"
        in run(store, "export", "openmetrics", "--month", "2026-10", "--pushgateway", web.url).stderr
    )
    # twice does no harm here: a gateway that is slow is asked again
    web.hangs, web.requests = True, []
    assert run(store, "export", "openmetrics", "--month", "2026-10", "--pushgateway", web.url).exit_code == 1
    assert len(web.requests) == 4


@dataclass
class Mail:
    """What a mail server took, and what it says to the next ones."""

    mails: list[Envelope] = field(default_factory=list)
    refuse_data: list[str] = field(default_factory=list)
    refuse_recipient: dict[str, str] = field(default_factory=dict)

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address in self.refuse_recipient:
            return self.refuse_recipient[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.refuse_data:
            return self.refuse_data.pop(0)
        self.mails.append(envelope)
        return "250 taken"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    require("openssl", package="openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture
def smtp(folder: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mail]:
    """A mail server that wants STARTTLS and a login."""
    handler = Mail()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"gpucost", b"pa ss")
        return AuthResult(success=good, handled=False)  # handled: the answer is sent already

    controller = Controller(
        handler,
        hostname="127.0.0.1",
        port=free_port(),
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticate,
    )
    controller.start()
    (folder / "gpucost.toml").write_text(
        f'[notify.email]\nhost = "127.0.0.1"\nport = {controller.port}\nsender = "gpucost@example.com"\n'
        'recipients = ["a@example.com", "b@example.com"]\nusername = "gpucost"\npassword_env = "SMTP_PASSWORD"\n'
        f'ca_file = "{certificate[0]}"\n'
    )
    monkeypatch.setenv("SMTP_PASSWORD", "pa ss")
    yield handler
    controller.stop()


def test_mail_with_text_and_html(smtp: Mail, store: Path) -> None:
    result = notify(store, "email", "--link", "https://reports.example.com/?a=1&b=2")
    assert result.exit_code == 0, result.output
    (envelope,) = smtp.mails
    assert envelope.rcpt_tos == ["a@example.com", "b@example.com"]
    mail = message_from_bytes(envelope.content or b"", policy=policy.default)
    assert mail["Subject"] == "Monthly GPU report: all teams, October 2026"
    assert mail["To"] == "a@example.com, b@example.com"
    assert mail["Bcc"] is None
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))  # type: ignore[union-attr]
    totals = json.loads(run(store, "report", "--month", "2026-10", "--format", "json").stdout)["totals"]
    assert f"${totals['node_cost']:,.2f}" in text and f"${totals['node_cost']:,.2f}" in html
    assert "a&lt;!channel&gt; &amp; &lt;https://evil|x&gt;" in html and "<https" not in html
    assert '<a href="https://reports.example.com/?a=1&amp;b=2">' in html
    assert "\nBcc:" not in text


def test_a_team_called_like_a_header_adds_none(smtp: Mail, store: Path) -> None:
    result = notify(store, "email", "--team", HOSTILE)
    assert result.exit_code == 0, result.output
    mail = message_from_bytes(smtp.mails[0].content or b"", policy=policy.default)
    assert mail["Bcc"] is None
    assert "Bcc: x@evil" in mail["Subject"] and len(mail["Subject"]) <= 140


def test_a_passing_failure_is_tried_again(smtp: Mail, store: Path) -> None:
    smtp.refuse_data = ["451 later"]
    assert notify(store, "email").exit_code == 0
    assert len(smtp.mails) == 1
    smtp.refuse_data = ["554 spam"]
    result = notify(store, "email")
    assert result.exit_code == 1
    assert "answered 554: spam" in result.stderr


def test_refused_recipients(smtp: Mail, store: Path) -> None:
    smtp.refuse_recipient = {"b@example.com": "550 unknown"}
    result = notify(store, "email")
    assert result.exit_code == 1
    assert "refused b@example.com; the others got the mail" in result.stderr
    assert len(smtp.mails) == 1
    smtp.refuse_recipient["a@example.com"] = "550 unknown"
    assert (
        "refused every recipient: a@example.com: unknown; b@example.com: unknown"
        in notify(store, "email").stderr
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("SMTP_PASSWORD", "WRONG_PASSWORD", "refused the user name or password"),
        ("ca_file", "# ca_file", "cannot be spoken to encrypted"),
        ("port =", 'encryption = "tls"\nport =', "cannot be"),
        ("host =", 'encryption = "none"\nhost =', "cannot do what was asked"),
        ('"127.0.0.1"', '"smtp.example.com"\nencryption = "none"', "would send the password in clear"),
        ("gpucost@example.com", "gpucost", "should be an address"),
        ("gpucost@example.com", "g@example.com\\nBcc: x@evil.example", "should be an address"),
    ],
)
def test_wrong_settings_of_mail(
    smtp: Mail,
    store: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    after: str,
    message: str,
) -> None:
    monkeypatch.setenv("WRONG_PASSWORD", "verysecret")
    file = folder / "gpucost.toml"
    file.write_text(file.read_text().replace(before, after, 1))
    result = notify(store, "email")
    assert result.exit_code == 1, result.output
    assert message in result.stderr
    assert "verysecret" not in result.output and "pa ss" not in result.output
    assert not smtp.mails


def test_a_dry_run_sends_nothing_and_needs_no_password(
    smtp: Mail, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMTP_PASSWORD")
    result = notify(store, "email", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "To: a@example.com, b@example.com\nFrom: gpucost@example.com\nSubject: Monthly GPU report"
    )
    assert not smtp.mails


@pytest.mark.parametrize(
    "words",
    [("--link", "javascript:alert(1)"), ("--link", "https://a b"), ("--month", "2026-1"), ("--top", "-1")],
)
def test_wrong_options(store: Path, words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["notify", "slack", "--store", str(store), *words]).exit_code == 2
