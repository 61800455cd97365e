"""The whole configuration: every table, and what must hold between them."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from gpucost.periods import MS_PER_HOUR, from_ms, local_midnight, to_ms


class Section(BaseModel):
    """A table of the configuration: an unknown key in it is an error, and nothing changes it once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Budget(Section):
    """What a team, or all GPU nodes together, may cost a month, and the targets it is held to (docs/budgets.md)."""

    name: str = Field(min_length=1, description="What it is called.")
    team: str | None = Field(default=None, min_length=1, description="Whose it is; without it, all GPU nodes together.")
    amount: Decimal | None = Field(
        default=None, gt=0, lt=Decimal(10) ** 15, description="Money a month: the team's cost, or what all GPU nodes cost."
    )
    currency: str | None = Field(
        default=None, pattern=r"^[A-Z]{3}$", description="Currency of `amount`, where it is not that of reports."
    )
    warn_at_percent: Decimal = Field(
        default=Decimal(80), gt=0, le=100, description="Warn when this much of `amount` is spent, or a forecast is beyond it."
    )
    efficiency: Decimal | None = Field(default=None, ge=0, le=1, description="Least active share of measured GPU-hours.")
    spot_ratio: Decimal | None = Field(default=None, ge=0, le=1, description="Least spot share of allocated GPU-hours.")
    idle_cost_share: Decimal | None = Field(default=None, ge=0, le=1, description="Largest idle share of cost.")

    @model_validator(mode="after")
    def _asks_something(self) -> Budget:
        if all(value is None for value in (self.amount, self.efficiency, self.spot_ratio, self.idle_cost_share)):
            raise ValueError("needs one of amount, efficiency, spot_ratio and idle_cost_share")
        if self.currency and self.amount is None:
            raise ValueError("currency goes with amount")
        return self


class Bills(Section):
    """How billing exports are read."""

    currency: str | None = Field(
        default=None,
        pattern=r"^[A-Z]{3}$",
        description="Currency of rows that name none, ISO 4217; else such a row is refused.",
    )
    spread_discounts: bool = Field(
        default=True,
        description="Discounts that name neither a resource nor a commitment lower what they discount, by product and account; "
        "`false`: only those that name one lower a price.",
    )


