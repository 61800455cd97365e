"""The configuration model: every table, key and constraint."""

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
from gpucost.periods import (
    MS_PER_DAY,
    MS_PER_HOUR,
    WEEKDAYS,
    Period,
    Span,
    from_ms,
    local_days,
    local_midnight,
    to_ms,
)
from gpucost.texts import is_link

Count = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
Ratio = Annotated[Decimal, Field(ge=0, le=1)]
OptionalRatio = Annotated[Decimal | None, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, Field(min_length=1)]
OptionalCurrency = Annotated[str | None, Field(pattern=r"^[A-Z]{3}$")]
Duration = Annotated[str, Field(pattern=r"^[1-9]\d{0,3}[hdw]$")]
Strings = list[str]
OptionalString = str | None
OptionalPath = Path | None
# A single string means a list of one.
Names = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]

# Values of labels, by label.
LabelValues = dict[str, list[str]]
# Constraints between the keys of a table: error message to whether it is violated.
Conflicts = dict[str, bool]


class Section(BaseModel):
    """A table of the configuration: unknown keys are errors, and instances are immutable.

    Defaults of nested tables are constructed without validation, so only the top model is built at startup.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def _conflicts(self) -> Conflicts:
        """Constraints between the table's keys."""
        return {}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for message, is_wrong in self._conflicts().items():
            if is_wrong:
                raise ValueError(message)
        return self


def every(field: str, is_good: Callable[[str], object], message: str) -> Any:
    """A validator for a string, or each string of a list or key of a table; {} in `message` is that string."""

    def check(value: Any) -> Any:
        for text in [value] if isinstance(value, str) else value or ():
            if not is_good(text):
                raise ValueError(message.format(text))
        return value

    return field_validator(field)(check)


# Kueue's wait-time histograms end at 10,240 s, so no quantile exceeds that (kueue pkg/metrics/metrics.go).
_LONGEST_WAIT_MINUTES = 170

_CURRENCY = re.compile("[A-Z]{3}")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_ADDRESS = "{!r} should be an address such as finops@example.com"
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


class Alerts(Section):
    """Thresholds of the alerting rules that `gpucost export alerts` prints. Spending limits are in
    [[budgets]].
    """

    idle_minutes: Count = 60
    """Minutes for which on-demand GPUs are idle, or nodes unallocated."""
    idle_percent: float | None = Field(default=None, gt=0, le=100)
    """Activity below which this alert counts a GPU as idle (default: threshold_percent of [idle])."""
    idle_ratio: Decimal | None = Field(default=None, gt=0, lt=1)
    """Maximum idle share of a namespace's GPUs over idle_hours (default: no alert)."""
    idle_hours: Count = 24
    """Hours over which the idle share is measured."""
    activity_percent: float = Field(default=10.0, gt=0, le=100)
    """Minimum average activity of an allocated GPU over activity_hours."""
    activity_hours: Count = 24
    """Hours over which the average activity is measured."""
    queue_wait_minutes: int = Field(default=30, ge=1, le=_LONGEST_WAIT_MINUTES)
    """Minutes within which nine in ten workloads of a Kueue queue should start."""
    spot_ratio: Decimal | None = Field(default=None, gt=0, le=1)
    """Minimum spot share of allocated GPUs (default: spot_ratio of [targets])."""
    spot_hours: Count = 24
    """Hours over which the spot ratio is measured."""
    telemetry_minutes: Count = 15
    """Minutes for which metrics are missing."""
    collect_hours: Count = 36
    """Maximum age of the newest data in the store, in hours."""
    labels: dict[str, str] = {"severity": "warning"}
    """Labels of every alert, for Alertmanager's routes."""

    _names = every(
        "labels", _LABEL_NAME.fullmatch, "invalid label name {}: use letters, digits and underscores"
    )


class Slack(Section):
    """An incoming webhook of Slack or a compatible service. Its URL is a secret. The file wins over the
    variable.
    """

    webhook_url_file: OptionalPath = None
    """File with the webhook's URL."""
    webhook_url_env: OptionalString = None
    """Environment variable with the webhook's URL."""


