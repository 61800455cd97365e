"""The content of a report, in numbers and words, before any format: built once, rendered by every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.records import frozen_dataclass, keyed_dataclass
from gpucost.shapes import Shape, Summary

if TYPE_CHECKING:
    import pandas as pd

    from gpucost.render.html import Block

Step = Literal["hour", "day", "week", "month"]
LayerKind = Literal["named", "others", "unallocated", "not_collected", "active", "idle", "unmeasured"]


@frozen_dataclass
class Moment:
    """One step of the time axis: `2026-10-05`, or `2026-10-05 to 2026-10-11`; weeks begin on Monday. `short` fits an
    axis.
    """

    name: str
    short: str
    from_ms: int
    to_ms: int


@frozen_dataclass
class Layer:
    """One value per moment, and their sum. Kind 'others' sums small layers; `name` gives their number."""

    name: str
    kind: LayerKind
    values: tuple[Decimal, ...]
    total: Decimal


@frozen_dataclass
class Stack:
    """Layers that add up, the largest first, then 'others', 'unallocated', 'not_collected'; `totals` are the sums by
    moment.
    """

    title: str
    unit: Literal["money", "hours"]
    layers: tuple[Layer, ...]
    totals: tuple[Decimal, ...]
    total: Decimal


@frozen_dataclass
class Series:
    """A period by moments. `stacks` of money each add up to the report's total; `hours` to capacity or allocated
    time.

    `method` explains the computation in words, as (term, explanation).
    """

    step: Step
    moments: tuple[Moment, ...]
    stacks: tuple[Stack, ...]
    hours: Stack
    method: tuple[tuple[str, str], ...]


#: The whole of a share: one denominator per term everywhere (docs/glossary.md).
OF_HELD = "of allocated GPU-hours"
OF_CAPACITY = "of capacity"
OF_ALLOCATED = "of allocated cost"
OF_NODES = "of node cost"

Standing = Literal["final", "estimate"]
Unit = Literal["text", "hours", "money", "price", "ratio"]
Value = str | float | Decimal | None
Status = Literal["met", "missed", "unknown"]


@frozen_dataclass
class Measures:
    """GPU time in GPU-hours, money in the report's currency, ratios 0-1 and None for 0/0 (docs/attribution.md).

    `estimated_cost` is the cost at prices that are not final: of cost, and in rows of kind 'unallocated' and in totals of
    unallocated cost too.
    """

    allocated_gpu_hours: float
    active_gpu_hours: float
    idle_gpu_hours: float
    unmeasured_gpu_hours: float
    spot_gpu_hours: float
    cost: Decimal
    idle_cost: Decimal
    spot_cost: Decimal
    estimated_cost: Decimal
    spot_ratio: float | None
    efficiency: float | None
    measured_ratio: float | None
    avg_utilization: float | None


@frozen_dataclass
class Unallocated:
    """Unallocated GPU-hours and cost; `unavailable` is the part that no pod could have held."""

    unallocated_gpu_hours: float
    unavailable_gpu_hours: float
    unallocated_cost: Decimal


@frozen_dataclass
class NotCollected:
    """GPU-hours and cost billed for nodes without metrics of their holders (docs/coverage.md)."""

    not_collected_gpu_hours: float
    not_collected_cost: Decimal


@frozen_dataclass
class ApiCost:
    """Cost and number of bought tokens (docs/tokens.md), separate from the cost of GPUs.

    `commitment_cost` is the part for provisioned throughput. Tokens are None if no bill counts them; `cached_tokens`
    are part of the prompt tokens.
    """

    api_cost: Decimal
    commitment_cost: Decimal
    prompt_tokens: float | None
    cached_tokens: float | None
    generation_tokens: float | None


@keyed_dataclass
class ApiModel(Shape):
    """A team's purchases of a model from a provider.

    `source` is an `invoice` of its vendor or the `bill` of a cloud. The costs of prompt and generated tokens exclude
    other charges of the seller.
    """

    team: str
    provider: str
    model: str | None
    source: Literal["invoice", "bill"]
    cost: ApiCost
    prompt_cost: Decimal
    generation_cost: Decimal
    cost_per_million_tokens: Decimal | None
    cost_per_million_prompt_tokens: Decimal | None
    cost_per_million_generation_tokens: Decimal | None

    FLAT = ("cost",)


@frozen_dataclass
class Shared(Summary):
    """A row's shares of unallocated and shared costs (docs/shared-costs.md), in addition to its cost.

    `unallocated_cost` is its share of unallocated cost, `remaining_unallocated_cost` the unshared rest; both are None
    unless requested, the latter also in rows that are not of kind 'unallocated'. `costs` are its shares by the names
    of [[shared_costs]], below zero if the row's own cost went to others.
    """

    unallocated_cost: Decimal | None
    remaining_unallocated_cost: Decimal | None
    costs: dict[str, Decimal]

    @property
    def shared_cost(self) -> Decimal:
        """The sum of `costs`."""
        return sum(self.costs.values(), ZERO)

    def printed(self) -> SharedAnswer:
        """The requested fields only."""
        costs = _SharedCosts(self.shared_cost, self.costs) if self.costs else None
        return SharedAnswer(self.unallocated_cost, self.remaining_unallocated_cost, costs)

    def as_total(self) -> SharedTotals:
        """The same for all rows; includes the rest of unallocated cost even if it is unknown."""
        is_shared = self.unallocated_cost is not None or self.remaining_unallocated_cost is not None
        unallocated = (
            _UnallocatedShares(self.unallocated_cost, self.remaining_unallocated_cost) if is_shared else None
        )
        return SharedTotals(unallocated, _SharedCosts(self.shared_cost, self.costs) if self.costs else None)


@frozen_dataclass
class _UnallocatedShares:
    shared_unallocated_cost: Decimal | None
    remaining_unallocated_cost: Decimal | None


@frozen_dataclass
class _SharedCosts:
    shared_cost: Decimal
    shared_costs: dict[str, Decimal]


@frozen_dataclass
class SharedTotals(Shape):
    """Shares and rest of unallocated cost with --share-unallocated; shares of [[shared_costs]]."""

    unallocated: _UnallocatedShares | None
    costs: _SharedCosts | None

    FLAT = ("unallocated", "costs")


@frozen_dataclass
class SharedAnswer(Shape):
    """The shares of a row; only unallocated rows have a rest."""

    shared_unallocated_cost: Decimal | None = None
    remaining_unallocated_cost: Decimal | None = None
    costs: _SharedCosts | None = None

    FLAT = ("costs",)


@frozen_dataclass
class Row(Shape):
    """One combination of dimension values; `unallocated` and `not_collected` exist only in rows of these kinds.

    Rows of kind 'shared' held no GPUs: they have the shared costs of a team without GPUs, or of no team. Rows of kind
    'api' have the cost of bought tokens, which is part of no GPU-hour.
    """

    kind: Literal["allocated", "unallocated", "not_collected", "api", "shared"]
    keys: dict[str, str | None]
    measures: Measures
    unallocated: Unallocated | None = None
    not_collected: NotCollected | None = None
    api: ApiCost | None = None
    shared: Shared | None = None

    FLAT = ("keys", "measures", "unallocated", "not_collected", "api", "shared")

    @property
    def own_gpu_hours(self) -> float:
        """GPU-hours by its kind: allocated, unallocated or not collected."""
        if self.unallocated:
            return self.unallocated.unallocated_gpu_hours
        if self.not_collected:
            return self.not_collected.not_collected_gpu_hours
        return self.measures.allocated_gpu_hours

    @property
    def own_cost(self) -> Decimal:
        """The cost of the row's kind: allocated, unallocated or not collected time, or bought tokens."""
        if self.api:
            return self.api.api_cost
        if self.unallocated:
            return self.unallocated.unallocated_cost
        return self.not_collected.not_collected_cost if self.not_collected else self.measures.cost


