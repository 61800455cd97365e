"""The registry of all questions.

The command line, the Python API, MCP tools, schemas and docs are made from it.
"""

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
    """A question: its command, its function, and its line in the help.

    `words` is the command. The function has the same name, with `_` between the words; it takes a Request and options
    and returns the answer. `answer` is the class of the JSON answer, in this package unless the path names another.
    `topic` is the heading in the help if the table of commands does not list the question. `reads_files`: can read
    files other than the store.
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
        """The name of the JSON contract: gpucost.NAME/1."""
        return self.contract or self.words.replace(" ", ".")

    @property
    def function(self) -> Callable[..., Answer]:
        """The function that answers the question; importing it can take a while."""
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
    Question("report", "report", "Show GPU cost by team, with usage and idle time.", "gpucost.render.view:ReportView",
             formats=REPORT_FORMATS, takes_lake=True),
    Question("waste", "waste", "Show wasted GPU time, each GPU-hour in one bucket.", "waste.anatomy:WasteAnswer",
             takes_lake=True),
    Question("efficiency", "efficiency", "Show effective cost: active GPUs and busy SMs.",
             "efficiency:EfficiencyAnswer", takes_lake=True),
    Question("queue", "queue", "Show waits for GPUs and their cost: queues of Kueue, KAI, Volcano, Slurm.", "queue.waits:Queues"),
    Question("failures", "failures", "Show failures of GPUs, nodes and pods, and their cost.", "failures:Failures"),
    Question("findings", "findings", "List actions against waste, most expensive first.", "findings.kinds:Findings",
             takes_lake=True),
    Question("unit epoch", "units", "Show each epoch of a run: cost, trend, losses and remaining cost.",
             "units.work:Epochs"),
    Question("unit experiment", "units", "Show the cost of tracked runs, sweeps, and jobs without a tracker.",
             "units.work:Experiments"),
    Question("unit requests", "units", "Show the cost per 1,000 requests, by model and day.", "units.serving:Requests"),
    Question("unit tokens", "units", "Show the cost per million tokens, by model and day.", "units.serving:Tokens"),
    Question("explain node", "explain.node", "Explain a node's price per hour at a moment, and its source.",
             "gpucost.price.explain:NodeExplained", formats=BRIEF_FORMATS),
    Question("explain team", "explain", "Explain a team's cost, down to the rows of the bill.",
             "explain.costs:TeamExplained", formats=BRIEF_FORMATS),
    Question("explain namespace", "explain", "Explain a namespace's cost, down to the rows of the bill.",
             "explain.costs:NamespaceExplained", formats=BRIEF_FORMATS),
    Question("explain workload", "explain", "Explain a workload's cost, down to its pods and the bill's rows.",
             "explain.costs:WorkloadExplained", formats=BRIEF_FORMATS),
    Question("prices", "prices", "Show GPU prices by provider and region, with their sources.",
             "gpucost.price.listing:PricesAnswer"),
    Question("prices tco", "prices.tco", "Show the cost per hour of an on-prem node, part by part.",
             "gpucost.price.onprem:TcoAnswer", takes_store=False, contract="tco"),
    Question("prices history", "prices.history", "Show the spot price history of an instance type.",
             "gpucost.price.history:PriceHistory"),
    Question("prices tokens", "prices.tokens", "Show prices per million tokens, by model and provider.",
             "gpucost.price.tokens:TokenPricesAnswer", takes_store=False),
    Question("quote", "quote", "Show the cost of GPUs for a time, by purchase option.", "gpucost.price.quote:Quote"),
    Question("budget check", "budget", "Check the month against its budgets; exit with 3 if one is missed.",
             "budget.states:BudgetAnswer", contract="budget"),
    Question("forecast", "budget.forecast", "Show the expected cost of the month, with its range.",
             "budget.forecast:ForecastAnswer"),
    Question("anomalies", "budget.anomalies", "Show days with unusual cost, and the causes.",
             "budget.patterns:AnomaliesAnswer"),
    Question("policy check", "policy", "Check the fleet against rules; exit with 3 if one is broken.",
             "policy.rules:PolicyAnswer", contract="policy"),
    Question("reconcile", "reconcile", "Reconcile each billed dollar of a month.",
             "reconcile.statement:Reconciliation"),
    Question("diff", "diff", "Show changes between two periods, and their causes.", "diff.parts:Diff"),
    _what_if("spot", "spot", "Move on-demand usage to spot, including interruptions."),
    _what_if("schedule", "schedule", "Release idle GPUs, remove empty nodes, keep office hours."),
    _what_if("share", "share", "Let pods share GPUs: time slicing, MPS or MIG."),
    _what_if("rightsize", "rightsize", "Use fewer GPUs for the same work, or a slice of one."),
    _what_if("plan", "plan", "Combine several changes, none counted twice.", reads_files=True),
    _what_if("reserve", "commitments", "Commit to instances: how many, for how long, with which payment."),
    _what_if("buy", "commitments", "Buy nodes next to the cloud: whether and when they pay off."),
    _what_if("move", "move", "Run work elsewhere, or near its data: waiting, transfer and price."),
    _what_if("tokens", "tokens", "Serve a model's tokens from own GPUs, or buy them."),
)  # fmt: skip
QUESTIONS = {question.words: question for question in _QUESTIONS}
#: The classes of all JSON answers that have a schema, by schema name.
SCHEMAS = {question.schema: question.answer for question in _QUESTIONS} | {
    "quote.files": "quote.files:FileQuotes",
    "store": "gpucost.store.schema:StoreInfo",
    "chargeback": "gpucost.publish.chargeback:Index",
}


def schema(name: str) -> str:
    """The JSON Schema (draft 2020-12) of an answer, as JSON text.

    Raises UsageError if no answer has that name.
    """
    from gpucost.errors import UsageError
    from gpucost.render.schema import schema as schema_of

    if name not in SCHEMAS:
        raise UsageError(f"schema not found: {name!r}", f"use one of: {', '.join(SCHEMAS)}")
    module, _, answer = SCHEMAS[name].partition(":")
    module = module if module.startswith("gpucost.") else f"{__name__}.{module}"
    return schema_of(name, getattr(import_module(module), answer))
