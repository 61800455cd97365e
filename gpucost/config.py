"""The configuration: options over GPUCOST_* variables over `gpucost.toml` over defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from gpucost import config_errors, config_file
from gpucost.config_alerts import Alerts, Notify
from gpucost.config_budgets import Budget
from gpucost.errors import ConfigError
from gpucost.model import MS_PER_HOUR

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


class Discount(_Section):
    """A negotiated discount on the whole price of the nodes that match; what is left out matches anything."""

    percent: Decimal = Field(gt=0, lt=100, description="Percent off the price of the whole node, its GPUs included.")
    provider: str | None = Field(default=None, description="Cloud, such as `aws`.")
    instance_family: str | None = Field(
        default=None, description="Family of instance types, such as `p5` or `Standard_ND`: what they begin with."
    )
    gpu_model: str | None = Field(default=None, description="GPU model as `gpucost prices` spells it.")
    purchase_option: Literal["on_demand", "spot", "reserved", "savings_plan", "cud", "capacity_block"] | None = Field(
        default=None, description="How the node is bought."
    )
    price_sources: list[Literal["price_book", "spot_history", "catalog"]] = Field(
        default=["price_book", "spot_history", "catalog"],
        min_length=1,
        description="Prices it is taken off; a bill, which has it already, is never one.",
    )
    effective_start: date | None = Field(default=None, description="First local day it holds; else since ever.")
    effective_end: date | None = Field(default=None, description="First local day it no longer holds; else for good.")

    @model_validator(mode="after")
    def _in_order(self) -> Discount:
        if self.effective_start and self.effective_end and self.effective_end <= self.effective_start:
            raise ValueError("effective_end should be after effective_start")
        return self


class Prices(_Section):
    """Where prices come from besides the catalog inside gpucost, and how a node's price is shared."""

    book: Path | None = Field(default=None, description="Price book, a CSV file: contract prices and on-premises rates.")
    stale_after_days: int = Field(default=90, ge=1, description="A list price older than this is marked as stale.")
    discounts: list[Discount] = Field(
        default_factory=list, description="Negotiated discounts; all that match are taken off, one after the other."
    )
    fx: dict[str, Decimal] = Field(
        default_factory=dict, description="What one unit of another currency is worth in `currency`: `{ EUR = 1.08 }`."
    )
    fx_rates: Path | None = Field(
        default=None, description="CSV file of rates by day: `date,currency,rate`; a rate holds until the next one."
    )
    commitment_sharing: Literal["pooled", "as_billed"] = Field(
        default="pooled",
        description="`pooled`: nodes of one account, region, instance type, capacity type and hour share what the bill says, "
        "because clouds assign discounts to instances by lot. `as_billed`: each keeps its own.",
    )
    cost_basis: Literal["node", "sku", "residual", "opencost", "scad"] = Field(
        default="node",
        description="`node`: a node's whole price rides on its GPUs. The others split it into GPU, CPU and memory, "
        "and charge CPU and memory by request.",
    )

    @field_validator("fx")
    @classmethod
    def _rates(cls, value: dict[str, Decimal]) -> dict[str, Decimal]:
        for currency, rate in value.items():
            if not re.fullmatch("[A-Z]{3}", currency):
                raise ValueError(f"{currency} should be a currency such as EUR")
            if not rate.is_finite() or rate <= 0:
                raise ValueError(f"the rate of {currency} should be above zero")
        return value


class Aws(_Section):
    """How AWS is asked: credentials are those that boto3 finds."""

    profile: str | None = Field(default=None, description="Profile of the AWS configuration; else boto3's default.")
    regions: list[str] = Field(
        default_factory=list, description="Regions to ask; else those where GPU nodes were seen, else us-east-1."
    )
    endpoint_url: str | None = Field(default=None, description="Base URL of another endpoint for all AWS services.")
    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect aws`: paths or bucket addresses."
    )


class Gcp(_Section):
    """How Google Cloud is asked: credentials are the application default ones."""

    regions: list[str] = Field(default_factory=list, description="Regions whose prices are kept; else all.")
    endpoint: str | None = Field(default=None, description="`host:port` of another Cloud Billing endpoint.")
    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect gcp`: paths or bucket addresses."
    )
    billing_table: str | None = Field(
        default=None, description="Table of the detailed usage cost export in BigQuery: `project.dataset.table`."
    )
    billing_project: str | None = Field(default=None, description="Project that BigQuery queries run in; else the login's own.")
    max_gib: float = Field(default=100.0, gt=0, description="GiB that the BigQuery query of one month may read; more is refused.")
    bigquery_endpoint: str | None = Field(default=None, description="Base URL of another BigQuery endpoint.")
    storage_endpoint: str | None = Field(default=None, description="Base URL of another Cloud Storage endpoint.")