@frozen_dataclass
class NodeTotals:
    """Capacity and cost of the nodes: cost of allocated rows + unallocated_cost + not_collected_cost = node_cost,
    exactly.
    """

    capacity_gpu_hours: float
    unallocated_gpu_hours: float
    unavailable_gpu_hours: float
    unallocated_cost: Decimal
    over_allocated_gpu_hours: float
    not_collected_gpu_hours: float
    not_collected_cost: Decimal
    node_cost: Decimal


@frozen_dataclass
class PriceSource:
    """A price source: its share (0-1) of the node cost, and its oldest price date."""

    name: str
    share: float
    as_of: date | None
    age_days: int | None


@frozen_dataclass
class Gap(Shape):
    """Time of a cluster without complete metrics, from `start` to `end`, in local time.

    'not_collected' can be accepted, by whom and why. 'bridged' is short enough to count as collected. 'partial' time
    has accepted partial answers of a server, or, if it has families, missing nodes. 'off' is planned off time.
    `families` are the missing families.
    """

    cluster: str
    kind: Literal["not_collected", "bridged", "partial", "off"]
    start: datetime
    end: datetime
    hours: float
    families: Names
    reason: str
    accepted_by: str | None
    accepted_why: str | None

    HIDDEN: ClassVar[Names] = ("kind", "accepted_by", "accepted_why")

    @property
    def is_missing(self) -> bool:
        """Whether figures lack data of this time, and the gap is not accepted."""
        return (
            self.kind == "not_collected" or (self.kind == "partial" and bool(self.families))
        ) and not self.accepted_by


