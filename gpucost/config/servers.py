"""Servers that are asked over HTTP: where they are, and who asks. Secrets are named by file or by variable, never written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpucost.config.section import Section

# Names of headers that carry credentials: their values may not stand in a file.
SECRET_HEADERS = ("authorization", "token", "secret", "password", "cookie", "api-key", "apikey", "x-auth")


def shown_url(url: str) -> str:
    """`url` as it may be shown: user name and password, whatever characters they hold, are masked."""
    return re.sub(r"^([A-Za-z][\w+.-]*://)?.*@", lambda found: f"{found[1] or ''}***@", url)


def base_url(value: str, password_goes: str) -> str:
    """`value` without a slash at its end. Raises ValueError where it is no base URL, or holds a password."""
    if not value.startswith(("http://", "https://")):
        raise ValueError("should begin with http:// or https://")
    if "@" in value:  # anywhere: a password may hold a slash
        raise ValueError(f"should hold no password; {password_goes}")
    if "?" in value or "#" in value:
        raise ValueError("should be a base URL, without ? or #")
    return value.rstrip("/")


class BasicAuth(Section):
    """User name and password; the password is named by file or by variable."""

    username: str = Field(description="User name.")
    password_file: Path | None = Field(default=None, description="File that holds the password.")
    password_env: str | None = Field(default=None, description="Environment variable that holds the password.")

    @model_validator(mode="after")
    def _one_password(self) -> BasicAuth:
        if (self.password_file is None) == (self.password_env is None):
            raise ValueError("needs one of password_file and password_env")
        return self


class Tls(Section):
    """Certificates for https."""

    ca_file: Path | None = Field(default=None, description="Certificate authority to trust, PEM; else the system's.")
    cert_file: Path | None = Field(default=None, description="Client certificate, PEM.")
    key_file: Path | None = Field(default=None, description="Key of the client certificate, where it is not in `cert_file`.")
    insecure_skip_verify: bool = Field(default=False, description="Do not check the server's certificate.")

    @model_validator(mode="after")
    def _key_has_certificate(self) -> Tls:
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs cert_file beside it")
        return self


class PrometheusSource(Section):
    """One server that speaks Prometheus' HTTP API. Secrets are named by file or by variable, never written here."""

    url: str = Field(default="http://127.0.0.1:9090", description="Base URL: what stands before `/api/v1`.")
    name: str | None = Field(default=None, description="What the store calls this server; else its URL.")
    cluster: str | None = Field(default=None, description="Cluster of series without `cluster_label`; else `default`.")
    cluster_label: str = Field(default="cluster", description="Label that names a series' cluster.")
    tenant: str | None = Field(default=None, description="Tenant of Mimir, Cortex or Thanos, sent as `X-Scope-OrgID`.")
    headers: dict[str, str] = Field(default_factory=dict, description='Further headers, such as `{ X-Team = "finops" }`.')
    headers_env: dict[str, str] = Field(
        default_factory=dict, description='Headers with secret values: `{ X-Api-Key = "NAME_OF_VARIABLE" }`.'
    )
    bearer_token_file: Path | None = Field(default=None, description="File that holds a bearer token; read anew for each run.")
    bearer_token_env: str | None = Field(default=None, description="Environment variable that holds a bearer token.")
    basic_auth: BasicAuth | None = Field(default=None, description="User name and password.")
    tls: Tls = Field(default=Tls(), description="Certificates for https.")
    timeout_seconds: float = Field(default=120.0, gt=0, description="Longest wait for one answer.")
    concurrency: int = Field(default=2, ge=1, le=16, description="Queries that run at once.")
    max_samples: int = Field(default=2_000_000, ge=1_000, description="Samples that one query is sized for.")
    max_response_mib: int = Field(
        default=1024, ge=1, description="Largest answer, decompressed; a larger one is asked for in parts."
    )
    max_response_seconds: float = Field(default=600.0, gt=0, description="Longest time for one whole answer.")
    partial_response: Literal["refuse", "accept"] = Field(
        default="refuse", description="What becomes of an answer that the server calls partial; accepted, its hours stay marked."
    )
    late_hours: int = Field(
        default=72, ge=0, le=24 * 60, description="For how long incomplete hours are asked for again, in hours."
    )

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        return base_url(value, "name it under [prometheus.basic_auth]")

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for header in value:
            if any(word in header.lower() for word in SECRET_HEADERS):
                raise ValueError(f"{header} is a secret; name a variable in headers_env, or use bearer_token_file")
        return value

    @model_validator(mode="after")
    def _one_login(self) -> PrometheusSource:
        logins = ("bearer_token_file", "bearer_token_env", "basic_auth")
        given = [name for name in logins if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given; one is enough")
        return self

    @property
    def source(self) -> str:
        """What the store calls this server: its name, else its URL."""
        return self.name or self.url