class Azure(_Section):
    """How Azure is asked: retail prices need no credentials, everything else those that azure-identity finds."""

    regions: list[str] = Field(default_factory=list, description="Regions whose prices are kept; else all.")
    subscriptions: list[str] = Field(default_factory=list, description="Subscriptions to ask for spot price history.")
    retail_prices_url: str = Field(
        default="https://prices.azure.com/api/retail/prices", description="Where the retail prices are served."
    )
    management_url: str = Field(default="https://management.azure.com", description="Where Azure Resource Manager is served.")
    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect azure`: paths or container URLs."
    )
    cost_scope: str | None = Field(
        default=None,
        description="Scope to ask the Cost Management query API for,"
        " where there is no export: `/subscriptions/<id>`, or a billing scope.",
    )


class Focus(_Section):
    """FOCUS files of any provider."""

    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect focus`: paths or bucket addresses."
    )


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
    memory: bool = Field(
        default=False, description="Also collect used GPU memory, `DCGM_FI_DEV_FB_USED`: as many samples again as of activity."
    )


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


class WorkloadTypeRule(_Section):
    """What some workloads are for, where it is not as labels and owners tell; the first match wins."""

    type: Literal["training", "inference", "development", "batch", "other"] = Field(description="What they are for.")
    namespaces: list[str] = Field(default_factory=list, description="Namespaces, with `*` and `?`.")
    names: list[str] = Field(default_factory=list, description="Names of workloads or pods, with `*` and `?`.")
    kinds: list[str] = Field(default_factory=list, description="Kinds of the topmost owner, such as `StatefulSet`.")
    labels: dict[str, list[str]] = Field(
        default_factory=dict, description='Pod labels of which one has one of these values: `{ app = ["vllm", "triton"] }`.'
    )

    @model_validator(mode="after")
    def _matches_something(self) -> WorkloadTypeRule:
        if not (self.namespaces or self.names or self.kinds or self.labels):
            raise ValueError("needs one of namespaces, names, kinds and labels")
        return self


class Waste(_Section):
    """What counts as which kind of waste (docs/waste.md)."""

    target_utilization: float = Field(
        default=0.7, gt=0, le=1, description="How busy the replicas of a serving workload may be at its peak."
    )
    forgotten_after: str = Field(
        default="24h", pattern=r"^[1-9]\d{0,3}[hdw]$", description="Idle for longer, until its end, and a notebook is forgotten."
    )
    empty_after: str = Field(
        default="1h",
        pattern=r"^[1-9]\d{0,3}[hdw]$",
        description="A node that nobody holds for this long is empty, not between jobs.",
    )

    @property
    def forgotten_after_ms(self) -> int:
        """`forgotten_after` in milliseconds."""
        return _span_ms(self.forgotten_after)

    @property
    def empty_after_ms(self) -> int:
        """`empty_after` in milliseconds."""
        return _span_ms(self.empty_after)


class FindingsSettings(_Section):
    """What is worth saying (docs/findings.md)."""

    minimum_per_month: Decimal = Field(
        default=Decimal(50), ge=0, description="Money a month under which a saving is left out of `gpucost findings`."
    )


def _span_ms(span: str) -> int:
    return int(span[:-1]) * {"h": 1, "d": 24, "w": 168}[span[-1]] * MS_PER_HOUR


