"""`gpucost notify` and the Pushgateway, with HTTP and SMTP servers on loopback. Frozen answers cover the texts."""

from __future__ import annotations

import json
import ssl
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from tests.golden.report_fleet import alone, stored
from tests.loopback import Quiet, serving
from tests.programs import require
from tests.replay.server import free_port
from tests.text_tables import named_rows

pytestmark = pytest.mark.services

HOSTILE = "a<!channel> & <https://evil|x>`*_~\r\nBcc: x@evil\u202e{{ 7*7 }}" + "n" * 200
LINK = ("--link", "https://reports.example.com/?a=1&b=2")
PUSH = ("export", "openmetrics", "--month", "2026-10")

store = stored(hours=48, team=HOSTILE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    alone(tmp_path, monkeypatch)
    monkeypatch.setattr("gpucost.http._FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("gpucost.http._TIMEOUT_SECONDS", (1.0, 0.5))
    monkeypatch.setattr("gpucost.publish.notify._TIMEOUT_SECONDS", 10.0)
    monkeypatch.setenv("SMTP_PASSWORD", "pa ss")
    monkeypatch.setenv("WRONG", "verysecret")
    return tmp_path


def run(store: Path, *words: str) -> Result:
    result = CliRunner().invoke(app, [*words, "--store", str(store)])
    assert "verysecret" not in result.output and "pa ss" not in result.output
    return result


def notify(store: Path, way: str, *words: str) -> Result:
    return run(store, "notify", way, "--month", "2026-10", *words)


class Web:
    """Serve HTTP with the given answers in order, repeating the last; None: too late."""

    url = ""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, dict[str, str]] | None] = [(200, "ok", {})]
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.ended = threading.Event()