@frozen_dataclass
class MissingTime(Gap):
    """A gap of kind 'not_collected'."""

    HIDDEN = ("kind",)


@frozen_dataclass
class Notice:
    """A warning for readers of the figures, and its fix."""

    code: str
    message: str
    fix: str | None


@keyed_dataclass
class CoverageAnswer(Shape):
    """Coverage of the figures; `price_sources` are shares of node cost; only bundles have the first three fields."""

    state: Standing | None = None
    reasons: tuple[str, ...] | None = None
    reconciliation: str | None = None
    measured_ratio: float | None
    price_sources: dict[str, float]
    price_as_of: date | None
    not_collected_hours: float
    bridged_hours: float
    not_collected: list[MissingTime]
    bridged: list[Gap]
    partial: list[Gap]
    off: list[Gap]
    unknown_capacity_gpu_hours: float
    unpriced_gpu_hours: float
    cost_basis: str | None = None
    warnings: tuple[Notice, ...]


@keyed_dataclass
class Coverage(CoverageAnswer):
    """Coverage of the figures. `not_collected_hours` and `bridged_hours` are for the cluster with the most.

    `is_complete`: the period is over and all gaps are accepted. `cost_basis` is None for the basis "node".
    `collected_to`, in local time, is the earliest end of the clusters' known time. Unpriced are the GPU-hours of
    nodes without a price: of all nodes, or of the selected pods. Final and estimated cost add up to the cost of the
    nodes, or of those pods. Only a month's bundle has `state` (final or estimate) and `reasons`; `reconciliation` is
    a sentence on the month's bill.
    """

    sources: tuple[PriceSource, ...]
    collected_to: datetime | None
    unpriced_ratio: float | None
    is_complete: bool
    final_cost: Decimal
    estimated_cost: Decimal

    @property
    def is_whole(self) -> bool:
        """Whether the period is over and was collected in full."""
        return self.is_complete and not self.not_collected_hours

    @property
    def gaps(self) -> list[Gap]:
        """All gaps, by time and cluster."""
        gaps = (*self.not_collected, *self.bridged, *self.partial, *self.off)
        return sorted(gaps, key=lambda gap: (gap.start, gap.cluster, gap.end))


@frozen_dataclass
class Column:
    """A column of a table.

    `decimals` is the same in every row, so that decimal points align. If not all columns fit, columns of the highest
    `weight` are left out first, columns of weight 0 never. Columns of one `group` (parts of a sum, before and after)
    are shown all or none.
    """

    title: str
    unit: Unit
    decimals: int = 1
    weight: int = 0
    sign: str = ""
    group: str = ""


@frozen_dataclass
class Line:
    """A row of a table; `flag` is a short warning next to it, a sum is highlighted. `trend` is its cost by moment."""

    cells: tuple[Value, ...]
    flag: str | None = None
    is_sum: bool = False
    trend: tuple[Decimal, ...] = ()


@frozen_dataclass
class Table:
    """`has_header` False: the columns need no titles. `sum` is next to the title."""

    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    note: str | None = None
    has_header: bool = True
    sum: tuple[float, Unit] | None = None

    @classmethod
    def of(
        cls,
        title: str,
        rows: Iterable[Any],
        columns: Iterable[ValueColumn],
        sums: Iterable[Line] = (),
        note: str | None = None,
        **marks: Callable[[Any], Any],
    ) -> Table:
        """A line for each row, with the result of `marks` (flag, is_sum), and `sums` below."""
        heads, values = zip(*columns, strict=True)
        lines = (
            Line(tuple(value(row) for value in values), **{name: mark(row) for name, mark in marks.items()})
            for row in rows
        )
        return cls(title, heads, (*lines, *sums), note)


# A column, and its value for a row.
ValueColumn = tuple[Column, Callable[[Any], Value]]


def column_of(
    value: str | Callable[[Any], Value],
    title: str | None = None,
    *,
    unit: Unit = "text",
    decimals: int = 1,
    **more: Any,
) -> ValueColumn:
    """A column with the result of `value` for a row, or the attribute it names, which is also the default title."""
    if callable(value):
        return Column(title or "", unit, decimals, **more), value
    name = value.replace("_", " ")
    return Column(
        name[:1].upper() + name[1:] if title is None else title, unit, decimals, **more
    ), attrgetter(value)


