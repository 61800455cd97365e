"""The configuration: options over GPUCOST_* variables over `gpucost.toml` over defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from gpucost import config_errors, config_file
from gpucost.errors import ConfigError

# Names of headers that carry credentials: their values may not stand in a file.
SECRET_HEADERS = ("authorization", "token", "secret", "password", "cookie", "api-key", "apikey", "x-auth")


def shown_url(url: str) -> str:
    """`url` as it may be shown: user name and password, whatever characters they hold, are masked."""
    return re.sub(r"^([A-Za-z][\w+.-]*://)?.*@", lambda found: f"{found[1] or ''}***@", url)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BasicAuth(_Section):
    """User name and password; the password is named by file or by variable."""

    username: str = Field(description="User name.")
    password_file: Path | None = Field(default=None, description="File that holds the password.")
    password_env: str | None = Field(default=None, description="Environment variable that holds the password.")

    @model_validator(mode="after")
    def _one_password(self) -> BasicAuth:
        if (self.password_file is None) == (self.password_env is None):
            raise ValueError("needs one of password_file and password_env")
        return self


class Tls(_Section):
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


class PrometheusSource(_Section):
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

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("should begin with http:// or https://")
        if "@" in value:  # anywhere: a password may hold a slash
            raise ValueError("should hold no password; name it under [prometheus.basic_auth]")
        if "?" in value or "#" in value:
            raise ValueError("should be a base URL, without ? or #")
        return value.rstrip("/")

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


class Prices(_Section):
    """Where prices come from besides the catalog inside gpucost."""

    book: Path | None = Field(default=None, description="Price book, a CSV file: contract prices and on-premises rates.")


class Idle(_Section):
    """When a held GPU counts as idle."""

    threshold_percent: float = Field(default=5.0, ge=0, le=100, description="A measured GPU under this activity is idle.")
    min_measured: float = Field(
        default=0.8, ge=0, le=1, description="Under this measured share of allocated GPU-hours, the efficiency target is unknown."
    )


class Activity(_Section):
    """What measures a GPU's activity."""

    device_metric: str = Field(default="DCGM_FI_DEV_GPU_UTIL", description="Metric of whole devices.")
    device_scale: float = Field(default=1.0, gt=0, description="Factor that makes it a percentage.")
    mig_metric: str = Field(default="DCGM_FI_PROF_GR_ENGINE_ACTIVE", description="Metric of MIG instances.")
    mig_scale: float = Field(default=100.0, gt=0, description="Factor that makes it a percentage.")


class Mig(_Section):
    """How MIG slices share a GPU."""

    share: Literal["compute", "max_compute_memory"] = Field(
        default="compute",
        description="What a slice is of its GPU: its share of compute slices, or the larger of its compute and memory shares.",
    )


class Targets(_Section):
    """What the report measures teams against."""

    efficiency: Decimal = Field(default=Decimal("0.80"), ge=0, le=1, description="Least active share of measured GPU-hours.")
    spot_ratio: Decimal = Field(default=Decimal("0.70"), ge=0, le=1, description="Least spot share of allocated GPU-hours.")


class TeamLabels(_Section):
    """Labels whose value is the team; the pod's label wins over the namespace's."""

    namespace: str | None = Field(default=None, description="Namespace label, such as `team`.")
    pod: str | None = Field(default=None, description="Pod label, such as `team`.")


class Team(_Section):
    """A team by namespace patterns or label values, where no label in [team_labels] decides; the first match wins."""

    name: str = Field(min_length=1, description="What reports call the team.")
    namespaces: list[str] = Field(default_factory=list, description="Namespaces, with `*` and `?`.")
    clusters: list[str] = Field(default_factory=list, description="Only in these clusters, with `*` and `?`; none means all.")
    labels: dict[str, list[str]] = Field(
        default_factory=dict, description='Values of a label that belong to this team: `{ team = ["nlp", "vision"] }`.'
    )

    @model_validator(mode="after")
    def _matches_something(self) -> Team:
        if not self.namespaces and not self.labels:
            raise ValueError("needs namespaces or labels")
        return self


class Config(_Section):
    """Everything a run depends on besides the store."""

    store: Path = Field(default=Path("gpucost.duckdb"), description="The store, a DuckDB file.")
    timezone: str = Field(default="UTC", description="Where days and months begin: an IANA name such as `Europe/Berlin`.")
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="Currency of prices and reports, ISO 4217.")
    prometheus: list[PrometheusSource] = Field(
        default_factory=lambda: [PrometheusSource()], description="Servers to collect from."
    )
    prices: Prices = Field(default=Prices(), description="Prices.")
    idle: Idle = Field(default=Idle(), description="Idleness.")
    activity: Activity = Field(default=Activity(), description="Metrics of activity.")
    mig: Mig = Field(default=Mig(), description="MIG slices.")
    targets: Targets = Field(default=Targets(), description="Targets.")
    team_labels: TeamLabels = Field(default=TeamLabels(), description="Labels that name the team.")
    teams: list[Team] = Field(default_factory=list, description="Teams by pattern.")

    _path: Path | None = PrivateAttr(default=None)
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError):
            raise ValueError("should be an IANA time zone name such as Europe/Berlin") from None

    @field_validator("prometheus")
    @classmethod
    def _told_apart(cls, value: list[PrometheusSource]) -> list[PrometheusSource]:
        names = [server.source for server in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two servers are called {twice[0]}; give each its own name")
        return value

    @property
    def path(self) -> Path | None:
        """The file this was read from; None where there was none."""
        return self._path

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of days and months."""
        return ZoneInfo(self.timezone)


def load_config(
    path: Path | None = None,
    *,
    store: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Config:
    """The configuration in force: option over environment over `./gpucost.toml` over the user's file over defaults.

    `path` and `store` are the options --config and --store. Relative paths in a file, and the default store, lie
    beside that file; those of options and variables, and the default store without a file, in `cwd`.
    Raises ConfigError, naming every wrong key with its file and line or its variable.
    """
    cwd = cwd or Path.cwd()
    settings = config_file.read(path, environ, cwd, known=frozenset(Config.model_fields))
    settings.put(("store",), str(Config.model_fields["store"].default), "default", settings.base, only_if_missing=True)
    if store is not None:
        settings.put(("store",), str(store), "option --store", cwd)
    try:
        config = Config.model_validate(settings.values)
    except ValidationError as error:
        raise ConfigError(*config_errors.explain(error, settings, Config)) from None
    config._path = settings.path
    config._origins = settings.origins()
    return config


def resolved(config: Config) -> list[tuple[str, str, str]]:
    """Rows of (key, value, where it comes from) for every setting. Secrets are not read; values of headers are hidden."""
    rows = []
    for key, value in _leaves("", config.model_dump()):
        origin = next((text for known, text in config._origins.items() if key == known or key.startswith(known + ".")), "default")
        hidden = ".headers." in key
        value = shown_url(value) if key.endswith(".url") else value
        rows.append((key, "(hidden)" if hidden else config_file.as_toml(value), origin))
    return rows


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else key, item)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from _leaves(f"{prefix}[{index}]", item)
    elif value is not None:
        yield prefix, value
