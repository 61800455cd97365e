"""Sends messages by mail, over SMTP."""

from __future__ import annotations

import contextlib
import logging
import smtplib
import ssl
import time
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

from gpucost.errors import ConfigError, GpucostError
from gpucost.notify.secrets import secret

if TYPE_CHECKING:
    from gpucost.config.alerts import Email

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 20.0
_PAUSES = (0.5, 2.0)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def mail(config: Email, subject: str, text: str, html: str) -> EmailMessage:
    """The mail as it is sent, with `text` for programs that show no HTML.

    Raises ConfigError where [notify.email] lacks an address, or where a header would hold a line break.
    """
    if config.sender is None or not config.recipients:
        missing = "sender" if config.sender is None else "recipients"
        raise ConfigError(f"[notify.email] names no {missing}", f"set {missing} under [notify.email] in gpucost.toml")
    made = EmailMessage()
    try:
        made["Subject"] = subject
        made["From"] = config.sender
        made["To"] = ", ".join(config.recipients)
    except ValueError:
        raise ConfigError("a header of the mail would hold a line break, which is refused") from None
    made["Date"] = formatdate()
    made["Message-ID"] = make_msgid("gpucost", domain=config.sender.rpartition("@")[2])
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: keeps vacation replies away
    made.set_content(text)
    made.add_alternative(html, subtype="html")
    return made


def send_mail(config: Email, made: EmailMessage) -> None:
    """Hand `made` to the server of [notify.email], again where it asks for patience or cannot be reached.

    Raises ConfigError without a server, or where a password would travel in clear; GpucostError where the mail is not taken.
    """
    if config.host is None:
        raise ConfigError("[notify.email] names no host", "set host under [notify.email] in gpucost.toml")
    password = secret("notify.email", "password", config.password_file, config.password_env)
    if password is not None and config.encryption == "none" and config.host not in _LOOPBACK:
        raise ConfigError(
            "[notify.email] would send the password in clear", 'set encryption = "starttls" or "tls" under [notify.email]'
        )
    for pause in (*_PAUSES, None):
        try:
            _send(config, made, password)
            return
        except (OSError, smtplib.SMTPException) as error:
            if pause is None or not _is_passing(error):
                raise _told(config, error) from None
            _log.warning("%s: trying again in %.1f s", _told(config, error), pause)
            time.sleep(pause)


def _send(config: Email, made: EmailMessage, password: str | None) -> None:
    trusted = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None)
    host = config.host or ""
    connect = (
        smtplib.SMTP_SSL(host, config.port, timeout=_TIMEOUT_SECONDS, context=trusted)
        if config.encryption == "tls"
        else smtplib.SMTP(host, config.port, timeout=_TIMEOUT_SECONDS)
    )
    try:
        if config.encryption == "starttls":
            connect.starttls(context=trusted)
        if config.username is not None and password is not None:
            connect.login(config.username, password)
        refused = connect.send_message(made)
    finally:
        # the server may be gone by now: whether the mail was taken is known already
        with contextlib.suppress(OSError, smtplib.SMTPException):
            connect.quit()
    if refused:
        # some were accepted: sending again would reach those twice
        raise GpucostError(
            f"the mail server refused {', '.join(sorted(refused))}; the others got the mail",
            "check recipients under [notify.email] in gpucost.toml",
        )


def _is_passing(error: Exception) -> bool:
    """Whether the mail was surely not taken, and may be in a moment."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return False
    if isinstance(error, smtplib.SMTPResponseException):
        return 400 <= error.smtp_code < 500
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(400 <= code < 500 for code, _ in error.recipients.values())
    return isinstance(error, ConnectionRefusedError)


def _told(config: Email, error: Exception) -> GpucostError:
    where = f"the mail server {config.host}:{config.port}"
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return GpucostError(f"{where} refused the user name or password", "check username and password_env or password_file")
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return GpucostError(
            f"{where} cannot do what was asked: {error}", "check port, encryption and username under [notify.email]"
        )
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        said = "; ".join(f"{name}: {_words(text)}" for name, (_, text) in sorted(error.recipients.items()))
        return GpucostError(f"{where} refused every recipient: {said}", "check sender and recipients under [notify.email]")
    if isinstance(error, smtplib.SMTPResponseException):
        return GpucostError(
            f"{where} answered {error.smtp_code}: {_words(error.smtp_error)}", "check [notify.email] in gpucost.toml"
        )
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return GpucostError(f"{where} broke off: {error}; the mail may have arrived", "look there before you send it again")
    if isinstance(error, ssl.SSLError):
        hint = "check ca_file, and whether the port wants encryption = \"tls\" (465) or \"starttls\" (587)"  # fmt: skip
        return GpucostError(f"{where} cannot be spoken to encrypted: {error.reason or error}", hint)
    if isinstance(error, FileNotFoundError) and config.ca_file:
        return GpucostError(f"[notify.email] ca_file: cannot read {config.ca_file}")
    reason = "timed out" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
    return GpucostError(f"{where} cannot be reached: {reason}", "check host and port under [notify.email]")


def _words(text: bytes | str) -> str:
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return " ".join("".join(letter if letter.isprintable() else " " for letter in said).split())[:200]
