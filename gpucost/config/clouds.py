"""The clouds: where their prices and billing exports are, and how bills are read."""

from __future__ import annotations

from pydantic import Field

from gpucost.config.section import Section


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