text = column_of
money = partial(column_of, unit="money", decimals=2)
# Preformatted text, right-aligned like figures.
figure = partial(column_of, unit="price")
number = partial(column_of, unit="hours")
count = partial(column_of, unit="hours", decimals=0)
amount = partial(column_of, unit="hours", decimals=2)
share = partial(column_of, unit="ratio")


def dimension_title(name: str) -> str:
    """The heading of a dimension: `GPU model`; a label keeps its spelling."""
    return name if ":" in name else name.replace("_", " ").capitalize().replace("Gpu", "GPU")


def dimension(name: str) -> ValueColumn:
    """The column of a dimension of --by."""
    return text(lambda row: row.keys[name], dimension_title(name))


@frozen_dataclass
class Figure:
    """One figure with the whole of its share, or with its target and whether it is met."""

    label: str
    value: Value
    unit: Unit
    share: float | None = None
    share_of: str | None = None
    target: float | None = None
    status: Status | None = None
    note: str | None = None


def part_of(label: str, value: float | Decimal, whole: float | Decimal, share_of: str) -> Figure:
    """Money or GPU-hours, and their share of `whole`."""
    unit: Unit = "money" if isinstance(value, Decimal) else "hours"
    return Figure(label, value, unit, ratio(value, whole), share_of)


@frozen_dataclass
class Figures:
    title: str
    figures: tuple[Figure, ...]


@frozen_dataclass
class Texts:
    """Sentences, each by itself."""

    title: str
    texts: tuple[str, ...]
    note: str | None = None


@frozen_dataclass
class Item:
    """An action: its value (`note`: over which time; `is_most`: an upper bound), its reason, and a command.

    `patch` is text to apply.
    """

    title: str
    value: Decimal
    unit: Unit
    note: str
    text: str
    command: str | None = None
    is_most: bool = False
    rank: int = 0
    patch: str | None = None


@frozen_dataclass
class Items:
    """Actions in order of priority."""

    items: tuple[Item, ...]
    title: str


Section = Table | Figures | Texts | Items


@keyed_dataclass
class Page:
    """The page for people, before any format; money is in `currency`.

    `headline` is its first sentence. `whole_in` is the format that also has the columns left out of tables. `lines`
    replace the page as text.
    """

    title: str
    headline: str = ""
    subtitle: str = ""
    lines: Names = ()
    currency: str
    sections: tuple[Section, ...] = ()
    coverage: Coverage | None = None
    whole_in: str = "markdown"