class SharedCost(_Section):
    """A cost that is not GPUs and is charged to teams, in a column of its own."""

    name: str = Field(min_length=1, description="What reports call it.")
    of: Literal["storage", "network", "commitment_waste", "support", "namespaces"] = Field(
        description="`storage`, `network`: of GPU nodes, from the bill. `commitment_waste`: commitments and reservations that "
        "nothing used. `support`: support charges. `namespaces`: what the pods of `namespaces` cost."
    )
    split: Literal["proportional", "even", "owner"] = Field(
        default="proportional", description="By cost of GPUs, evenly over the teams that used any, or all of it to `owner`."
    )
    owner: str | None = Field(default=None, min_length=1, description='The team that pays for it, with `split = "owner"`.')
    namespaces: list[str] = Field(default_factory=list, description="Namespaces whose cost goes to others, with `*` and `?`.")
    provider: str | None = Field(default=None, description="Only bills of this provider, such as `aws`.")

    @model_validator(mode="after")
    def _fits_together(self) -> SharedCost:
        if (self.split == "owner") != (self.owner is not None):
            raise ValueError('split = "owner" needs owner' if self.owner is None else 'owner needs split = "owner"')
        if (self.of == "namespaces") != bool(self.namespaces):
            raise ValueError(
                'of = "namespaces" needs namespaces' if not self.namespaces else 'namespaces needs of = "namespaces"'
            )
        if self.of == "namespaces" and self.provider:
            raise ValueError("provider is about bills, and namespaces are not billed")
        return self


