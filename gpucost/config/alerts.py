"""The sections of the configuration about what leaves gpucost by itself: alerting rules and notifications."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpucost.config.section import Section

# Kueue's histograms of waiting times end at 10,240 s: no quantile of them is beyond (kueue pkg/metrics/metrics.go).
_LONGEST_WAIT_MINUTES = 170

_LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


class Alerts(Section):
    """Thresholds of the alerting rules that `gpucost export alerts` prints; the spot ratio's is that of [targets].

    What may be spent stands in [[budgets]].
    """

    idle_minutes: int = Field(default=60, ge=1, description="On-demand GPUs idle, or nodes held by nobody, for this long.")
    queue_wait_minutes: int = Field(
        default=30, ge=1, le=_LONGEST_WAIT_MINUTES, description="Nine in ten workloads of a Kueue queue should start sooner."
    )
    spot_hours: int = Field(default=24, ge=1, description="Hours that the spot ratio is measured over.")
    telemetry_minutes: int = Field(default=15, ge=1, description="Metrics missing for this long.")
    collect_hours: int = Field(default=36, ge=1, description="The newest data in the store is older than this.")
    labels: dict[str, str] = Field(
        default={"severity": "warning"}, description="Labels of every alert, for the routes of Alertmanager."
    )

    @field_validator("labels")
    @classmethod
    def _label_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not re.fullmatch(_LABEL_NAME, name):
                raise ValueError(f"{name} is no label name: letters, digits and underscores")
        return value


class Slack(Section):
    """An incoming webhook of Slack, or of what understands the same; its URL is a secret. The file wins over the variable."""

    webhook_url_file: Path | None = Field(default=None, description="File that holds the webhook's URL.")
    webhook_url_env: str | None = Field(default=None, description="Environment variable that holds the webhook's URL.")


class Webhook(Section):
    """Any server that takes JSON over HTTP."""

    url: str | None = Field(default=None, description="Where to POST, where the URL is no secret.")
    url_file: Path | None = Field(default=None, description="File that holds the URL, where it is one.")
    url_env: str | None = Field(default=None, description="Environment variable that holds it.")
    headers_env: dict[str, str] = Field(
        default_factory=dict, description='Headers with secret values: `{ Authorization = "NAME_OF_VARIABLE" }`.'
    )

    @field_validator("url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("should begin with http:// or https://")
        if value is not None and "@" in value:
            raise ValueError("should hold no password; name a file or a variable with url_file or url_env")
        return value


class Email(Section):
    """A mail server that takes messages over SMTP."""

    host: str | None = Field(default=None, min_length=1, description="Host of the mail server.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    encryption: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="`starttls`: on the open connection, as is usual on 587. `tls`: from the start, on 465."
    )
    sender: str | None = Field(default=None, description="Address that messages come from.")
    recipients: list[str] = Field(default_factory=list, description="Addresses that they go to.")
    username: str | None = Field(default=None, min_length=1, description="User name, where the server wants one.")
    password_file: Path | None = Field(default=None, description="File that holds the password; it wins over the variable.")
    password_env: str | None = Field(default=None, description="Environment variable that holds the password.")
    ca_file: Path | None = Field(default=None, description="Certificate authority to trust, PEM; else the system's.")

    @field_validator("sender", "recipients")
    @classmethod
    def _addresses(cls, value: str | list[str] | None) -> str | list[str] | None:
        for address in [value] if isinstance(value, str) else value or []:
            # an address that held a line break would be a header of its own
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"{address!r} should be an address such as finops@example.com")
        return value

    @model_validator(mode="after")
    def _password_has_user(self) -> Email:
        has_password = self.password_file is not None or self.password_env is not None
        if has_password and self.username is None:
            raise ValueError("a password needs username beside it")
        if self.username is not None and not has_password:
            raise ValueError("username needs password_file or password_env beside it")
        return self


class Notify(Section):
    """Where `gpucost notify` sends the summary of a report. Secrets are named by file or by variable, never written here."""

    link: str | None = Field(default=None, description="Link to the whole report, shown below the summary; --link wins.")
    slack: Slack = Field(default=Slack(), description="Slack.")
    webhook: Webhook = Field(default=Webhook(), description="Any other server.")
    email: Email = Field(default=Email(), description="Mail.")

    @field_validator("link")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not is_link(value):
            raise ValueError("should be a URL that begins with http:// or https://")
        return value


def is_link(text: str) -> bool:
    """Whether `text` can stand as a link in a message: an http(s) URL without blanks and without what ends a link."""
    return re.fullmatch(r"https?://[^\s<>|\"']+", text) is not None
