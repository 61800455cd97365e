"""The whole configuration: every table, and what must hold between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gpucost.config.files import STORE_NAME
from gpucost.periods import MS_PER_HOUR, Period, from_ms, local_days, local_midnight, to_ms

Count = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
Ratio = Annotated[Decimal, Field(ge=0, le=1)]
OptionalRatio = Annotated[Decimal | None, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, Field(min_length=1)]
OptionalCurrency = Annotated[str | None, Field(pattern=r"^[A-Z]{3}$")]
Duration = Annotated[str, Field(pattern=r"^[1-9]\d{0,3}[hdw]$")]
# One text stands for a list of one.
Names = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Section(BaseModel):
    """A table of the configuration: an unknown key in it is an error, and nothing changes it once it is read.

    Tables inside tables have defaults that are constructed, not validated: so one model is built at the start, not each of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def _conflicts(self) -> dict[str, bool]:
        """What may not be between the keys of the table: by the words of its error, whether it is."""
        return {}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for message, is_wrong in self._conflicts().items():
            if is_wrong:
                raise ValueError(message)
        return self


def every(field: str, is_good: Callable[[str], object], message: str) -> Any:
    """A validator of a text, of each text in a list, or of each key in a table; `message` may name it as {}."""

    def check(value: Any) -> Any:
        for text in [value] if isinstance(value, str) else value or ():
            if not is_good(text):
                raise ValueError(message.format(text))
        return value

    return field_validator(field)(check)


# Kueue's histograms of waiting times end at 10,240 s: no quantile of them is beyond (kueue pkg/metrics/metrics.go).
_LONGEST_WAIT_MINUTES = 170

_CURRENCY = re.compile("[A-Z]{3}")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


class Alerts(Section):
    """Thresholds of the alerting rules that `gpucost export alerts` prints. What may be spent stands in [[budgets]]."""

    idle_minutes: Count = 60
    """On-demand GPUs idle, or nodes held by nobody, for this long."""
    idle_percent: float | None = Field(default=None, gt=0, le=100)
    """Activity under which a GPU is idle to this alert; else that of [idle] threshold_percent."""
    idle_ratio: Decimal | None = Field(default=None, gt=0, lt=1)
    """Largest idle share of a namespace's GPUs over idle_hours; else no alert."""
    idle_hours: Count = 24
    """Hours that the idle share is measured over."""
    activity_percent: float = Field(default=10.0, gt=0, le=100)
    """Least average activity of a held GPU over activity_hours."""
    activity_hours: Count = 24
    """Hours that the average activity is measured over."""
    queue_wait_minutes: int = Field(default=30, ge=1, le=_LONGEST_WAIT_MINUTES)
    """Nine in ten workloads of a Kueue queue should start sooner."""
    spot_ratio: Decimal | None = Field(default=None, gt=0, le=1)
    """Least spot share of the GPUs held; else that of [targets]."""
    spot_hours: Count = 24
    """Hours that the spot ratio is measured over."""
    telemetry_minutes: Count = 15
    """Metrics missing for this long."""
    collect_hours: Count = 36
    """The newest data in the store is older than this."""
    labels: dict[str, str] = {"severity": "warning"}
    """Labels of every alert, for the routes of Alertmanager."""

    _names = every("labels", _LABEL_NAME.fullmatch, "{} is no label name: letters, digits and underscores")


class Slack(Section):
    """An incoming webhook of Slack, or of what understands the same; its URL is a secret. The file wins over the variable."""

    webhook_url_file: Path | None = None
    """File that holds the webhook's URL."""
    webhook_url_env: str | None = None
    """Environment variable that holds the webhook's URL."""


class Email(Section):
    """A mail server that takes messages over SMTP."""

    host: OptionalText = None
    """Host of the mail server."""
    port: int = Field(default=587, ge=1, le=65535)
    """Its port."""
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: on the open connection, as is usual on 587. `tls`: from the start, on 465."""
    sender: str | None = None
    """Address that messages come from."""
    recipients: list[str] = []
    """Addresses that they go to."""
    username: OptionalText = None
    """User name, where the server wants one."""
    password_file: Path | None = None
    """File that holds the password; it wins over the variable."""
    password_env: str | None = None
    """Environment variable that holds the password."""
    ca_file: Path | None = None
    """Certificate authority to trust, PEM; else the system's."""

    # an address that held a line break would be a header of its own
    _sender = every("sender", _ADDRESS.fullmatch, "{!r} should be an address such as finops@example.com")
    _recipients = every(
        "recipients", _ADDRESS.fullmatch, "{!r} should be an address such as finops@example.com"
    )

    def _conflicts(self) -> dict[str, bool]:
        has_password = self.password_file is not None or self.password_env is not None
        return {
            "a password needs username beside it": has_password and self.username is None,
            "username needs password_file or password_env beside it": self.username is not None
            and not has_password,
        }


def is_link(text: str) -> bool:
    """Whether `text` can stand as a link in a message: an http(s) URL without blanks and without what ends a link."""
    return re.fullmatch(r"https?://[^\s<>|\"']+", text) is not None


class Notify(Section):
    """Where `gpucost notify` sends the summary of a report. Secrets are named (file, variable, keyring), never written here."""

    link: str | None = None
    """Link to the whole report, shown below the summary; --link wins."""
    slack: Slack = Slack.model_construct()
    email: Email = Email.model_construct()

    _is_link = every("link", is_link, "should be a URL that begins with http:// or https://")