class Unit(_Section):
    """A metric that counts units of work, and what its labels mean."""

    name: str = Field(min_length=1, description="What it is called; the name of a ready-made one replaces that.")
    unit: str = Field(
        pattern="^[a-z][a-z0-9_]*$",
        description="What is counted: `epoch`, `request`, `batch_item`, `prompt_token`, `generation_token`, or your own word.",
    )
    metric: str | None = Field(default=None, pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$", description="Name of the metric.")
    query: str | None = Field(default=None, min_length=1, description="PromQL instead of a metric, evaluated once a minute.")
    kind: Literal["counter", "gauge"] = Field(
        default="counter",
        description="`counter` rises, and falls to 0 at a restart. `gauge` is a level: the current epoch.",
    )
    marks: Literal["begin", "end"] | None = Field(
        default=None,
        description="An epoch's number: `end`, so many are done (default of counters); `begin`, it has begun (of gauges).",
    )
    resumes: bool = Field(
        default=False, description="A restarted process counts epochs from 0 although it goes on from a checkpoint."
    )
    workload_label: str | None = Field(
        default=None, description="Label that names the workload, as `Kind/name` or a name; else the labels of the pod do."
    )
    model_label: str | None = Field(default=None, description="Label that names the model that serves.")
    run_label: str | None = Field(default=None, description="Label that tells runs of one workload apart.")
    match: dict[str, list[str]] = Field(
        default_factory=dict, description='Only series with one of these values of a label: `{ job = ["trainer"] }`.'
    )
    failure: dict[str, list[str]] = Field(
        default_factory=dict, description='Values of a label that say that the work came to nothing: `{ status = ["error"] }`.'
    )

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Unit:
        if (self.metric is None) == (self.query is None):
            raise ValueError("needs one of metric and query")
        if self.query is not None and self.match:
            raise ValueError("match goes with metric; a query has matchers of its own")
        if self.unit != "epoch" and self.kind == "gauge":
            raise ValueError('kind = "gauge" is for epochs; other units are counted')
        if self.unit != "epoch" and (self.marks or self.resumes):
            raise ValueError("marks and resumes are for epochs")
        return self


class Mlflow(_Section):
    """An MLflow tracking server. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, are sent to it."""

    url: str | None = Field(default=None, description="Base URL of the server: what stands before `/api/2.0`.")
    name: str | None = Field(default=None, description="What the store calls this server; else its URL.")
    experiments: list[str] = Field(default_factory=list, description="Names of experiments, with `*` and `?`; none means all.")
    epoch_metric: str = Field(default="epoch", description="Metric whose value is the number of the epoch.")
    step_metric: str | None = Field(
        default=None, description="Metric whose step is the number of the epoch, for runs without `epoch_metric`."
    )
    marks: Literal["begin", "end"] = Field(
        default="end", description="`end`: a number is logged when the epoch is done; `begin`: when it begins."
    )
    cluster_tags: list[str] = Field(default=["gpucost.cluster", "k8s.cluster.name"], description="Tags that name the cluster.")
    namespace_tags: list[str] = Field(
        default=["gpucost.namespace", "kubernetes.namespace", "k8s.namespace.name", "namespace"],
        description="Tags that name the namespace; the first that is there is taken.",
    )
    pod_tags: list[str] = Field(
        default=["gpucost.pod", "kubernetes.pod", "k8s.pod.name", "pod"],
        description="Tags that name the pod; several with commas.",
    )
    workload_tags: list[str] = Field(
        default=["gpucost.workload", "kubernetes.job", "k8s.job.name", "job"],
        description="Tags that name the workload, as `Kind/name` or a name; they win over the pod's.",
    )
    tls: Tls = Field(default=Tls(), description="Certificates for https.")
    timeout_seconds: float = Field(default=60.0, gt=0, description="Longest wait for one answer.")

    @field_validator("url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("should begin with http:// or https://")
        if "@" in value:
            raise ValueError("should hold no password; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")
        if "?" in value or "#" in value:
            raise ValueError("should be a base URL, without ? or #")
        return value.rstrip("/")

    @property
    def source(self) -> str:
        """What the store calls this server: its name, else its URL."""
        return self.name or self.url or "mlflow"


class Config(_Section):
    """Everything a run depends on besides the store."""

    store: Path = Field(default=Path("gpucost.duckdb"), description="The store, a DuckDB file.")
    timezone: str = Field(default="UTC", description="Where days and months begin: an IANA name such as `Europe/Berlin`.")
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="Currency of prices and reports, ISO 4217.")
    prometheus: list[PrometheusSource] = Field(
        default_factory=lambda: [PrometheusSource()], description="Servers to collect from."
    )
    prices: Prices = Field(default=Prices(), description="Prices.")
    aws: Aws = Field(default=Aws(), description="AWS.")
    gcp: Gcp = Field(default=Gcp(), description="Google Cloud.")
    azure: Azure = Field(default=Azure(), description="Azure.")
    focus: Focus = Field(default=Focus(), description="FOCUS files.")
    idle: Idle = Field(default=Idle(), description="Idleness.")
    activity: Activity = Field(default=Activity(), description="Metrics of activity.")
    mig: Mig = Field(default=Mig(), description="MIG slices.")
    targets: Targets = Field(default=Targets(), description="Targets.")
    team_labels: TeamLabels = Field(default=TeamLabels(), description="Labels that name the team.")
    teams: list[Team] = Field(default_factory=list, description="Teams by pattern.")
    workload_types: list[WorkloadTypeRule] = Field(default_factory=list, description="What workloads are for, by pattern.")
    waste: Waste = Field(default=Waste(), description="Waste.")
    findings: FindingsSettings = Field(default=FindingsSettings(), description="Findings.")
    shared_costs: list[SharedCost] = Field(default_factory=list, description="What is not GPUs, charged to teams.")
    budgets: list[Budget] = Field(default_factory=list, description="Budgets and targets.")
    alerts: Alerts = Field(default=Alerts(), description="Alerting rules.")
    notify: Notify = Field(default=Notify(), description="Notifications.")
    units: list[Unit] = Field(default_factory=list, description="Metrics of work, beside the ready-made ones.")
    mlflow: Mlflow = Field(default=Mlflow(), description="MLflow.")

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

    @field_validator("shared_costs")
    @classmethod
    def _named_apart(cls, value: list[SharedCost]) -> list[SharedCost]:
        names = [rule.name for rule in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two are called {twice[0]}; give each its own name")
        return value

    @field_validator("budgets")
    @classmethod
    def _budgets_apart(cls, value: list[Budget]) -> list[Budget]:
        names = [budget.name for budget in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two are called {twice[0]}; give each its own name")
        return value

    @field_validator("units")
    @classmethod
    def _units_apart(cls, value: list[Unit]) -> list[Unit]:
        names = [unit.name for unit in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two are called {twice[0]}; give each its own name")
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
