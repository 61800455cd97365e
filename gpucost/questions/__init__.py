"""Every question that gpucost answers, once: the command line, the Python API, MCP tools, schemas and docs are made from this."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpucost.render.view import Answer

REPORT_FORMATS = ("table", "markdown", "html", "json", "csv", "parquet", "focus")
FORMATS = ("table", "markdown", "csv", "json", "parquet")
BRIEF_FORMATS = ("table", "json")


class Question(NamedTuple):
    """A question: the words of its command, the module with its function, and its line in the help of the program.

    The function is called as the words are, with `_` between them. It takes a Request and options, and returns the answer.
    `answer` is the class of its JSON, of this package if none is named. `topic` is its heading in the help if the table of
    commands does not have it. `reads_files`: it can read other files than the store.
    """

    words: str
    module: str
    summary: str
    answer: str
    topic: str = ""
    formats: tuple[str, ...] = FORMATS
    takes_lake: bool = False
    takes_store: bool = True
    reads_files: bool = False
    contract: str = ""

    @property
    def schema(self) -> str:
        """The name of its JSON contract: gpucost.NAME/1."""
        return self.contract or self.words.replace(" ", ".")

    @property
    def function(self) -> Callable[..., Answer]:
        """The function that answers it; importing it may take a while."""
        function: Callable[..., Answer] = getattr(
            import_module(f"{__name__}.{self.module}"), self.words.replace(" ", "_")
        )
        return function


def _what_if(name: str, module: str, summary: str, *, reads_files: bool = False) -> Question:
    return Question(
        f"whatif {name}",
        f"whatif.{module}",
        summary,
        "whatif.view:WhatIfAnswer",
        contract="whatif",
        reads_files=reads_files,
    )


_QUESTIONS = (
    Question("report", "report", "What GPUs cost, who used them, and how much sat idle.", "gpucost.render.view:ReportView",
             formats=REPORT_FORMATS, takes_lake=True),
    Question("waste", "waste", "Where GPU time was wasted, each GPU-hour in one bucket.", "waste.anatomy:WasteAnswer",
             takes_lake=True),
    Question("queue", "queue", "Who waits for GPUs, in Kueue's queues and in Slurm.", "queue.waits:Queues"),
    Question("findings", "findings", "What to do about waste, dearest first.", "findings.kinds:Findings",
             takes_lake=True),
    Question("unit epoch", "units", "Each epoch of a training run: cost, trend, losses, what is still to come.",
             "units.work:Epochs"),
    Question("unit experiment", "units", "Experiments: tracked runs, sweeps, and jobs that no tracker knows.",
             "units.work:Experiments"),
    Question("unit requests", "units", "1,000 requests, by model and day.", "units.serving:Requests"),
    Question("unit tokens", "units", "A million tokens, by model and day.", "units.serving:Tokens"),
    Question("explain node", "explain.node", "What a node costs per hour at a moment, and why.",
             "gpucost.price.explain:NodeExplained", formats=BRIEF_FORMATS),
    Question("explain team", "explain", "A team's cost, down to the rows of the bill.",
             "explain.costs:TeamExplained", formats=BRIEF_FORMATS),
    Question("explain namespace", "explain", "A namespace's cost, down to the rows of the bill.",
             "explain.costs:NamespaceExplained", formats=BRIEF_FORMATS),
    Question("explain workload", "explain", "A workload's cost, down to its pods and the rows of the bill.",
             "explain.costs:WorkloadExplained", formats=BRIEF_FORMATS),
    Question("prices", "prices", "What a GPU costs where, and how that is known.", "gpucost.price.listing:PricesAnswer"),
    Question("prices tco", "prices.tco", "What an hour of an own node costs, part by part.", "gpucost.price.onprem:TcoAnswer",
             takes_store=False, contract="tco"),
    Question("prices history", "prices.history", "How the spot price of an instance type moved.",
             "gpucost.price.history:PriceHistory"),
    Question("prices tokens", "prices.tokens", "What a million tokens costs, of which model at whom.",
             "gpucost.price.tokens:TokenPricesAnswer", takes_store=False),
    Question("quote", "quote", "What so many GPUs cost for so long, bought each way.", "gpucost.price.quote:Quote"),
    Question("budget check", "budget", "Hold the month against them; exit with 3 where one is missed.",
             "budget.states:BudgetAnswer", contract="budget"),
    Question("forecast", "budget.forecast", "What the month will come to, and within which range.",
             "budget.forecast:ForecastAnswer"),
    Question("anomalies", "budget.anomalies", "Days that broke their own pattern, and what did it.",
             "budget.patterns:AnomaliesAnswer"),
    Question("policy check", "policy", "Hold the fleet against them; exit with 3 where one is broken.",
             "policy.rules:PolicyAnswer", contract="policy"),
    Question("reconcile", "reconcile", "Where each billed dollar of a month went.",
             "reconcile.statement:Reconciliation"),
    Question("diff", "diff", "What changed between two periods, and why.", "diff.parts:Diff"),
    _what_if("spot", "spot", "Move on-demand usage to spot, interruptions counted."),
    _what_if("schedule", "schedule", "Release idle GPUs, remove empty nodes, keep office hours."),
    _what_if("share", "share", "Let pods share GPUs: time slicing, MPS or MIG."),
    _what_if("rightsize", "rightsize", "Fewer GPUs for the same work, or a slice of one."),
    _what_if("plan", "plan", "Several changes together, none counted twice.", reads_files=True),
    _what_if("reserve", "commitments", "Commit: how many instances, for how long, paid how."),
    _what_if("buy", "commitments", "Own nodes beside the cloud: whether they pay, and from when on."),
    _what_if("move", "move", "Run work elsewhere, or keep its data near: waiting, transfer and price."),
    _what_if("tokens", "tokens", "A model's tokens from own GPUs, or bought."),
)  # fmt: skip
QUESTIONS = {question.words: question for question in _QUESTIONS}
#: The classes of all JSON answers that have a schema, by its name.
SCHEMAS = {question.schema: question.answer for question in _QUESTIONS} | {
    "store": "gpucost.store.schema:StoreInfo",
    "chargeback": "gpucost.publish.chargeback:Index",
}


def schema(name: str) -> str:
    """JSON Schema (draft 2020-12) of an answer, as JSON text. Raises UsageError if no answer has that name."""
    from gpucost.errors import UsageError
    from gpucost.render.schema import schema as schema_of

    if name not in SCHEMAS:
        raise UsageError(
            f"there is no schema of {name!r}", f"gpucost schema takes one of: {', '.join(SCHEMAS)}"
        )
    module, _, answer = SCHEMAS[name].partition(":")
    module = module if module.startswith("gpucost.") else f"{__name__}.{module}"
    return schema_of(name, getattr(import_module(module), answer))