class Budget(Section):
    """What a team, or all GPU nodes together, may cost a month, and the targets it is held to (docs/budgets.md)."""

    name: Text
    """What it is called."""
    team: OptionalText = None
    """Whose it is; without it, all GPU nodes together."""
    amount: Decimal | None = Field(default=None, gt=0, lt=Decimal(10) ** 15)
    """Money a month: the team's cost, or what all GPU nodes cost."""
    currency: OptionalCurrency = None
    """Currency of `amount`, where it is not that of reports."""
    warn_at_percent: Decimal = Field(default=Decimal(80), gt=0, le=100)
    """Warn when this much of `amount` is spent, or a forecast is beyond it."""
    efficiency: OptionalRatio = None
    """Least active share of measured GPU-hours."""
    spot_ratio: OptionalRatio = None
    """Least spot share of allocated GPU-hours."""
    idle_cost_share: OptionalRatio = None
    """Largest idle share of cost."""

    def _conflicts(self) -> dict[str, bool]:
        targets = (self.efficiency, self.spot_ratio, self.idle_cost_share)
        return {
            "needs one of amount, efficiency, spot_ratio and idle_cost_share": {self.amount, *targets}
            == {None},
            "currency goes with amount": bool(self.currency) and self.amount is None,
        }


class Bills(Section):
    """How billing exports are read."""

    currency: OptionalCurrency = None
    """Currency of rows that name none, ISO 4217; else such a row is refused."""
    spread_discounts: bool = True
    """Discounts that name neither a resource nor a commitment lower what they discount, by product and
    account; `false`: only those that name one lower a price."""


class Aws(Section):
    """How AWS is asked: credentials are those that boto3 finds."""

    profile: str | None = None
    """Profile of the AWS configuration; else boto3's default."""
    regions: list[str] = []
    """Regions to ask; else those where GPU nodes were seen, else us-east-1."""
    endpoint_url: str | None = None
    """Base URL of another endpoint for all AWS services."""
    exports: list[str] = []
    """Where billing exports lie, for `gpucost collect aws`: paths or bucket addresses."""


class Gcp(Section):
    """How Google Cloud is asked: credentials are the application default ones."""

    regions: list[str] = []
    """Regions whose prices are kept; else all."""
    endpoint: str | None = None
    """`host:port` of another Cloud Billing endpoint."""
    exports: list[str] = []
    """Where billing exports lie, for `gpucost collect gcp`: paths or bucket addresses."""
    billing_table: str | None = None
    """Table of the detailed usage cost export in BigQuery: `project.dataset.table`."""
    billing_project: str | None = None
    """Project that BigQuery queries run in; else the login's own."""
    max_gib: PositiveFloat = 100.0
    """GiB that the BigQuery query of one month may read; more is refused."""
    bigquery_endpoint: str | None = None
    """Base URL of another BigQuery endpoint."""
    storage_endpoint: str | None = None
    """Base URL of another Cloud Storage endpoint."""


class Azure(Section):
    """How Azure is asked: retail prices need no credentials, everything else those that azure-identity finds."""

    regions: list[str] = []
    """Regions whose prices are kept; else all."""
    subscriptions: list[str] = []
    """Subscriptions to ask for spot price history."""
    retail_prices_url: str = "https://prices.azure.com/api/retail/prices"
    """Where the retail prices are served."""
    management_url: str = "https://management.azure.com"
    """Where Azure Resource Manager is served."""
    exports: list[str] = []
    """Where billing exports lie, for `gpucost collect azure`: paths or container URLs."""
    cost_scope: str | None = None
    """Scope to ask the Cost Management query API for, where there is no export: `/subscriptions/<id>`, or
    a billing scope."""


class PriceLists(Section):
    """Where the price lists are that need no login, but for Azure's, which its own section names."""

    oci: str = "https://www.oracle.com/a/ocom/docs/cloudestimator2/data"
    """Folder of the files of Oracle's cost estimator."""
    runpod: str = "https://api.runpod.io/graphql"
    """RunPod's GraphQL API."""
    vast: str = "https://console.vast.ai/api/v0/bundles/"
    """Vast.ai's search for offers."""


class FocusSettings(Section):
    """FOCUS files of any provider."""

    exports: list[str] = []
    """Where billing exports lie, for `gpucost collect focus`: paths or bucket addresses."""


_WEEKDAY, _CLOCK = "(mon|tue|wed|thu|fri|sat|sun)", r"(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00"
_HOURS = re.compile(rf"(?:{_WEEKDAY}(?:-{_WEEKDAY})? )?({_CLOCK})-({_CLOCK})", re.IGNORECASE)
_SPAN = re.compile(r"[0-9]{1,4}[mh]")
_EVER = (0, 9_223_372_036_854_775_807)
# How far before and after what was collected hours are told.
_BEFORE, _AFTER = timedelta(days=40), timedelta(days=400)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _read_moment(value: object) -> object:
    try:
        if isinstance(value, str):
            return (
                date.fromisoformat(value)
                if len(value) == len("2026-10-03")
                else datetime.fromisoformat(value)
            )
    except ValueError:
        pass
    if not isinstance(value, date):
        raise ValueError("should look like 2026-10-03 or 2026-10-03T06:00")
    return value


