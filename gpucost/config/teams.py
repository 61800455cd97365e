"""Who pays: teams, what their workloads are for, and costs that are charged to them besides GPUs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gpucost.config.section import Section


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