class Aws(Section):
    """How AWS is asked: credentials are those that boto3 finds."""

    profile: str | None = Field(default=None, description="Profile of the AWS configuration; else boto3's default.")
    regions: list[str] = Field(
        default_factory=list, description="Regions to ask; else those where GPU nodes were seen, else us-east-1."
    )
    endpoint_url: str | None = Field(default=None, description="Base URL of another endpoint for all AWS services.")
    price_list_url: str | None = Field(
        default=None, description="Base URL of a mirror of AWS' public price lists, which are read where nobody is logged in."
    )
    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect aws`: paths or bucket addresses."
    )


class Gcp(Section):
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


class Azure(Section):
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


class PriceLists(Section):
    """Where the price lists are that need no login, but for AWS' and Azure's, which their own sections name."""

    oci: str = Field(
        default="https://www.oracle.com/a/ocom/docs/cloudestimator2/data",
        description="Folder of the files of Oracle's cost estimator.",
    )
    runpod: str = Field(default="https://api.runpod.io/graphql", description="RunPod's GraphQL API.")
    vast: str = Field(default="https://console.vast.ai/api/v0/bundles/", description="Vast.ai's search for offers.")


class Focus(Section):
    """FOCUS files of any provider."""

    exports: list[str] = Field(
        default_factory=list, description="Where billing exports lie, for `gpucost collect focus`: paths or bucket addresses."
    )


_HOURS = re.compile(
    r"^(?:(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))? )?(\d\d:\d\d)-(\d\d:\d\d)$", re.IGNORECASE
)
_SPAN = re.compile(r"[0-9]{1,4}[mh]")
# Silences of up to ten minutes are none; who stands at both ends of a whole day may well have been gone between them.
_BRIDGES_MS = (600_000, 24 * MS_PER_HOUR)
_EVER = (0, 9_223_372_036_854_775_807)
# How far before and after what was collected hours are told.
_BEFORE, _AFTER = timedelta(days=40), timedelta(days=400)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Moment = datetime | date


def _read_moment(value: object) -> object:
    try:
        if isinstance(value, str):
            return date.fromisoformat(value) if len(value) == len("2026-10-03") else datetime.fromisoformat(value)
    except ValueError:
        pass
    if not isinstance(value, date):
        raise ValueError("should look like 2026-10-03 or 2026-10-03T06:00")
    return value


def _after_start(value: Moment | None, info: ValidationInfo) -> Moment | None:
    start = info.data.get("start")
    # the time zone of the settings is not known here
    if start and value and instant_ms(value, ZoneInfo("UTC")) <= instant_ms(start, ZoneInfo("UTC")):
        raise ValueError("should lie after from")
    return value


class AcceptedGap(Section):
    """Time of which somebody says that its figures may stand as they are."""

    start: Moment = Field(alias="from", description="From when, a date (local midnight) or a time.")
    end: Moment = Field(alias="to", description="To when, exclusive.")
    cluster: str | None = Field(default=None, description="Cluster; else all.")
    who: str = Field(min_length=1, description="Who accepts it: stands on every report.")
    why: str = Field(min_length=1, description="Why: stands on every report.")

    _moments = field_validator("start", "end", mode="before")(_read_moment)
    _order = field_validator("end")(_after_start)


class CoverageSettings(Section):
    """What of the time that was not seen counts, and what is accepted (docs/coverage.md)."""

    max_bridge: str = Field(
        default="2h", description="Longest silence across which who stands at both ends held on: `10m` to `24h`."
    )
    accept: list[AcceptedGap] = Field(default_factory=list, description="Gaps that are signed: they end no command with 4.")

    @field_validator("max_bridge", mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if not isinstance(value, str) or not _SPAN.fullmatch(value):
            raise ValueError("should look like 90m or 2h")
        if not _BRIDGES_MS[0] <= _bridge_ms(value) <= _BRIDGES_MS[1]:
            raise ValueError("should lie between 10m and 24h")
        return value

    @property
    def max_bridge_ms(self) -> int:
        """`max_bridge` in milliseconds."""
        return _bridge_ms(self.max_bridge)


def _bridge_ms(text: str) -> int:
    return int(text[:-1]) * (MS_PER_HOUR if text.endswith("h") else 60_000)


class ClusterHours(Section):
    """When a cluster runs that is not always on: outside of that nothing is missing."""

    name: str = Field(min_length=1, description="Cluster.")
    start: Moment | None = Field(default=None, alias="from", description="When it was set up; else since ever.")
    until: Moment | None = Field(default=None, description="When it was taken down, exclusive; else it goes on.")
    hours: list[str] = Field(
        default_factory=list,
        description='Local hours in which it runs, such as `["Mon-Fri 07:00-21:00", "Sat 10:00-16:00"]`; else always.',
    )

    _moments = field_validator("start", "until", mode="before")(_read_moment)
    _order = field_validator("until")(_after_start)

    @field_validator("hours", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("hours")
    @classmethod
    def _readable(cls, value: list[str]) -> list[str]:
        for text in value:
            found = _HOURS.match(text)
            if found is None or not all(_is_clock(part) for part in found.groups()[2:]):
                raise ValueError(f"{text!r} should look like 07:00-21:00 or Mon-Fri 07:00-21:00")
            if found[3] == "24:00":
                raise ValueError(f"{text!r} begins at 24:00: that is 00:00 of the next day")
            if found[3] == found[4]:
                raise ValueError(f"{text!r} ends when it begins: a whole day is 00:00-24:00")
        return value

    @model_validator(mode="after")
    def _is_more_than_a_name(self) -> ClusterHours:
        if self.start is None and self.until is None and not self.hours:
            raise ValueError("needs one of from, until and hours")
        return self

    def weekly(self) -> list[tuple[frozenset[int], time, time]]:
        """The weekdays (0 is Monday) on which it starts, and from when to when; past midnight where the end is not later."""
        found: list[tuple[frozenset[int], time, time]] = []
        for text in self.hours:
            first, last, start, end = _HOURS.findall(text)[0]
            days = range(7)
            if first:
                begin = _DAYS.index(first.lower())
                count = (_DAYS.index((last or first).lower()) - begin) % 7 + 1
                days = range(begin, begin + count)
            found.append((frozenset(day % 7 for day in days), time.fromisoformat(start), _end(end)))
        return found


def _is_clock(text: str) -> bool:
    try:
        _end(text)
    except ValueError:
        return False
    return True


def _end(text: str) -> time:
    return time(0) if text == "24:00" else time.fromisoformat(text)


def instant_ms(moment: Moment, tz: ZoneInfo) -> int:
    """Milliseconds since 1970 of a date (local midnight) or a time (local, where it names no zone)."""
    if not isinstance(moment, datetime):
        return to_ms(local_midnight(moment, tz))
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=tz))


def hours_off(cluster: ClusterHours, tz: ZoneInfo, seen: tuple[int, int]) -> list[tuple[int, int]]:
    """When the cluster is declared off, [from, to) in milliseconds; hours of the week from 40 days before `seen` to 400 after."""
    off = []
    if cluster.start is not None:
        off.append((_EVER[0], instant_ms(cluster.start, tz)))
    if cluster.until is not None:
        off.append((instant_ms(cluster.until, tz), _EVER[1]))
    weekly = cluster.weekly()
    if not weekly:
        return off
    day = (from_ms(seen[0]) - _BEFORE).astimezone(tz).date()
    last = (from_ms(seen[1]) + _AFTER).astimezone(tz).date()
    at = instant_ms(day, tz)
    while day <= last:
        for days, start, end in sorted(weekly, key=lambda one: one[1]):
            if day.weekday() in days:
                ends = day if end > start else day + timedelta(days=1)
                opens, closes = (instant_ms(datetime.combine(*one), tz) for one in ((day, start), (ends, end)))
                if opens > at:
                    off.append((at, opens))
                at = max(at, closes)
        day += timedelta(days=1)
    return off


class Discount(Section):
    """A negotiated discount on the whole price of the nodes that match; what is left out matches anything."""

    percent: Decimal = Field(gt=0, lt=100, description="Percent off the price of the whole node, its GPUs included.")
    provider: str | None = Field(default=None, description="Cloud, such as `aws`.")
    instance_family: str | None = Field(
        default=None, description="Family of instance types, such as `p5` or `Standard_ND`: what they begin with."
    )
    gpu_model: str | None = Field(default=None, description="GPU model as `gpucost prices` spells it.")
    purchase_option: (
        Literal["on_demand", "spot", "reserved", "savings_plan", "cud", "capacity_block", "flex_start", "calendar"] | None
    ) = Field(default=None, description="How the node is bought.")
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


class Prices(Section):
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
        description="`pooled`: nodes of one account, region, instance type, operating system, tenancy, capacity type and hour "
        "share what the bill says, because clouds assign discounts to instances by lot. `as_billed`: each keeps its own.",
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


class TeamLabels(Section):
    """Labels whose value is the team; the pod's label wins over the namespace's."""

    namespace: str | None = Field(default=None, description="Namespace label, such as `team`.")
    pod: str | None = Field(default=None, description="Pod label, such as `team`.")


class Team(Section):
    """A team by namespace patterns, label values or AWS cost categories, where no label in [team_labels] decides; the first match
    wins, of labels before namespaces, of namespaces before cost categories.
    """

    name: str = Field(min_length=1, description="What reports call the team.")
    namespaces: list[str] = Field(default_factory=list, description="Namespaces, with `*` and `?`.")
    clusters: list[str] = Field(default_factory=list, description="Only in these clusters, with `*` and `?`; none means all.")
    labels: dict[str, list[str]] = Field(
        default_factory=dict, description='Values of a label that belong to this team: `{ team = ["nlp", "vision"] }`.'
    )

    cost_categories: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Values of an AWS cost category, as the bill has it of the node, that belong to this team: "
        '`{ Department = ["Research"] }`.',
    )

    @model_validator(mode="after")
    def _matches_something(self) -> Team:
        if not (self.namespaces or self.labels or self.cost_categories):
            raise ValueError("needs namespaces or labels, or cost_categories")
        return self


class WorkloadTypeRule(Section):
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


class SharedCost(Section):
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


class Idle(Section):
    """When a held GPU counts as idle."""

    threshold_percent: float = Field(default=5.0, ge=0, le=100, description="A measured GPU under this activity is idle.")
    min_measured: float = Field(
        default=0.8, ge=0, le=1, description="Under this measured share of allocated GPU-hours, the efficiency target is unknown."
    )


class Activity(Section):
    """What measures a GPU's activity."""

    device_metric: str = Field(default="DCGM_FI_DEV_GPU_UTIL", description="Metric of whole devices.")
    device_scale: float = Field(default=1.0, gt=0, description="Factor that makes it a percentage.")
    mig_metric: str = Field(default="DCGM_FI_PROF_GR_ENGINE_ACTIVE", description="Metric of MIG instances.")
    mig_scale: float = Field(default=100.0, gt=0, description="Factor that makes it a percentage.")
    memory: bool = Field(
        default=False, description="Also collect used GPU memory, `DCGM_FI_DEV_FB_USED`: as many samples again as of activity."
    )


class Mig(Section):
    """How MIG slices share a GPU."""

    share: Literal["compute", "max_compute_memory"] = Field(
        default="compute",
        description="What a slice is of its GPU: its share of compute slices, or the larger of its compute and memory shares.",
    )


class Hami(Section):
    """How HAMi shares GPUs."""

    default_mem: int | None = Field(
        default=None,
        gt=0,
        description="MiB of a virtual GPU that names no memory, as HAMi's `scheduler.defaultMem` says; else the whole GPU.",
    )


class Targets(Section):
    """What the report measures teams against."""

    efficiency: Decimal = Field(default=Decimal("0.80"), ge=0, le=1, description="Least active share of measured GPU-hours.")
    spot_ratio: Decimal = Field(default=Decimal("0.70"), ge=0, le=1, description="Least spot share of allocated GPU-hours.")


class Waste(Section):
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


class FindingsSettings(Section):
    """What is worth saying (docs/findings.md)."""

    minimum_per_month: Decimal = Field(
        default=Decimal(50), ge=0, description="Money a month under which a saving is left out of `gpucost findings`."
    )


def _span_ms(span: str) -> int:
    return int(span[:-1]) * {"h": 1, "d": 24, "w": 168}[span[-1]] * MS_PER_HOUR


class Unit(Section):
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

    @field_validator("name")
    @classmethod
    def _told_from_logs(cls, value: str) -> str:
        if value in ("file", "mlflow"):
            raise ValueError("is what work from files or MLflow is called; take another name")
        return value

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


class Mlflow(Section):
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
        return base_url(value, "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")

    @property
    def source(self) -> str:
        """What the store calls this server: its name, else its URL."""
        return self.name or self.url or "mlflow"


_Named = PrometheusSource | SharedCost | Budget | Unit | ClusterHours


class Config(Section):
    """Everything a run depends on besides the store."""

    store: Path = Field(default=Path("gpucost.duckdb"), description="The store, a DuckDB file.")
    timezone: str = Field(default="UTC", description="Where days and months begin: an IANA name such as `Europe/Berlin`.")
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="Currency of prices and reports, ISO 4217.")
    prometheus: list[PrometheusSource] = Field(
        default_factory=lambda: [PrometheusSource()], description="Servers to collect from."
    )
    coverage: CoverageSettings = Field(default=CoverageSettings(), description="Time that was not seen.")
    clusters: list[ClusterHours] = Field(default_factory=list, description="Clusters that are not always on.")
    prices: Prices = Field(default=Prices(), description="Prices.")
    bills: Bills = Field(default=Bills(), description="Billing exports.")
    aws: Aws = Field(default=Aws(), description="AWS.")
    gcp: Gcp = Field(default=Gcp(), description="Google Cloud.")
    azure: Azure = Field(default=Azure(), description="Azure.")
    price_lists: PriceLists = Field(default=PriceLists(), description="Public price lists of OCI and GPU clouds.")
    focus: Focus = Field(default=Focus(), description="FOCUS files.")
    idle: Idle = Field(default=Idle(), description="Idleness.")
    activity: Activity = Field(default=Activity(), description="Metrics of activity.")
    mig: Mig = Field(default=Mig(), description="MIG slices.")
    hami: Hami = Field(default=Hami(), description="GPUs shared by HAMi.")
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

    @field_validator("prometheus", "clusters", "shared_costs", "budgets", "units")
    @classmethod
    def _told_apart(cls, value: list[_Named], info: ValidationInfo) -> list[_Named]:
        names = [item.source if isinstance(item, PrometheusSource) else item.name for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            what = "two servers" if info.field_name == "prometheus" else "two"
            raise ValueError(f"{what} are called {twice[0]}; give each its own name")
        return value

    @property
    def path(self) -> Path | None:
        """The file this was read from; None where there was none."""
        return self._path

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of days and months."""
        return ZoneInfo(self.timezone)