Moment = Annotated[datetime | date, BeforeValidator(_read_moment)]
OptionalMoment = Annotated[datetime | date | None, BeforeValidator(_read_moment)]


def _after_start(value: OptionalMoment, info: ValidationInfo) -> OptionalMoment:
    start = info.data.get("start")
    # the time zone of the settings is not known here
    if start and value and instant_ms(value, ZoneInfo("UTC")) <= instant_ms(start, ZoneInfo("UTC")):
        raise ValueError("should lie after from")
    return value


class AcceptedGap(Section):
    """Time of which somebody says that its figures may stand as they are."""

    start: Moment = Field(alias="from")
    """From when, a date (local midnight) or a time."""
    end: Moment = Field(alias="to")
    """To when, exclusive."""
    cluster: str | None = None
    """Cluster; else all."""
    who: Text
    """Who accepts it: stands on every report."""
    why: Text
    """Why: stands on every report."""

    _order = field_validator("end")(_after_start)


class CoverageSettings(Section):
    """What of the time that was not seen counts, and what is accepted (docs/coverage.md)."""

    max_bridge: str = "2h"
    """Longest silence across which who stands at both ends held on: `10m` to `24h`."""
    accept: list[AcceptedGap] = []

    @field_validator("max_bridge", mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if not isinstance(value, str) or not _SPAN.fullmatch(value):
            raise ValueError("should look like 90m or 2h")
        # Silences of up to ten minutes are none; who stands at both ends of a whole day may well have been gone between them.
        if not MS_PER_HOUR // 6 <= _span_ms(value) <= 24 * MS_PER_HOUR:
            raise ValueError("should lie between 10m and 24h")
        return value

    @property
    def max_bridge_ms(self) -> int:
        """`max_bridge` in milliseconds."""
        return _span_ms(self.max_bridge)


def _week(text: str) -> tuple[frozenset[int], time, time]:
    """The weekdays and the times that a text names. Raises ValueError for one that cannot be read."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} should look like 07:00-21:00 or Mon-Fri 07:00-21:00")
    first, last, start, end = match.groups()
    if start == "24:00":
        raise ValueError(f"{text!r} begins at 24:00: that is 00:00 of the next day")
    if start == end:
        raise ValueError(f"{text!r} ends when it begins: a whole day is 00:00-24:00")
    begin = _DAYS.index(first.lower()) if first else 0
    count = (_DAYS.index((last or first).lower()) - begin) % 7 + 1 if first else 7
    days = frozenset(day % 7 for day in range(begin, begin + count))
    return days, time.fromisoformat(start), time.fromisoformat(end.replace("24:", "00:"))


class ClusterHours(Section):
    """When a cluster runs that is not always on: outside of that nothing is missing."""

    name: Text
    """Cluster."""
    start: OptionalMoment = Field(default=None, alias="from")
    """When it was set up; else since ever."""
    until: OptionalMoment = None
    """When it was taken down, exclusive; else it goes on."""
    hours: Names = []
    """Local hours in which it runs, such as `["Mon-Fri 07:00-21:00", "Sat 10:00-16:00"]`; else always."""

    _order = field_validator("until")(_after_start)

    _readable = every("hours", _week, "{}")

    def _conflicts(self) -> dict[str, bool]:
        return {"needs one of from, until and hours": not (self.start or self.until or self.hours)}

    def weekly(self) -> list[tuple[frozenset[int], time, time]]:
        """The weekdays (0 is Monday) on which it starts, and from when to when; past midnight where the end is not later."""
        return [_week(text) for text in self.hours]


class Host(Section):
    """Machines without Kubernetes or Slurm, by the host that their exporter names; the first match wins (docs/metrics.md)."""

    name: Text
    """Host, with `*` and `?`: `Hostname`, or `instance` without its port."""
    cluster: str | None = None
    """Only in this cluster, with `*` and `?`; else in all."""
    instance_type: str | None = None
    """Instance type, as price books and bills spell it."""
    region: str | None = None
    """Region."""
    zone: str | None = None
    """Zone."""
    provider: str | None = None
    """Cloud, such as `aws`."""
    capacity_type: Literal["on_demand", "spot", "reserved", "capacity_block", "flex_start"] = "on_demand"
    """How it is bought."""
    gpus: int | None = Field(default=None, ge=1, le=1000)
    """GPUs that it has; else as its instance type has, else as many as were measured."""
    user_label: OptionalText = None
    """Label of activity metrics whose value names who uses the GPU; else its time is unallocated."""

    @property
    def labels(self) -> dict[str, str]:
        """Its facts as the labels of a node."""
        facts = {
            "label_node_kubernetes_io_instance_type": self.instance_type,
            "label_topology_kubernetes_io_region": self.region,
            "label_topology_kubernetes_io_zone": self.zone,
            "label_node_kubernetes_io_lifecycle": self.capacity_type,
            "label_nvidia_com_gpu_count": self.gpus,
        }
        return {label: str(value) for label, value in facts.items() if value is not None}


def instant_ms(moment: Moment, tz: ZoneInfo) -> int:
    """Milliseconds since 1970 of a date (local midnight) or a time (local, where it names no zone)."""
    if not isinstance(moment, datetime):
        return to_ms(local_midnight(moment, tz))
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=tz))


def hours_off(cluster: ClusterHours, tz: ZoneInfo, seen: tuple[int, int]) -> list[tuple[int, int]]:
    """When the cluster is declared off, [from, to) in milliseconds; hours of the week from 40 days before `seen` to 400 after."""
    off = [(_EVER[0], instant_ms(cluster.start, tz))] if cluster.start else []
    off += [(instant_ms(cluster.until, tz), _EVER[1])] if cluster.until else []
    weekly = sorted(cluster.weekly(), key=lambda span: span[1])
    days = (
        list(local_days(Period(from_ms(seen[0]) - _BEFORE, from_ms(seen[1]) + _AFTER), tz)) if weekly else []
    )
    at = instant_ms(days[0], tz) if days else 0
    for day in days:
        for weekdays, start, end in weekly:
            if day.weekday() in weekdays:
                opens = instant_ms(datetime.combine(day, start), tz)
                if opens > at:
                    off.append((at, opens))
                at = max(at, instant_ms(datetime.combine(day + timedelta(days=end <= start), end), tz))
    return off


PurchaseOption = Literal[
    "on_demand", "spot", "reserved", "savings_plan", "cud", "capacity_block", "flex_start", "calendar"
]
PriceSource = Literal["price_book", "spot_history", "catalog"]


class Discount(Section):
    """A negotiated discount on the whole price of the nodes that match; what is left out matches anything."""

    percent: Decimal = Field(gt=0, lt=100)
    """Percent off the price of the whole node, its GPUs included."""
    provider: str | None = None
    """Cloud, such as `aws`."""
    instance_family: str | None = None
    """Family of instance types, such as `p5` or `Standard_ND`: what they begin with."""
    gpu_model: str | None = None
    """GPU model as `gpucost prices` spells it."""
    purchase_option: PurchaseOption | None = None
    """How the node is bought."""
    price_sources: list[PriceSource] = Field(default=["price_book", "spot_history", "catalog"], min_length=1)
    """Prices it is taken off; a bill, which has it already, is never one."""
    effective_start: date | None = None
    """First local day it holds; else since ever."""
    effective_end: date | None = None
    """First local day it no longer holds; else for good."""

    def _conflicts(self) -> dict[str, bool]:
        start, end = self.effective_start, self.effective_end
        return {"effective_end should be after effective_start": bool(start and end and end <= start)}


class Prices(Section):
    """Where prices come from besides the catalog inside gpucost, and how a node's price is shared."""

    book: Path | None = None
    """Price book, a CSV file: contract prices and on-premises rates."""
    stale_after_days: Count = 90
    """A list price older than this is marked as stale."""
    discounts: list[Discount] = []
    fx: dict[str, Annotated[Decimal, Field(gt=0)]] = {}
    """What one unit of another currency is worth in `currency`: `{ EUR = 1.08 }`."""
    fx_rates: Path | None = None
    """CSV file of rates by day: `date,currency,rate`; a rate holds until the next one."""
    commitment_sharing: Literal["pooled", "as_billed"] = "pooled"
    """`pooled`: nodes of one account, region, instance type, operating system, tenancy, capacity type and
    hour share what the bill says, because clouds assign discounts to instances by lot. `as_billed`:
    each keeps its own."""
    cost_basis: Literal["node", "sku", "opencost", "scad"] = "node"
    """`node`: a node's whole price rides on its GPUs. The others split it into GPU, CPU and memory, and
    charge CPU and memory by request."""

    _currencies = every("fx", _CURRENCY.fullmatch, "{} should be a currency such as EUR")


# Names of headers that carry credentials: their values may not stand in a file.
SECRET_HEADERS = ("authorization", "token", "secret", "password", "cookie", "api-key", "apikey", "x-auth")


def shown_url(url: str) -> str:
    """`url` as it may be shown: the login, whatever characters it holds, the query and the fragment are masked."""
    without_login = re.sub(r"(?s)^([A-Za-z][\w+.-]*://)?.*@", lambda match: f"{match[1] or ''}***@", url)
    return re.sub(r"(?s)([?#]).+", r"\1***", without_login)


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
    """User name and password; the password is named by file, by variable, or in the keyring."""

    username: str
    """User name."""
    password_file: Path | None = None
    """File that holds the password."""
    password_env: str | None = None
    """Environment variable that holds the password."""

    def _conflicts(self) -> dict[str, bool]:
        return {
            "needs one of password_file and password_env": (self.password_file is None)
            == (self.password_env is None)
        }


class Tls(Section):
    """Certificates for https."""

    ca_file: Path | None = None
    """Certificate authority to trust, PEM; else the system's."""
    cert_file: Path | None = None
    """Client certificate, PEM."""
    key_file: Path | None = None
    """Key of the client certificate, where it is not in `cert_file`."""
    insecure_skip_verify: bool = False
    """Do not check the server's certificate."""

    def _conflicts(self) -> dict[str, bool]:
        return {"key_file needs cert_file beside it": bool(self.key_file and not self.cert_file)}


class PrometheusSource(Section):
    """One server that speaks Prometheus' HTTP API. Secrets are named (file, variable, keyring), never written here."""

    url: str = "http://127.0.0.1:9090"
    """Base URL: what stands before `/api/v1`."""
    name: str | None = None
    """What the store calls this server; else its URL."""
    cluster: str | None = None
    """Cluster of series without `cluster_label`; else `default`."""
    cluster_label: str = "cluster"
    """Label that names a series' cluster."""
    tenant: str | None = None
    """Tenant of Mimir, Cortex or Thanos, sent as `X-Scope-OrgID`."""
    headers: dict[str, str] = {}
    """Further headers, such as `{ X-Team = "finops" }`."""
    headers_env: dict[str, str] = {}
    """Headers with secret values: `{ X-Api-Key = "NAME_OF_VARIABLE" }`."""
    bearer_token_file: Path | None = None
    """File that holds a bearer token; read anew for each run."""
    bearer_token_env: str | None = None
    """Environment variable that holds a bearer token."""
    basic_auth: BasicAuth | None = None
    tls: Tls = Tls.model_construct()
    timeout_seconds: PositiveFloat = 120.0
    """Longest wait for one answer."""
    concurrency: int = Field(default=2, ge=1, le=16)
    """Queries that run at once."""
    max_samples: int = Field(default=2_000_000, ge=1_000)
    """Samples that one query is sized for."""
    max_response_mib: Count = 1024
    """Largest answer, decompressed; a larger one is asked for in parts."""
    max_response_seconds: PositiveFloat = 600.0
    """Longest time for one whole answer."""
    partial_response: Literal["refuse", "accept"] = "refuse"
    """What becomes of an answer that the server calls partial; accepted, its hours stay marked."""
    late_hours: int = Field(default=72, ge=0, le=24 * 60)
    """For how long incomplete hours are asked for again, in hours."""

    _base = field_validator("url")(lambda url: base_url(url, "name it under [prometheus.basic_auth]"))
    _no_secrets = every(
        "headers",
        lambda header: not any(word in header.lower() for word in SECRET_HEADERS),
        "{} is a secret; name a variable in headers_env, or use bearer_token_file",
    )

    def _conflicts(self) -> dict[str, bool]:
        logins = ("bearer_token_file", "bearer_token_env", "basic_auth")
        given = [name for name in logins if getattr(self, name) is not None]
        return {f"{' and '.join(given)} are given; one is enough": len(given) > 1}

    @property
    def source(self) -> str:
        """What the store calls this server: its name, else its URL."""
        return self.name or self.url


class TeamLabels(Section):
    """Labels whose value is the team; the pod's label wins over the namespace's."""

    namespace: str | None = None
    """Namespace label, such as `team`."""
    pod: str | None = None
    """Pod label, such as `team`."""


class Team(Section):
    """A team by namespace patterns, label values or AWS cost categories, where no label in [team_labels] decides; the first match
    wins, of labels before namespaces, of namespaces before cost categories.
    """

    name: Text
    """What reports call the team."""
    namespaces: list[str] = []
    """Namespaces, with `*` and `?`."""
    clusters: list[str] = []
    """Only in these clusters, with `*` and `?`; none means all."""
    labels: dict[str, list[str]] = {}
    """Values of a label that belong to this team: `{ team = ["nlp", "vision"] }`."""

    cost_categories: dict[str, list[str]] = {}
    """Values of an AWS cost category, as the bill has it of the node, that belong to this team: `{
    Department = ["Research"] }`."""
    api: list[str] = []
    """What bills of bought tokens call it, with `*` and `?`: projects, accounts, workspaces, keys."""

    def _conflicts(self) -> dict[str, bool]:
        known = self.namespaces or self.labels or self.cost_categories or self.api
        return {"needs namespaces, labels, cost_categories or api": not known}


class WorkloadTypeRule(Section):
    """What some workloads are for, where it is not as labels and owners tell; the first match wins."""

    type: Literal["training", "inference", "development", "batch", "other"]
    """What they are for."""
    namespaces: list[str] = []
    """Namespaces, with `*` and `?`."""
    names: list[str] = []
    """Names of workloads or pods, with `*` and `?`."""
    kinds: list[str] = []
    """Kinds of the topmost owner, such as `StatefulSet`."""
    labels: dict[str, list[str]] = {}
    """Pod labels of which one has one of these values: `{ app = ["vllm", "triton"] }`."""

    def _conflicts(self) -> dict[str, bool]:
        matches = self.namespaces or self.names or self.kinds or self.labels
        return {"needs one of namespaces, names, kinds and labels": not matches}


class SharedCost(Section):
    """A cost that is not GPUs and is charged to teams, in a column of its own."""

    name: Text
    """What reports call it."""
    of: Literal["storage", "network", "commitment_waste", "support", "namespaces"]
    """`storage`, `network`: of GPU nodes, from the bill. `commitment_waste`: commitments and reservations
    that nothing used. `support`: support charges. `namespaces`: what the pods of `namespaces` cost."""
    split: Literal["proportional", "even", "owner"] = "proportional"
    """By cost of GPUs, evenly over the teams that used any, or all of it to `owner`."""
    owner: OptionalText = None
    """The team that pays for it, with `split = "owner"`."""
    namespaces: list[str] = []
    """Namespaces whose cost goes to others, with `*` and `?`."""
    provider: str | None = None
    """Only bills of this provider, such as `aws`."""

    def _conflicts(self) -> dict[str, bool]:
        by_owner, of_namespaces = self.split == "owner", self.of == "namespaces"
        return {
            'split = "owner" needs owner': by_owner and self.owner is None,
            'owner needs split = "owner"': self.owner is not None and not by_owner,
            'of = "namespaces" needs namespaces': of_namespaces and not self.namespaces,
            'namespaces needs of = "namespaces"': bool(self.namespaces) and not of_namespaces,
            "provider is about bills, and namespaces are not billed": of_namespaces and bool(self.provider),
        }


class Idle(Section):
    """When a held GPU counts as idle."""

    threshold_percent: float = Field(default=5.0, ge=0, le=100)
    """A measured GPU under this activity is idle."""
    min_measured: float = Field(default=0.8, ge=0, le=1)
    """Under this measured share of allocated GPU-hours, the efficiency target is unknown."""


class Activity(Section):
    """What measures a GPU's activity."""

    device_metric: str = "DCGM_FI_DEV_GPU_UTIL"
    """Metric of whole devices; those that measure the same in other versions and of other vendors count,
    too."""
    device_scale: float | None = Field(default=None, gt=0)
    """Factor that makes it a percentage; default: by its values."""
    mig_metric: str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    """Metric of MIG instances."""
    mig_scale: float | None = Field(default=None, gt=0)
    """Factor that makes it a percentage; default: by its values."""
    memory: bool = False
    """Also collect used GPU memory, `DCGM_FI_DEV_FB_USED`: as many samples again as of activity."""


class Mig(Section):
    """How MIG slices share a GPU."""

    share: Literal["compute", "max_compute_memory"] = "compute"
    """What a slice is of its GPU: its share of compute slices, or the larger of its compute and memory
    shares."""


class Hami(Section):
    """How HAMi shares GPUs."""

    default_mem: int | None = Field(default=None, gt=0)
    """MiB of a virtual GPU that names no memory, as HAMi's `scheduler.defaultMem` says; else the whole
    GPU."""
    memory_scaling: PositiveFloat = 1.0
    """HAMi's `deviceMemoryScaling`: how often it hands out the memory of a GPU."""


class Targets(Section):
    """What the report measures teams against."""

    efficiency: Ratio = Decimal("0.80")
    """Least active share of measured GPU-hours."""
    spot_ratio: Ratio = Decimal("0.70")
    """Least spot share of allocated GPU-hours."""


class WasteSettings(Section):
    """What counts as which kind of waste (docs/waste.md)."""

    target_utilization: float = Field(default=0.7, gt=0, le=1)
    """How busy the replicas of a serving workload may be at its peak."""
    forgotten_after: Duration = "24h"
    """Idle for longer, until its end, and a notebook is forgotten."""
    empty_after: Duration = "1h"
    """A node that nobody holds for this long is empty, not between jobs."""

    @property
    def forgotten_after_ms(self) -> int:
        """`forgotten_after` in milliseconds."""
        return _span_ms(self.forgotten_after)

    @property
    def empty_after_ms(self) -> int:
        """`empty_after` in milliseconds."""
        return _span_ms(self.empty_after)


class FindingsSettings(Section):
    """What is worth saying (docs/findings.md)."""

    minimum_per_month: Decimal = Field(default=Decimal(50), ge=0)
    """Money a month under which a saving is left out of `gpucost findings`."""


class SpotSettings(Section):
    """What `gpucost whatif spot` cannot see."""

    interruptible: list[str] = []
    """Workloads that go on after an interruption: training that writes checkpoints, serving with replicas
    to spare. Globs of `Kind/name`, or of the name."""


def _span_ms(span: str) -> int:
    return int(span[:-1]) * {"m": 1, "h": 60, "d": 24 * 60, "w": 168 * 60}[span[-1]] * 60_000


# The median of 3,235 models that chat in LiteLLM's public price map (model_prices_and_context_window.json of 1.110.2, read on
# 2026-11-25): the price of an input token by that of an output token. Nine of ten lie within 0.17 and 1.
DEFAULT_PROMPT_WEIGHT = 0.25


class UnitSettings(Section):
    """A metric that counts units of work, and what its labels mean."""

    name: Text
    """What it is called; the name of a ready-made one replaces that."""
    unit: str = Field(pattern="^[a-z][a-z0-9_]*$")
    """What is counted: `epoch`, `request`, `batch_item`, `prompt_token`, `cached_token` (of these),
    `generation_token`, `prefill_second`, `decode_second`, or your own word."""
    metric: str | None = Field(default=None, pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$")
    """Name of the metric."""
    query: OptionalText = None
    """PromQL instead of a metric, evaluated once a minute."""
    kind: Literal["counter", "gauge"] = "counter"
    """`counter` rises, and falls to 0 at a restart. `gauge` is a level: the current epoch."""
    marks: Literal["begin", "end"] | None = None
    """An epoch's number: `end`, so many are done (default of counters); `begin`, it has begun (of gauges)."""
    resumes: bool = False
    """A restarted process counts epochs from 0 although it goes on from a checkpoint."""
    workload_label: str | None = None
    """Label that names the workload, as `Kind/name` or a name; else the labels of the pod do."""
    model_label: Names = []
    """Label that names the model that serves; of several the first that is there."""
    tenant_label: Names = []
    """Label that names whom work was done for; of several the first that is there."""
    prompt_weight: float | None = Field(default=None, ge=0, le=100)
    """What a prompt token costs of what a generated one does. Default: 0.25."""
    run_label: str | None = None
    """Label that tells runs of one workload apart."""
    match: dict[str, list[str]] = {}
    """Only series with one of these values of a label: `{ job = ["trainer"] }`."""
    failure: dict[str, list[str]] = {}
    """Values of a label that say that the work came to nothing: `{ status = ["error"] }`."""

    _not_of_logs = every(
        "name",
        lambda name: name not in ("file", "mlflow"),
        "is what work from files or MLflow is called; take another name",
    )

    def _conflicts(self) -> dict[str, bool]:
        is_epoch = self.unit == "epoch"
        return {
            "needs one of metric and query": (self.metric is None) == (self.query is None),
            "match goes with metric; a query has matchers of its own": self.query is not None
            and bool(self.match),
            'kind = "gauge" is for epochs; other units are counted': not is_epoch and self.kind == "gauge",
            "prompt_weight is for prompt tokens": self.unit.removesuffix("s") != "prompt_token"
            and self.prompt_weight is not None,
            "marks and resumes are for epochs": not is_epoch and bool(self.marks or self.resumes),
        }


class Serving(Section):
    """Models whose prompts are computed by one workload and whose answers are generated by another."""

    prefill: list[str] = []
    """Globs of workloads that compute prompts, `Kind/name` or names: `*-prefill`."""
    decode: list[str] = []
    """Globs of those that generate. Both of one model and namespace are one in `unit tokens`."""

    def _conflicts(self) -> dict[str, bool]:
        return {"prefill and decode belong together": bool(self.prefill) != bool(self.decode)}


_MLFLOW_LOGIN = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class Mlflow(Section):
    """An MLflow tracking server. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, are sent to it."""

    url: str | None = None
    """Base URL of the server: what stands before `/api/2.0`."""
    name: str | None = None
    """What the store calls this server; else its URL."""
    experiments: list[str] = []
    """Names of experiments, with `*` and `?`; none means all."""
    epoch_metric: str = "epoch"
    """Metric whose value is the number of the epoch."""
    step_metric: str | None = None
    """Metric whose step is the number of the epoch, for runs without `epoch_metric`."""
    marks: Literal["begin", "end"] = "end"
    """`end`: a number is logged when the epoch is done; `begin`: when it begins."""
    cluster_tags: list[str] = ["gpucost.cluster", "k8s.cluster.name"]
    """Tags that name the cluster."""
    namespace_tags: list[str] = [
        "gpucost.namespace",
        "kubernetes.namespace",
        "k8s.namespace.name",
        "namespace",
    ]
    """Tags that name the namespace; the first that is there is taken."""
    pod_tags: list[str] = ["gpucost.pod", "kubernetes.pod", "k8s.pod.name", "pod"]
    """Tags that name the pod; several with commas."""
    workload_tags: list[str] = ["gpucost.workload", "kubernetes.job", "k8s.job.name", "job"]
    """Tags that name the workload, as `Kind/name` or a name; they win over the pod's."""
    token_file: Path | None = None
    """File with a bearer token, in place of MLFLOW_TRACKING_TOKEN."""
    token_env: str | None = None
    """Environment variable with a bearer token, in place of MLFLOW_TRACKING_TOKEN."""
    tls: Tls = Tls.model_construct()
    timeout_seconds: PositiveFloat = 60.0
    """Longest wait for one answer."""

    _base = field_validator("url")(lambda url: None if url is None else base_url(url, _MLFLOW_LOGIN))

    @property
    def source(self) -> str:
        """What the store calls this server: its name, else its URL."""
        return self.name or self.url or "mlflow"


class Slurm(Section):
    """A Slurm cluster that `gpucost collect slurm` asks, by its commands or through slurmrestd; files need none of it."""

    sacct: str | None = None
    """How sacct is called: `sacct`, `ssh login sacct`, `ssh login /opt/slurm/bin/sacct`."""
    slurmrestd: str | None = None
    """Base URL of slurmrestd, asked in place of the commands. SLURM_JWT is its token."""
    api_version: str | None = Field(default=None, pattern=r"^v\d+\.\d+\.\d+$")
    """Of slurmrestd, such as `v0.0.40`; else the newest that it has."""
    user: str | None = None
    """Whose token it is; else SLURM_USER_NAME, or who runs gpucost."""
    token_file: Path | None = None
    """File with the token, in place of SLURM_JWT."""
    token_env: str | None = None
    """Environment variable with the token, in place of SLURM_JWT."""
    cluster: str | None = None
    """What the cluster is called where its answers do not say."""
    charge_reservations: bool = False
    """Idle time of a reservation is charged to its accounts, evenly; else nobody pays for it, and reports
    show it."""
    in_kubernetes: list[str] = []
    """Globs of Slurm's nodes that are the pod, or the node, of Kubernetes of their name, where metrics do
    not prove it."""
    late_days: int = Field(default=7, ge=0, le=400)
    """So many days are asked again with each collection: accounting is corrected late."""
    tls: Tls = Tls.model_construct()


class StoreSettings(Section):
    """The store. `store = "FILE"` is short for its `path`."""

    path: Path = Path(STORE_NAME)
    """A DuckDB file."""
    mode: str = Field(default="0600", pattern=r"^0?6[046][04]$")
    """Who may read and write the store and bundles of chargeback, as `chmod` takes it; less what the umask
    takes away."""
    raw_retention_days: int | None = Field(default=None, ge=1)
    """After so many days `gpucost store compact` drops samples that no figure needs (docs/store.md)."""

    @model_validator(mode="before")
    @classmethod
    def _of_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str | Path) else value


class LakeSettings(Section):
    """Raw data and figures as Parquet files in a folder or a bucket (docs/lake.md)."""

    url: str | None = None
    """The lake of `gpucost lake` commands that name none."""
    writer: str | None = None
    """Name of this store as a writer of the lake. Default: this machine and the store's path."""


class EngineSettings(Section):
    """Where a lake is attributed: in this process, or on a Spark cluster."""

    name: Literal["local", "spark"] = "local"
    """`local` or `spark`; `--engine` goes before it."""
    memory: str = Field(default="900MB", pattern=r"^\d+(\.\d+)? ?[KMGT]i?B$")
    """Memory of DuckDB in each task; what needs more is spilled to disk."""
    spark_master: str | None = None
    """Where Spark runs, `spark://host:7077`; else as Spark itself is set up."""
    spark_options: dict[str, str] = {}
    """Further settings of the Spark session, such as `spark.executor.memory`."""


_Named = PrometheusSource | SharedCost | Budget | UnitSettings | ClusterHours


class Config(Section):
    """Everything a run depends on besides the store."""

    store_settings: StoreSettings = Field(default=StoreSettings.model_construct(), alias="store")
    timezone: str = "UTC"
    """Where days and months begin: an IANA name such as `Europe/Berlin`."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """Currency of prices and reports, ISO 4217."""
    prometheus: list[PrometheusSource] = [PrometheusSource.model_construct()]
    coverage: CoverageSettings = CoverageSettings.model_construct()
    clusters: list[ClusterHours] = []
    hosts: list[Host] = []
    prices: Prices = Prices.model_construct()
    bills: Bills = Bills.model_construct()
    aws: Aws = Aws.model_construct()
    gcp: Gcp = Gcp.model_construct()
    azure: Azure = Azure.model_construct()
    price_lists: PriceLists = PriceLists.model_construct()
    focus: FocusSettings = FocusSettings.model_construct()
    idle: Idle = Idle.model_construct()
    activity: Activity = Activity.model_construct()
    mig: Mig = Mig.model_construct()
    hami: Hami = Hami.model_construct()
    targets: Targets = Targets.model_construct()
    team_labels: TeamLabels = TeamLabels.model_construct()
    teams: list[Team] = []
    workload_types: list[WorkloadTypeRule] = []
    waste: WasteSettings = WasteSettings.model_construct()
    findings: FindingsSettings = FindingsSettings.model_construct()
    spot: SpotSettings = SpotSettings.model_construct()
    shared_costs: list[SharedCost] = []
    budgets: list[Budget] = []
    alerts: Alerts = Alerts.model_construct()
    notify: Notify = Notify.model_construct()
    units: list[UnitSettings] = []
    serving: Serving = Serving.model_construct()
    mlflow: Mlflow = Mlflow.model_construct()
    slurm: Slurm = Slurm.model_construct()
    lake: LakeSettings = LakeSettings.model_construct()
    engine: EngineSettings = EngineSettings.model_construct()

    _path: Path | None = PrivateAttr(default=None)
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError):
            raise ValueError("should be an IANA time zone name such as Europe/Berlin") from None

    @field_validator("prometheus", "clusters", "shared_costs", "budgets", "units")
    @classmethod
    def _names_differ(cls, value: list[_Named], info: ValidationInfo) -> list[_Named]:
        names = [item.source if isinstance(item, PrometheusSource) else item.name for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            what = "two servers" if info.field_name == "prometheus" else "two"
            raise ValueError(f"{what} are called {twice[0]}; give each its own name")
        return value

    @property
    def store(self) -> Path:
        """The store, a DuckDB file."""
        return self.store_settings.path

    def in_store(self, path: Path) -> Config:
        """The same with another store."""
        return self.model_copy(
            update={"store_settings": self.store_settings.model_copy(update={"path": path})}
        )

    @property
    def bill_sections(self) -> list[str]:
        """Sections that name billing exports, or a service to query."""
        sources = {
            "aws": self.aws.exports,
            "gcp": self.gcp.exports or self.gcp.billing_table,
            "azure": self.azure.exports or self.azure.cost_scope,
            "focus": self.focus.exports,
        }
        return [name for name, source in sources.items() if source]

    @property
    def prompt_weights(self) -> dict[str, float]:
        """What a prompt token weighs, by the mapping that says so."""
        return {unit.name: unit.prompt_weight for unit in self.units if unit.prompt_weight is not None}

    @property
    def file_mode(self) -> int:
        """The mode of a new store and of the files of a bundle."""
        return int(self.store_settings.mode, 8)

    @property
    def path(self) -> Path | None:
        """The file this was read from; None where there was none."""
        return self._path

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of days and months."""
        return ZoneInfo(self.timezone)
