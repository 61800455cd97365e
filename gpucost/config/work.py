"""Units of work: the metrics and the MLflow server that count them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpucost.config.section import Section
from gpucost.config.servers import Tls, base_url


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