class Email(Section):
    """An SMTP mail server."""

    host: OptionalText = None
    """Host of the mail server."""
    port: int = Field(default=587, ge=1, le=65535)
    """Port of the mail server."""
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: upgrade the connection, usual on port 587. `tls`: encrypted from the start, usual on port
    465."""
    sender: OptionalString = None
    """Sender address."""
    recipients: Strings = []
    """Recipient addresses."""
    username: OptionalText = None
    """User name, if the server requires one."""
    password_file: OptionalPath = None
    """File with the password; it wins over the variable."""
    password_env: OptionalString = None
    """Environment variable with the password."""
    ca_file: OptionalPath = None
    """CA certificate to trust, PEM (default: the system's)."""

    # An address with a line break would inject a header.
    _sender = every("sender", _ADDRESS.fullmatch, _NO_ADDRESS)
    _recipients = every("recipients", _ADDRESS.fullmatch, _NO_ADDRESS)

    def _conflicts(self) -> Conflicts:
        has_password = self.password_file is not None or self.password_env is not None
        return {
            "a password needs username": has_password and self.username is None,
            "username needs password_file or password_env": self.username is not None and not has_password,
        }


class Owner(Slack):
    """The owner of a team, who gets the messages about it by mail and in Slack."""

    team: Text
    """Team name in reports."""
    recipients: Strings = []
    """Recipient addresses."""

    _recipients = every("recipients", _ADDRESS.fullmatch, _NO_ADDRESS)


class Notify(Section):
    """Recipients of the report summaries that `gpucost notify` sends. Secrets are never written here: name a file, a
    variable or a keyring entry.
    """

    link: OptionalString = None
    """Link to the whole report, shown below the summary; --link wins."""
    slack: Slack = Slack.model_construct()
    email: Email = Email.model_construct()
    teams: list[Owner] = []

    _is_link = every("link", is_link, "should be a URL that begins with http:// or https://")


class Budget(Section):
    """A monthly limit and targets for a team or for all GPU nodes (docs/budgets.md)."""

    name: Text
    """Name of the budget."""
    team: OptionalText = None
    """Team (default: all GPU nodes together)."""
    amount: Decimal | None = Field(default=None, gt=0, lt=Decimal(10) ** 15)
    """Money per month: the team's cost, or the cost of all GPU nodes."""
    currency: OptionalCurrency = None
    """Currency of `amount` (default: the currency of reports)."""
    warn_at_percent: Decimal = Field(default=Decimal(80), gt=0, le=100)
    """Percentage of `amount` at which spending warns. A forecast above `amount` warns, too."""
    efficiency: OptionalRatio = None
    """Minimum active share of measured GPU-hours."""
    spot_ratio: OptionalRatio = None
    """Minimum spot share of allocated GPU-hours."""
    idle_cost_share: OptionalRatio = None
    """Maximum idle share of cost."""

    def _conflicts(self) -> Conflicts:
        targets = (self.efficiency, self.spot_ratio, self.idle_cost_share)
        return {
            "needs one of amount, efficiency, spot_ratio and idle_cost_share": {self.amount, *targets}
            == {None},
            "currency needs amount": bool(self.currency) and self.amount is None,
        }


class Bills(Section):
    """How billing exports are read."""

    currency: OptionalCurrency = None
    """Currency of rows without one, ISO 4217 (default: such rows are refused)."""
    spread_discounts: bool = True
    """Whether discounts without a resource or commitment lower prices, spread by product and account.
    `false`: only discounts that name a resource or commitment lower a price."""


class Aws(Section):
    """Queries to AWS, with the credentials that boto3 finds."""

    profile: OptionalString = None
    """AWS configuration profile (default: boto3's default)."""
    regions: Strings = []
    """Regions to query (default: the regions of known GPU nodes, otherwise us-east-1)."""
    endpoint_url: OptionalString = None
    """Base URL of an alternative endpoint for all AWS services."""
    exports: Strings = []
    """Billing exports for `gpucost collect aws`: paths or bucket addresses."""


class Gcp(Section):
    """Queries to Google Cloud, with application default credentials."""

    regions: Strings = []
    """Regions whose prices are kept (default: all)."""
    endpoint: OptionalString = None
    """`host:port` of an alternative Cloud Billing endpoint."""
    exports: Strings = []
    """Billing exports for `gpucost collect gcp`: paths or bucket addresses."""
    billing_table: OptionalString = None
    """BigQuery table of the detailed usage cost export: `project.dataset.table`."""
    billing_project: OptionalString = None
    """Project that runs BigQuery queries (default: the project of the login)."""
    max_gib: PositiveFloat = 100.0
    """Maximum GiB that the BigQuery query of one month may read; larger queries are refused."""
    bigquery_endpoint: OptionalString = None
    """Base URL of an alternative BigQuery endpoint."""
    storage_endpoint: OptionalString = None
    """Base URL of an alternative Cloud Storage endpoint."""


class Azure(Section):
    """Queries to Azure. Retail prices need no credentials; other queries use the credentials that
    azure-identity finds.
    """

    regions: Strings = []
    """Regions whose prices are kept (default: all)."""
    subscriptions: Strings = []
    """Subscriptions whose spot price history is queried."""
    retail_prices_url: str = "https://prices.azure.com/api/retail/prices"
    """URL of the retail prices."""
    management_url: str = "https://management.azure.com"
    """URL of Azure Resource Manager."""
    exports: Strings = []
    """Billing exports for `gpucost collect azure`: paths or container URLs."""
    cost_scope: OptionalString = None
    """Scope of Cost Management queries, used without an export: `/subscriptions/<id>`, or a billing scope."""


class PriceLists(Section):
    """Price lists that need no login. Azure's is in [azure]."""

    oci: str = "https://www.oracle.com/a/ocom/docs/cloudestimator2/data"
    """Folder with the files of Oracle's cost estimator."""
    runpod: str = "https://api.runpod.io/graphql"
    """RunPod's GraphQL API."""
    vast: str = "https://console.vast.ai/api/v0/bundles/"
    """Vast.ai's offer search."""


class FocusSettings(Section):
    """FOCUS files of any provider."""

    exports: Strings = []
    """Billing exports for `gpucost collect focus`: paths or bucket addresses."""


_WEEKDAY, _CLOCK = "(mon|tue|wed|thu|fri|sat|sun)", r"(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00"
_HOURS = re.compile(rf"(?:{_WEEKDAY}(?:-{_WEEKDAY})? )?({_CLOCK})-({_CLOCK})", re.IGNORECASE)
_SPAN = re.compile(r"[0-9]{1,4}[mh]")
_FOREVER_MS = 9_223_372_036_854_775_807
# Weekly hours are expanded this far before and after the collected time.
_BEFORE, _AFTER = timedelta(days=40), timedelta(days=400)


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
    # The configured time zone is not available here.
    if start and value and instant_ms(value, ZoneInfo("UTC")) <= instant_ms(start, ZoneInfo("UTC")):
        raise ValueError("should be after from")
    return value


class AcceptedGap(Section):
    """An incomplete interval whose figures are accepted as final."""

    start: Moment = Field(alias="from")
    """Start: a date (local midnight) or a time."""
    end: Moment = Field(alias="to")
    """End, exclusive."""
    cluster: OptionalString = None
    """Cluster (default: all)."""
    who: Text
    """Who accepts it; every report names them."""
    why: Text
    """Reason; every report gives it."""

    _order = field_validator("end")(_after_start)


class CoverageSettings(Section):
    """How missing metrics count, and which gaps are accepted (docs/coverage.md)."""

    max_bridge: str = "2h"
    """Longest bridged gap, `10m` to `24h`: pods present at both ends count throughout."""
    accept: list[AcceptedGap] = []

    @field_validator("max_bridge", mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if not isinstance(value, str) or not _SPAN.fullmatch(value):
            raise ValueError("should look like 90m or 2h")
        # Gaps of up to ten minutes are covered. Over a whole day, pods present at both ends may have been
        # gone in between.
        if not MS_PER_HOUR // 6 <= _span_ms(value) <= MS_PER_DAY:
            raise ValueError("should be between 10m and 24h")
        return value

    @property
    def max_bridge_ms(self) -> int:
        """`max_bridge` in milliseconds."""
        return _span_ms(self.max_bridge)


def _week(text: str) -> tuple[frozenset[int], time, time]:
    """The weekdays and times of a text. Raises ValueError if it is invalid."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} should look like 07:00-21:00 or Mon-Fri 07:00-21:00")
    first, last, start, end = match.groups()
    if start == "24:00":
        raise ValueError(f"{text!r} begins at 24:00; write 00:00 of the next day")
    if start == end:
        raise ValueError(f"{text!r} is empty; a whole day is 00:00-24:00")
    begin = WEEKDAYS.index(first.lower()) if first else 0
    count = (WEEKDAYS.index((last or first).lower()) - begin) % 7 + 1 if first else 7
    days = frozenset(day % 7 for day in range(begin, begin + count))
    return days, time.fromisoformat(start), time.fromisoformat(end.replace("24:", "00:"))


class ClusterHours(Section):
    """Hours of a cluster that does not always run. No data is expected outside them."""

    name: Text
    """Cluster."""
    start: OptionalMoment = Field(default=None, alias="from")
    """First day or time (default: no limit)."""
    until: OptionalMoment = None
    """End, exclusive (default: no limit)."""
    hours: Names = []
    """Local hours in which it runs, such as `["Mon-Fri 07:00-21:00", "Sat 10:00-16:00"]` (default: always)."""

    _order = field_validator("until")(_after_start)

    _readable = every("hours", _week, "{}")

    def _conflicts(self) -> Conflicts:
        return {"needs one of from, until and hours": not (self.start or self.until or self.hours)}

    def weekly(self) -> list[tuple[frozenset[int], time, time]]:
        """The weekdays of the start (0 is Monday), and start and end; past midnight unless the end is later."""
        return [_week(text) for text in self.hours]


class Host(Section):
    """Machines without Kubernetes or Slurm, by the host that their exporter reports. The first match wins
    (docs/metrics.md).
    """

    name: Text
    """Host, with `*` and `?`: `Hostname`, or `instance` without its port."""
    cluster: OptionalString = None
    """Cluster, with `*` and `?` (default: all)."""
    instance_type: OptionalString = None
    """Instance type, as price books and bills spell it."""
    region: OptionalString = None
    """Region."""
    zone: OptionalString = None
    """Zone."""
    provider: OptionalString = None
    """Cloud, such as `aws`."""
    capacity_type: Literal["on_demand", "spot", "reserved", "capacity_block", "flex_start"] = "on_demand"
    """Capacity type."""
    gpus: int | None = Field(default=None, ge=1, le=1000)
    """Number of GPUs (default: its instance type's number, otherwise the number measured)."""
    user_label: OptionalText = None
    """Label of activity metrics with the user of the GPU (default: its time is unallocated)."""

    @property
    def labels(self) -> dict[str, str]:
        """The host's facts as node labels."""
        facts = {
            "label_node_kubernetes_io_instance_type": self.instance_type,
            "label_topology_kubernetes_io_region": self.region,
            "label_topology_kubernetes_io_zone": self.zone,
            "label_node_kubernetes_io_lifecycle": self.capacity_type,
            "label_nvidia_com_gpu_count": self.gpus,
        }
        return {label: str(value) for label, value in facts.items() if value is not None}


def instant_ms(moment: Moment, tz: ZoneInfo) -> int:
    """Milliseconds since 1970 of a date (local midnight) or a time (local unless it has a time zone)."""
    if not isinstance(moment, datetime):
        return to_ms(local_midnight(moment, tz))
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=tz))


def hours_off(cluster: ClusterHours, tz: ZoneInfo, seen: Span) -> list[Span]:
    """Intervals in which the cluster is declared off, [from, to) in milliseconds.

    Weekly hours extend from 40 days before `seen` to 400 days after.
    """
    off = [(0, instant_ms(cluster.start, tz))] if cluster.start else []
    off += [(instant_ms(cluster.until, tz), _FOREVER_MS)] if cluster.until else []
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
    """A negotiated discount on the whole price of matching nodes. An unset key matches everything."""

    percent: Decimal = Field(gt=0, lt=100)
    """Percent off the price of the whole node, including its GPUs."""
    provider: OptionalString = None
    """Cloud, such as `aws`."""
    instance_family: OptionalString = None
    """Prefix of instance types, such as `p5` or `Standard_ND`."""
    gpu_model: OptionalString = None
    """GPU model, as `gpucost prices` spells it."""
    purchase_option: PurchaseOption | None = None
    """Purchase option of the node."""
    price_sources: list[PriceSource] = Field(default=["price_book", "spot_history", "catalog"], min_length=1)
    """Price sources to which it applies. Billed prices and final rows of the price book already include it."""
    effective_start: date | None = None
    """First local day (default: no limit)."""
    effective_end: date | None = None
    """First local day without the discount (default: no limit)."""

    def _conflicts(self) -> Conflicts:
        start, end = self.effective_start, self.effective_end
        return {"effective_end should be after effective_start": bool(start and end and end <= start)}


class Prices(Section):
    """Price sources other than the built-in catalog, and how a node's price is divided."""

    book: OptionalPath = None
    """Price book, a CSV file: contract prices and on-premises rates."""
    stale_after_days: Count = 90
    """Age in days from which a list price is marked as stale."""
    discounts: list[Discount] = []
    fx: dict[str, Annotated[Decimal, Field(gt=0)]] = {}
    """Value of one unit of another currency in `currency`: `{ EUR = 1.08 }`."""
    fx_rates: OptionalPath = None
    """CSV file of daily rates: `date,currency,rate`; a rate is valid until the next one."""
    commitment_sharing: Literal["pooled", "as_billed"] = "pooled"
    """`pooled`: nodes of the same account, region, instance type, operating system, tenancy, capacity type
    and hour share their billed cost, because clouds assign discounts to instances by lot. `as_billed`: each
    node keeps its billed cost."""
    cost_basis: Literal["node", "sku", "opencost", "scad"] = "node"
    """`node`: GPUs carry the node's whole price. The others split it into GPU, CPU and memory, and charge CPU
    and memory by request."""

    _currencies = every("fx", _CURRENCY.fullmatch, "{} should be a currency such as EUR")


# Headers that carry credentials; their values must not be in a file.
SECRET_HEADERS = ("authorization", "token", "secret", "password", "cookie", "api-key", "apikey", "x-auth")


def shown_url(url: str) -> str:
    """`url` for display: the login, the query and the fragment are masked."""
    without_login = re.sub(r"(?s)^([A-Za-z][\w+.-]*://)?.*@", lambda match: f"{match[1] or ''}***@", url)
    return re.sub(r"(?s)([?#]).+", r"\1***", without_login)


def base_url(value: str, password_goes: str) -> str:
    """`value` without a trailing slash. Raises ValueError if it is not a base URL or contains a password."""
    if not value.startswith(("http://", "https://")):
        raise ValueError("should begin with http:// or https://")
    if "@" in value:  # Anywhere: a password may contain a slash.
        raise ValueError(f"should not contain a password; {password_goes}")
    if "?" in value or "#" in value:
        raise ValueError("should be a base URL, without ? or #")
    return value.rstrip("/")


class BasicAuth(Section):
    """User name and password. The password is in a file, a variable or the keyring."""

    username: str
    """User name."""
    password_file: OptionalPath = None
    """File with the password."""
    password_env: OptionalString = None
    """Environment variable with the password."""

    def _conflicts(self) -> Conflicts:
        return {
            "needs one of password_file and password_env": (self.password_file is None)
            == (self.password_env is None)
        }


class Tls(Section):
    """Certificates for https."""

    ca_file: OptionalPath = None
    """CA certificate to trust, PEM (default: the system's)."""
    cert_file: OptionalPath = None
    """Client certificate, PEM."""
    key_file: OptionalPath = None
    """Key of the client certificate, unless it is in `cert_file`."""
    insecure_skip_verify: bool = False
    """Do not check the server's certificate."""

    def _conflicts(self) -> Conflicts:
        return {"key_file needs cert_file": bool(self.key_file and not self.cert_file)}


class PrometheusSource(Section):
    """A server with Prometheus' HTTP API. Secrets are never written here: name a file, a variable or a
    keyring entry.
    """

    url: str = "http://127.0.0.1:9090"
    """Base URL, without `/api/v1`."""
    name: OptionalString = None
    """Name of this server in the store (default: its URL)."""
    cluster: OptionalString = None
    """Cluster of series without `cluster_label` (default: `default`)."""
    cluster_label: str = "cluster"
    """Label with the cluster's name."""
    tenant: OptionalString = None
    """Tenant of Mimir, Cortex or Thanos, sent as `X-Scope-OrgID`."""
    headers: dict[str, str] = {}
    """Additional headers, such as `{ X-Team = "finops" }`."""
    headers_env: dict[str, str] = {}
    """Headers with secret values: `{ X-Api-Key = "NAME_OF_VARIABLE" }`."""
    bearer_token_file: OptionalPath = None
    """File with a bearer token; read again at each run."""
    bearer_token_env: OptionalString = None
    """Environment variable with a bearer token."""
    basic_auth: BasicAuth | None = None
    tls: Tls = Tls.model_construct()
    timeout_seconds: PositiveFloat = 120.0
    """Timeout of a request, in seconds."""
    concurrency: int = Field(default=2, ge=1, le=16)
    """Concurrent queries."""
    max_samples: int = Field(default=2_000_000, ge=1_000)
    """Target number of samples per query."""
    max_response_mib: Count = 1024
    """Maximum size of an answer, decompressed; larger ones are queried in parts."""
    max_response_seconds: PositiveFloat = 600.0
    """Maximum time for a whole answer, in seconds."""
    remote_read: bool = True
    """Whether to read samples as compressed chunks, if the server offers it; otherwise as JSON."""
    partial_response: Literal["refuse", "accept"] = "refuse"
    """Whether to load answers that the server marks as partial; their hours stay marked."""
    late_hours: int = Field(default=72, ge=0, le=24 * 60)
    """How long to query incomplete hours again, in hours."""

    _base = field_validator("url")(lambda url: base_url(url, "configure it in [prometheus.basic_auth]"))
    _no_secrets = every(
        "headers",
        lambda header: not any(word in header.lower() for word in SECRET_HEADERS),
        "{} carries a secret; name a variable in headers_env, or use bearer_token_file",
    )

    def _conflicts(self) -> Conflicts:
        logins = ("bearer_token_file", "bearer_token_env", "basic_auth")
        explicit = [name for name in logins if getattr(self, name) is not None]
        return {f"{' and '.join(explicit)} are set; keep one": len(explicit) > 1}

    @property
    def source(self) -> str:
        """Name of this server in the store: its name, otherwise its URL."""
        return self.name or self.url


class TeamLabels(Section):
    """Labels whose value is the team. The pod's label wins over the namespace's."""

    namespace: OptionalString = None
    """Namespace label, such as `team`."""
    pod: OptionalString = None
    """Pod label, such as `team`."""


class Labels(Section):
    """Labels with facts about pods: their users outside Slurm, and columns of the ledger."""

    user: str | None = None
    """Label that names the user, such as `owner`, for `--by user` and `--user`."""
    ledger: Strings = []
    """Labels of pods, namespaces or nodes that are columns of the ledger of `gpucost chargeback`."""


class Team(Section):
    """A team by namespaces, labels or AWS cost categories, for workloads without a label of [team_labels].
    The first match wins: labels before namespaces, namespaces before cost categories.
    """

    name: Text
    """Team name in reports."""
    namespaces: Strings = []
    """Namespaces, with `*` and `?`."""
    clusters: Strings = []
    """Clusters, with `*` and `?` (default: all)."""
    labels: LabelValues = {}
    """Label values of this team: `{ team = ["nlp", "vision"] }`."""

    cost_categories: LabelValues = {}
    """Values of AWS cost categories of this team, from the bill of the node: `{ Department = ["Research"] }`."""
    api: Strings = []
    """Projects, accounts, workspaces or keys of this team in bills for bought tokens, with `*` and `?`."""
    parent: OptionalText = None
    """Team that this one is part of: `--team PARENT` includes it."""

    def _conflicts(self) -> Conflicts:
        criteria = self.namespaces or self.labels or self.cost_categories or self.api or self.parent
        return {"needs namespaces, labels, cost_categories, api or parent": not criteria}


class WorkloadTypeRule(Section):
    """The purpose of some workloads, if labels and owners do not give it. The first match wins."""

    type: Literal["training", "inference", "development", "batch", "other"]
    """Workload type."""
    namespaces: Strings = []
    """Namespaces, with `*` and `?`."""
    names: Strings = []
    """Names of workloads or pods, with `*` and `?`."""
    kinds: Strings = []
    """Kinds of the topmost owner, such as `StatefulSet`."""
    labels: LabelValues = {}
    """Pod labels, at least one with one of these values: `{ app = ["vllm", "triton"] }`."""

    def _conflicts(self) -> Conflicts:
        matches = self.namespaces or self.names or self.kinds or self.labels
        return {"needs one of namespaces, names, kinds and labels": not matches}


class SharedCost(Section):
    """A cost other than GPUs that is charged to teams in a separate column."""

    name: Text
    """Name in reports."""
    of: Literal["storage", "network", "commitment_waste", "support", "namespaces"]
    """`storage`, `network`: of GPU nodes, from the bill. `commitment_waste`: unused commitments and
    reservations. `support`: support charges. `namespaces`: the cost of the pods in `namespaces`."""
    split: Literal["proportional", "even", "owner"] = "proportional"
    """Split by GPU cost, evenly over the teams with GPU cost, or all to `owner`."""
    owner: OptionalText = None
    """Team that pays, with `split = "owner"`."""
    namespaces: Strings = []
    """Namespaces whose cost is charged to other teams, with `*` and `?`."""
    provider: OptionalString = None
    """Provider of the bills, such as `aws` (default: all)."""

    def _conflicts(self) -> Conflicts:
        by_owner, of_namespaces = self.split == "owner", self.of == "namespaces"
        return {
            'split = "owner" needs owner': by_owner and self.owner is None,
            'owner needs split = "owner"': self.owner is not None and not by_owner,
            'of = "namespaces" needs namespaces': of_namespaces and not self.namespaces,
            'namespaces needs of = "namespaces"': bool(self.namespaces) and not of_namespaces,
            "provider selects bills, and namespaces are not billed": of_namespaces and bool(self.provider),
        }


class Idle(Section):
    """When an allocated GPU counts as idle."""

    threshold_percent: float = Field(default=5.0, ge=0, le=100)
    """Activity below which a measured GPU is idle."""
    min_measured: float = Field(default=0.8, ge=0, le=1)
    """Minimum measured share of allocated GPU-hours; below it the efficiency target is unknown."""


class Activity(Section):
    """Metrics of GPU activity."""

    device_metric: str = "DCGM_FI_DEV_GPU_UTIL"
    """Metric of whole devices; equivalent metrics of other versions and vendors count, too."""
    device_scale: float | None = Field(default=None, gt=0)
    """Factor to a percentage (default: derived from the values)."""
    mig_metric: str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    """Metric of MIG instances."""
    mig_scale: float | None = Field(default=None, gt=0)
    """Factor to a percentage (default: derived from the values)."""
    memory: bool = False
    """Also collect used GPU memory, `DCGM_FI_DEV_FB_USED`: as many additional samples as activity has."""
    profile: bool = False
    """Also collect activity of SMs and pipes, memory, power and energy, for `report --efficiency`
    (docs/efficiency.md)."""


class Mig(Section):
    """How MIG slices share a GPU."""

    share: Literal["compute", "max_compute_memory"] = "compute"
    """A slice's share of its GPU: its share of compute slices, or the larger of its compute and memory
    shares."""


class Hami(Section):
    """How HAMi shares GPUs."""

    default_mem: int | None = Field(default=None, gt=0)
    """MiB of a virtual GPU without a memory request, from HAMi's `scheduler.defaultMem` (default: the whole
    GPU)."""
    memory_scaling: PositiveFloat = 1.0
    """HAMi's `deviceMemoryScaling`: the factor by which it oversells the memory of a GPU."""


class Targets(Section):
    """Targets that the report compares teams with."""

    efficiency: Ratio = Decimal("0.80")
    """Minimum active share of measured GPU-hours."""
    spot_ratio: Ratio = Decimal("0.70")
    """Minimum spot share of allocated GPU-hours."""


class WasteSettings(Section):
    """Thresholds of the kinds of waste (docs/waste.md)."""

    target_utilization: float = Field(default=0.7, gt=0, le=1)
    """Maximum utilization of a serving workload's replicas at its peak."""
    forgotten_after: Duration = "24h"
    """A notebook that is idle for longer, until its end, is forgotten."""
    empty_after: Duration = "1h"
    """A node that is unallocated for this long is empty, not between jobs."""

    @property
    def forgotten_after_ms(self) -> int:
        """`forgotten_after` in milliseconds."""
        return _span_ms(self.forgotten_after)

    @property
    def empty_after_ms(self) -> int:
        """`empty_after` in milliseconds."""
        return _span_ms(self.empty_after)


class FindingsSettings(Section):
    """Which findings are listed (docs/findings.md)."""

    minimum_per_month: Decimal = Field(default=Decimal(50), ge=0)
    """Minimum saving per month that `gpucost findings` lists."""


class SpotSettings(Section):
    """Facts for `gpucost whatif spot` that metrics do not contain."""

    interruptible: Strings = []
    """Workloads that survive interruptions: training with checkpoints, serving with spare replicas. Globs of
    `Kind/name`, or of the name."""


def _span_ms(span: str) -> int:
    return int(span[:-1]) * {"m": 1, "h": 60, "d": 24 * 60, "w": 168 * 60}[span[-1]] * 60_000


# The median ratio of input to output token prices of 3,235 chat models in LiteLLM's public price map
# (model_prices_and_context_window.json of 1.110.2, read on 2026-11-25). Nine in ten are between 0.17 and 1.
DEFAULT_PROMPT_WEIGHT = 0.25


class UnitSettings(Section):
    """A metric that counts units of work, and the meaning of its labels."""

    name: Text
    """Name; a built-in mapping of the same name is replaced."""
    unit: str = Field(pattern="^[a-z][a-z0-9_]*$")
    """Unit: `epoch`, `request`, `batch_item`, `prompt_token`, `cached_token` (part of the prompt tokens),
    `generation_token`, `prefill_second`, `decode_second`, or a custom word."""
    metric: str | None = Field(default=None, pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$")
    """Name of the metric."""
    query: OptionalText = None
    """PromQL instead of a metric, evaluated once a minute."""
    kind: Literal["counter", "gauge"] = "counter"
    """`counter` rises, and falls to 0 at a restart. `gauge` is a level: the current epoch."""
    marks: Literal["begin", "end"] | None = None
    """Meaning of an epoch's number: `end`, epochs completed (default of counters); `begin`, epochs begun
    (default of gauges)."""
    resumes: bool = False
    """Whether a restarted process counts epochs from 0 although it resumes from a checkpoint."""
    workload_label: OptionalString = None
    """Label with the workload, as `Kind/name` or a name (default: from the labels of the pod)."""
    model_label: Names = []
    """Label with the model served; the first present label of a list."""
    tenant_label: Names = []
    """Label with the tenant served; the first present label of a list."""
    prompt_weight: float | None = Field(default=None, ge=0, le=100)
    """Cost of a prompt token relative to a generated token. Default: 0.25."""
    flops_per_unit: float | None = Field(default=None, gt=0)
    """Floating-point operations of the model per unit, for MFU (docs/efficiency.md)."""
    precision: Literal["fp16", "bf16", "fp8", "int8", "tf32", "fp32", "fp64"] = "bf16"
    """Precision of these operations."""
    run_label: OptionalString = None
    """Label that distinguishes runs of one workload."""
    match: LabelValues = {}
    """Label values of the series to count: `{ job = ["trainer"] }`."""
    failure: LabelValues = {}
    """Label values that mark failed work: `{ status = ["error"] }`."""

    _not_of_logs = every(
        "name",
        lambda name: name not in ("file", "mlflow"),
        "is reserved for work from files or MLflow; choose another name",
    )

    def _conflicts(self) -> Conflicts:
        is_epoch = self.unit == "epoch"
        return {
            "needs one of metric and query": (self.metric is None) == (self.query is None),
            "match needs metric; put matchers into the query": self.query is not None and bool(self.match),
            'kind = "gauge" is for epochs; other units are counters': not is_epoch and self.kind == "gauge",
            "prompt_weight is for prompt tokens": self.unit.removesuffix("s") != "prompt_token"
            and self.prompt_weight is not None,
            "flops_per_unit is for counters": self.kind == "gauge" and self.flops_per_unit is not None,
            "marks and resumes are for epochs": not is_epoch and bool(self.marks or self.resumes),
        }


class Serving(Section):
    """Models with separate workloads for prompts and generation."""

    prefill: Strings = []
    """Globs of workloads that process prompts, `Kind/name` or names: `*-prefill`."""
    decode: Strings = []
    """Globs of workloads that generate. `unit tokens` joins both of one model and namespace."""

    def _conflicts(self) -> Conflicts:
        return {"prefill and decode need each other": bool(self.prefill) != bool(self.decode)}


_MLFLOW_LOGIN = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class Mlflow(Section):
    """An MLflow tracking server. Credentials: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
    _PASSWORD.
    """

    url: OptionalString = None
    """Base URL of the server, without `/api/2.0`."""
    name: OptionalString = None
    """Name of this server in the store (default: its URL)."""
    experiments: Strings = []
    """Names of experiments, with `*` and `?` (default: all)."""
    epoch_metric: str = "epoch"
    """Metric whose value is the epoch's number."""
    step_metric: OptionalString = None
    """Metric whose step is the epoch's number, for runs without `epoch_metric`."""
    marks: Literal["begin", "end"] = "end"
    """`end`: the number is logged when the epoch is done; `begin`: when it begins."""
    cluster_tags: list[str] = ["gpucost.cluster", "k8s.cluster.name"]
    """Tags with the cluster's name."""
    namespace_tags: list[str] = [
        "gpucost.namespace",
        "kubernetes.namespace",
        "k8s.namespace.name",
        "namespace",
    ]
    """Tags with the namespace; the first one present is used."""
    pod_tags: list[str] = ["gpucost.pod", "kubernetes.pod", "k8s.pod.name", "pod"]
    """Tags with the pod's name; several are separated by commas."""
    workload_tags: list[str] = ["gpucost.workload", "kubernetes.job", "k8s.job.name", "job"]
    """Tags with the workload, as `Kind/name` or a name; they win over the pod's."""
    token_file: OptionalPath = None
    """File with a bearer token, instead of MLFLOW_TRACKING_TOKEN."""
    token_env: OptionalString = None
    """Environment variable with a bearer token, instead of MLFLOW_TRACKING_TOKEN."""
    tls: Tls = Tls.model_construct()
    timeout_seconds: PositiveFloat = 60.0
    """Timeout of a request, in seconds."""

    _base = field_validator("url")(lambda url: None if url is None else base_url(url, _MLFLOW_LOGIN))

    @property
    def source(self) -> str:
        """Name of this server in the store: its name, otherwise its URL."""
        return self.name or self.url or "mlflow"


class Slurm(Section):
    """A Slurm cluster that `gpucost collect slurm` queries with Slurm's commands or slurmrestd. Files need
    none of these keys.
    """

    sacct: OptionalString = None
    """Command line of sacct: `sacct`, `ssh login sacct`, `ssh login /opt/slurm/bin/sacct`."""
    slurmrestd: OptionalString = None
    """Base URL of slurmrestd, used instead of the commands. SLURM_JWT is its token."""
    api_version: str | None = Field(default=None, pattern=r"^v\d+\.\d+\.\d+$")
    """API version of slurmrestd, such as `v0.0.40` (default: its newest)."""
    user: OptionalString = None
    """User of the token (default: SLURM_USER_NAME, otherwise the user who runs gpucost)."""
    token_file: OptionalPath = None
    """File with the token, instead of SLURM_JWT."""
    token_env: OptionalString = None
    """Environment variable with the token, instead of SLURM_JWT."""
    cluster: OptionalString = None
    """Name of the cluster, if its answers do not contain one."""
    charge_reservations: bool = False
    """Whether the idle time of a reservation is charged to its accounts, evenly. Otherwise reports show it as
    unallocated."""
    in_kubernetes: Strings = []
    """Globs of Slurm nodes that are also the Kubernetes pod or node of the same name, if metrics do not prove
    it."""
    late_days: int = Field(default=7, ge=0, le=400)
    """Days to query again at each collection, because accounting is corrected late."""
    tls: Tls = Tls.model_construct()


class StoreSettings(Section):
    """The store. `store = "FILE"` is short for its `path`."""

    path: Path = Path(STORE_NAME)
    """A DuckDB file."""
    mode: str = Field(default="0600", pattern=r"^0?6[046][04]$")
    """Permissions of the store and of chargeback bundles, as for `chmod`, minus the umask."""
    raw_retention_days: int | None = Field(default=None, ge=1)
    """Days after which `gpucost store compact` deletes samples that no figure needs (docs/store.md)."""

    @model_validator(mode="before")
    @classmethod
    def _of_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str | Path) else value


class LakeSettings(Section):
    """Raw data and figures as Parquet files in a folder or a bucket (docs/lake.md)."""

    url: OptionalString = None
    """Lake of `gpucost lake` commands without a URL."""
    writer: OptionalString = None
    """Name of this store as a writer of the lake. Default: this machine and the store's path."""


class EngineSettings(Section):
    """The engine that attributes a lake: this process or a Spark cluster."""

    name: Literal["local", "spark"] = "local"
    """`local` or `spark`; `--engine` wins."""
    memory: str = Field(default="900MB", pattern=r"^\d+(\.\d+)? ?[KMGT]i?B$")
    """DuckDB memory per task; the rest spills to disk."""
    spark_master: OptionalString = None
    """Spark master, `spark://host:7077` (default: Spark's own configuration)."""
    spark_options: dict[str, str] = {}
    """Additional settings of the Spark session, such as `spark.executor.memory`."""


_Named = PrometheusSource | SharedCost | Budget | UnitSettings | ClusterHours


class Config(Section):
    """All settings of a run."""

    store_settings: StoreSettings = Field(default=StoreSettings.model_construct(), alias="store")
    timezone: str = "UTC"
    """Time zone of days and months: an IANA name such as `Europe/Berlin`."""
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
    labels: Labels = Labels.model_construct()
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
            raise ValueError(f"{what} are named {twice[0]}; give each its own name")
        return value

    def _conflicts(self) -> Conflicts:
        parents = {(team.name, team.parent) for team in self.teams if team.parent}
        parented = {name for name, _ in parents}
        circles = [team.name for team in self.teams if team.name in self.children(team.name)]
        return {
            f"teams: {', '.join(dict.fromkeys(circles))}: a team cannot be above itself": bool(circles),
            "teams: a team has one parent": len(parents) > len(parented),
        }

    def children(self, *names: str) -> tuple[str, ...]:
        """The teams below these, each once."""
        found: list[str] = []
        above = [*names]
        for name in above:
            below = [team.name for team in self.teams if team.parent == name and team.name not in found]
            above += dict.fromkeys(below)
            found += dict.fromkeys(below)
        return tuple(found)

    @property
    def top_teams(self) -> dict[str, str]:
        """The topmost team above each team that has a parent."""
        tops = {team.parent for team in self.teams} - {team.name for team in self.teams if team.parent}
        found: dict[str, str] = {}
        for top in sorted(filter(None, tops)):
            found |= dict.fromkeys(self.children(top), top)
        return found

    @property
    def store(self) -> Path:
        """The store, a DuckDB file."""
        return self.store_settings.path

    def in_store(self, path: Path) -> Config:
        """A copy with another store."""
        return self.model_copy(
            update={"store_settings": self.store_settings.model_copy(update={"path": path})}
        )

    @property
    def bill_sections(self) -> list[str]:
        """Sections with billing exports or a billing service to query."""
        sources = {
            "aws": self.aws.exports,
            "gcp": self.gcp.exports or self.gcp.billing_table,
            "azure": self.azure.exports or self.azure.cost_scope,
            "focus": self.focus.exports,
        }
        return [name for name, source in sources.items() if source]

    @property
    def prompt_weights(self) -> dict[str, float]:
        """The weight of a prompt token, by mapping name."""
        return {unit.name: unit.prompt_weight for unit in self.units if unit.prompt_weight is not None}

    @property
    def file_mode(self) -> int:
        """The mode of a new store and of the files of a bundle."""
        return int(self.store_settings.mode, 8)

    @property
    def path(self) -> Path | None:
        """The file this was read from; None without a file."""
        return self._path

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of days and months."""
        return ZoneInfo(self.timezone)