@keyed_dataclass
class Answer(Page):
    """A whole answer before any format: a page for people, `data` of the schema `name` for programs, and rows.

    `notes` and `errors` are reported after the answer is written; `exit_code` is the exit code of the command.
    """

    notes: tuple[str, ...] = ()
    exit_code: int = 0
    errors: tuple[GpucostError, ...] = ()

    def json(self) -> str:
        """The answer as text of its JSON contract."""
        raise NotImplementedError

    def csv(self) -> str:
        """The main rows as CSV."""
        raise NotImplementedError

    def save_parquet(self, path: Path) -> None:
        """Write the main rows as Parquet."""
        raise NotImplementedError

    def page(self, format: Literal["text", "markdown", "html"] = "markdown") -> str:
        """The page for people."""
        if format == "html":
            return self.html()
        from gpucost.render import markdown, terminal

        return markdown.render(self) if format == "markdown" else terminal.render(self, None, color=False)

    def html(self) -> str:
        """The page as HTML. Raises UsageError for an answer without one."""
        raise UsageError("this answer has no HTML page", "use gpucost report")

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the answer by name, the main one first, as in JSON. Money is in floats."""
        import pandas as pd

        from gpucost.render.frames import tables

        return {name: pd.json_normalize(rows) for name, rows in tables(json.loads(self.json())).items()}

    def df(self) -> pd.DataFrame:
        """The main rows. Nested values have dotted names, money is in floats.

        `df.attrs` has the rest of the answer (period, currency, totals …), `messages` and `exit_code`.
        """
        from gpucost.render.frames import frame

        return frame(json.loads(self.json()), self.notes, self.exit_code)


@keyed_dataclass
class Document(Answer):
    """An answer: `data` for programs, of the schema `name` (`shape` is its class, if it is a dict), and columns and
    rows.
    """

    name: str
    data: object
    shape: Any = None
    flat: tuple[Sequence[str], Sequence[Sequence[Any]]]

    def json(self) -> str:
        """The answer as text of the JSON contract gpucost.NAME/1."""
        from gpucost.render.schema import to_json

        return to_json(self.data, self.name, self.shape)

    def csv(self) -> str:
        """The main rows as CSV."""
        from gpucost.render.rows import RowFormat, render_rows

        return render_rows(*self.flat, RowFormat.csv)

    def save_parquet(self, path: Path) -> None:
        """Write the main rows as Parquet."""
        from gpucost.render.rows import save_parquet

        save_parquet(*self.flat, path)


@keyed_dataclass
class ReportView(Answer, Summary):
    """A whole report. `rows` and `totals` are for programs, `sections` for people; both have the same figures.

    `sections` is empty and `series` None unless the query requested them. `totals_shared`, and `shared` of every row,
    are None if no costs are shared. `totals_api` is None without bought tokens, `bought` has them by team and model,
    and `api_known_to` is the time until which all of them are known. `blocks` come after the sections on an HTML
    page.
    """

    period: Period
    by: Names
    rows: tuple[Row, ...]
    totals: Measures
    node_totals: NodeTotals | None
    coverage: Coverage
    series: Series | None = None
    totals_shared: Shared | None = None
    totals_api: ApiCost | None = None
    bought: tuple[ApiModel, ...] = ()
    api_known_to: datetime | None = None
    blocks: tuple[Block, ...] = ()

    def json(self) -> str:
        """The answer as text of the JSON contract gpucost.report/1."""
        from gpucost.render.data import to_json

        return to_json(self)

    def csv(self) -> str:
        """The rows as CSV."""
        from gpucost.render.data import to_csv

        return to_csv(self)

    def save_parquet(self, path: Path) -> None:
        """Write the rows as Parquet."""
        from gpucost.render.data import to_parquet

        to_parquet(self, path)

    def html(self) -> str:
        """The page as HTML. Raises UsageError for a report without HTML data."""
        from gpucost.render.html import render

        if self.series is None:
            raise UsageError("this report was not made for an HTML page", 'use format="html" for the report')

        return render(self, blocks=self.blocks)

    @property
    def targets(self) -> list[Figure]:
        """The figures with a target."""
        figures = (
            figure for section in self.sections if isinstance(section, Figures) for figure in section.figures
        )
        return [figure for figure in figures if figure.status]

    def printed(self) -> ReportAnswer:
        """The report's data for programs."""
        names = [field.name for field in fields(NodeTotals)]
        return ReportAnswer(
            period=self.period,
            currency=self.currency,
            by=self.by,
            rows=self.rows,
            totals=TotalsAnswer(
                measures=self.totals,
                **{name: getattr(self.node_totals, name, None) for name in names},
                shared=self.totals_shared.as_total() if self.totals_shared else None,
                api=self.totals_api,
            ),
            bought=self.bought if self.totals_api else None,
            coverage=self.coverage,
        )


@keyed_dataclass
class TotalsAnswer(Shape):
    """The sums of all rows, and capacity and cost of the nodes: null if only some pods are selected."""

    measures: Measures
    capacity_gpu_hours: float | None
    unallocated_gpu_hours: float | None
    unavailable_gpu_hours: float | None
    unallocated_cost: Decimal | None
    over_allocated_gpu_hours: float | None
    not_collected_gpu_hours: float | None
    not_collected_cost: Decimal | None
    node_cost: Decimal | None
    shared: SharedTotals | None
    api: ApiCost | None

    FLAT = ("measures", "shared", "api")


@keyed_dataclass
class ReportAnswer(Shape):
    """The output of gpucost report --format json. Money is in `currency`, GPU time in GPU-hours, instants in UTC.

    Rows have the dimensions of `by`: allocated ones by cost descending, then the other kinds. `bought` is present if
    tokens were bought: the purchases of each team by model.
    """

    period: Period
    currency: str
    by: Names
    rows: tuple[Row, ...]
    totals: TotalsAnswer
    bought: tuple[ApiModel, ...] | None = None
    coverage: CoverageAnswer


#: The column of the charge: cost plus shares.
CHARGED = "Charged"
ZERO = Decimal(0)


def hours(gpu_ms: float) -> float:
    """GPU-hours from GPU-milliseconds, to 9 decimals: sums of doubles carry noise beyond."""
    return round(gpu_ms / MS_PER_HOUR, 9)


def ratio(part: float | Decimal, whole: float | Decimal) -> float | None:
    """part / whole to 6 decimals; None for 0/0."""
    return round(float(part) / float(whole), 6) if whole else None