@pytest.fixture
def web(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web()

    class Handler(Quiet):
        def answer(self) -> None:
            web.requests.append((self.command, self.path, dict(self.headers), self.received()))
            answer = web.answers.pop(0) if len(web.answers) > 1 else web.answers[0]
            if answer is None:
                web.ended.wait(5)
            else:
                self.respond(answer[0], answer[1].encode(), answer[2])

        do_POST = do_PUT = answer  # noqa: N815 - names that http.server asks for

    with serving(Handler) as web.url:
        (folder / "gpucost.toml").write_text("""
            [notify.slack]
            webhook_url_env = "SLACK_URL"
        """)
        (folder / ".netrc").write_text("machine 127.0.0.1 login wrong password wrong\n")
        monkeypatch.setenv("SLACK_URL", f"{web.url}/services/T0/B0/verysecret")
        yield web
        web.ended.set()


def test_slack_receives_the_text_of_a_dry_run(web: Web, store: Path) -> None:
    assert notify(store, "slack", *LINK).stdout == ""
    ((method, path, headers, body),) = web.requests
    assert (method, path) == ("POST", "/services/T0/B0/verysecret")
    assert headers["Content-Type"].startswith("application/json")
    shown = json.loads(notify(store, "slack", "--dry-run", "-v", *LINK).stdout)
    assert json.loads(body) == shown and len(web.requests) == 1
    assert "<https://reports.example.com/?a=1&amp;b=2|Full report>" in json.dumps(shown)


#: Slack's answers, its number of requests, the exit code of the command and its text.
SLACK = """
slow     | [[429, "slow", {"Retry-After": "0"}], [200, "ok", {}]]           | 2 | 0 | sent to Slack
broken   | [[500, "boom", {}]]                                              | 4 | 1 | answered 500: boom (tried 4 times)
hostile  | [[400, "who are you?\\u001b[31m", {}]]                             | 1 | 1 | answered 400: who are you?
revoked  | [[403, "invalid_token", {}]]                                     | 1 | 1 | the webhook was revoked
moved    | [[302, "", {"Location": "http://127.0.0.1:9/elsewhere"}]]        | 1 | 1 | answered 302
too late | [null] | 1 | 1 | did not answer in time; the message may have arrived
"""


@pytest.mark.parametrize(("answers", "requests", "code", "message"), named_rows(SLACK))
def test_answers_of_slack_are_handled(
    web: Web, store: Path, answers: str, requests: str, code: str, message: str
) -> None:
    web.answers = json.loads(answers)
    result = notify(store, "slack")
    assert (result.exit_code, len(web.requests)) == (int(code), int(requests)), result.output
    assert message in result.stderr and "\x1b" not in result.stderr


def test_metrics_are_sent_to_a_pushgateway(web: Web, store: Path) -> None:
    push = (*PUSH, "--pushgateway", f"{web.url}/", "--job", "gpu cost")
    web.answers = [(202, "", {}), (400, "bad", {}), None]
    assert run(store, *push).exit_code == 0
    ((method, path, headers, raw),) = web.requests
    assert (method, path) == ("PUT", "/metrics/job/gpu%20cost")
    assert headers["Content-Type"].startswith("text/plain")
    assert raw.decode() == run(store, *PUSH).stdout
    assert "answered 400: bad" in run(store, *push).stderr
    # a repeated push is harmless: a slow gateway gets another request
    assert run(store, *push).exit_code == 1
    assert len(web.requests) == 2 + 4


class Mail:
    """The accepted mails of a server, and its answers to recipients and, in order, to mails."""

    def __init__(self) -> None:
        self.mails: list[Envelope] = []
        self.refused: dict[str, str] = {}
        self.answers: list[str] = []

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Envelope, address: str, _: Any) -> str:  # noqa: N802
        if address not in self.refused:
            envelope.rcpt_tos.append(address)
        return self.refused.get(address, "250 OK")

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.answers:
            return self.answers.pop(0)
        self.mails.append(envelope)
        return "250 taken"

    def last(self) -> Any:
        return message_from_bytes(self.mails[-1].original_content or b"", policy=policy.default)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate and its key in one file."""
    require("openssl", package="openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    subject = ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(file), "-out", f"{file}.cert"]
    subprocess.run([*words.split(), *subject], check=True, capture_output=True)
    file.write_text(file.read_text() + file.with_name("both.pem.cert").read_text())
    return file


@pytest.fixture
def smtp(folder: Path, certificate: Path) -> Iterator[Mail]:
    """Serve mail with mandatory STARTTLS and login."""
    handler = Mail()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, login: Any) -> AuthResult:
        good = isinstance(login, LoginPassword) and (login.login, login.password) == (b"gpucost", b"pa ss")
        return AuthResult(success=good, handled=False)  # handled: the answer has been sent

    controller = Controller(
        handler, hostname="127.0.0.1", port=free_port(), tls_context=context, require_starttls=True,
        auth_required=True, authenticator=authenticate,
    )  # fmt: skip
    controller.start()
    (folder / "gpucost.toml").write_text(f"""
        [notify.email]
        host = "127.0.0.1"
        port = {controller.port}
        sender = "gpucost@example.com"
        recipients = ["a@example.com", "b@example.com"]
        username = "gpucost"
        password_env = "SMTP_PASSWORD"
        ca_file = "{certificate}"
    """)
    yield handler
    controller.stop()


def test_mail_has_text_and_html(smtp: Mail, store: Path) -> None:
    assert notify(store, "email", *LINK).exit_code == 0
    assert smtp.mails[0].rcpt_tos == ["a@example.com", "b@example.com"]
    mail = smtp.last()
    assert mail["Subject"].startswith("all GPU nodes: $1,730.16 in October 2026; idle $")
    assert mail["To"] == "a@example.com, b@example.com"
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    totals = json.loads(run(store, "report", "--month", "2026-10", "--format", "json").stdout)["totals"]
    assert all(f"${totals['node_cost']:,.2f}" in part for part in (text, html))
    assert "a&lt;!channel&gt; &amp; &lt;https://evil|x&gt;" in html and "<https" not in html
    assert '<a href="https://reports.example.com/?a=1&amp;b=2">' in html
    assert "\nBcc:" not in text
    # a team named like a header adds no header
    assert notify(store, "email", "--team", HOSTILE).exit_code == 0
    mail = smtp.last()
    assert mail["Bcc"] is None and "Bcc: x@evil" in mail["Subject"] and len(mail["Subject"]) <= 250


def test_owners_get_the_mail_on_their_team(smtp: Mail, store: Path, folder: Path) -> None:
    file = folder / "gpucost.toml"
    owners = [
        f'[[notify.teams]]\nteam = "{name}"\nrecipients = ["{name}@example.com"]\n'
        for name in ("product", "vision")
    ]
    file.write_text("\n".join([textwrap.dedent(file.read_text()), *owners]))
    assert notify(store, "email").exit_code == 0
    recipients = [mail.rcpt_tos for mail in smtp.mails]
    assert recipients == [["a@example.com", "b@example.com"], ["product@example.com"], ["vision@example.com"]]
    assert smtp.last()["Subject"].startswith("vision: $")
    # the others are sent if one is refused
    smtp.refused = {"product@example.com": "550 unknown"}
    result = notify(store, "email")
    assert result.exit_code == 1 and "refused every recipient: product@example.com" in result.stderr
    assert len(smtp.mails) == 5 and smtp.last()["To"] == "vision@example.com"
    assert notify(store, "email", "--team", "vision").exit_code == 0
    assert smtp.mails[-1].rcpt_tos == ["vision@example.com"]


#: The server's first answer, refused recipients, accepted mails, the exit code of the command and its text.
MAILS = """
later | 451 later |    | 1 | 0 | sent to
spam  | 554 spam  |    | 0 | 1 | answered 554: spam
one   |           | b  | 1 | 1 | refused b@example.com; the others received the mail
both  |           | ab | 0 | 1 | refused every recipient: a@example.com: unknown; b@example.com: unknown
"""


@pytest.mark.parametrize(("answer", "refused", "mails", "code", "message"), named_rows(MAILS))
def test_answers_of_a_mail_server_are_handled(
    smtp: Mail, store: Path, answer: str, refused: str, mails: str, code: str, message: str
) -> None:
    smtp.answers, smtp.refused = (
        [answer] * bool(answer),
        {f"{name}@example.com": "550 unknown" for name in refused},
    )
    result = notify(store, "email")
    assert message in result.stderr and len(smtp.mails) == int(mails)
    assert result.exit_code == int(code)


#: Text in the configuration, its replacement (a semicolon ends a line), and the error.
WRONG = r"""
password   | SMTP_PASSWORD       | WRONG                                   | refused the user name or password
no ca      | ca_file             | # ca_file                               | failed to encrypt the connection
tls        | port =              | encryption = "tls"; port =              | failed to encrypt
no tls     | host =              | encryption = "none"; host =             | does not support the request
in clear   | "127.0.0.1"         | "smtp.example.com"; encryption = "none" | would send the password unencrypted
no address | gpucost@example.com | g@example.com\nBcc: x@evil.example      | should be an address
"""


@pytest.mark.parametrize(("before", "after", "message"), named_rows(WRONG))
def test_wrong_settings_of_mail_are_errors(
    smtp: Mail, store: Path, folder: Path, before: str, after: str, message: str
) -> None:
    file = folder / "gpucost.toml"
    file.write_text(file.read_text().replace(before, after.replace("; ", "\n"), 1))
    result = notify(store, "email")
    assert result.exit_code == 1 and message in result.stderr
    assert not smtp.mails


NO_URL = """
nothing   |                                 | the URL of [notify.slack] is missing
two lines | slack.webhook_url_file = "two"  | contains more than one line
a word    | slack.webhook_url_file = "word" | must begin with http:// or https://
a link    | link = "ftp://x"                | notify.link
"""


@pytest.mark.parametrize(("config", "message"), named_rows(NO_URL))
def test_wrong_settings_of_slack_are_errors(store: Path, folder: Path, config: str, message: str) -> None:
    (folder / "gpucost.toml").write_text(f"[notify]\n{config}")
    (folder / "two").write_text("https://verysecret\nmore")
    (folder / "word").write_text("verysecret")
    result = notify(store, "slack")
    assert result.exit_code == 1 and message in result.stderr
