"""The program: every command as a row of a table, imported when it is run, and nothing that a command does."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # type: ignore[attr-defined]
from typer.exceptions import TyperException

from gpucost import __version__
from gpucost.questions import QUESTIONS


class CommandTable(UserDict[str, Any]):
    """Commands by name, those of `rows` imported when they are needed: as group_name from the module of `gpucost.cli`."""

    def __init__(self, group: str, rows: Mapping[str, str], others: Mapping[str, Any]) -> None:
        super().__init__({**dict.fromkeys(rows), **others})
        self._group = group

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            function = self._function(name)
            program = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            program.command(name, cls=PanelCommand, hidden=name == DEFAULT)(function)
            command = self[name] = typer.main.get_command(program)
            for param in command.params:
                if param.param_type_name == "argument":  # its help would have Python's type behind its name
                    vars(param)["display_type_rich"] = lambda **_: None
        return command

    def _function(self, name: str) -> Any:
        """The command's own function if `gpucost.cli` has one, otherwise the one that a question of the registry makes."""
        parts = [part for part in (self._group, name) if part not in ("", DEFAULT)]
        function = "_".join(parts).replace("-", "_")
        if " ".join(parts) in QUESTIONS and function not in MODULES:
            from gpucost.cli.asking import question_command

            return question_command(" ".join(parts))
        group = self._group or name
        module = import_module(f"gpucost.cli.{MODULES.get(function) or MODULES.get(group, group)}")
        return getattr(module, function)


class TextParams:
    """A command whose parameters stay texts while a shell completes: what makes values of them takes longer than all else."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            from gpucost.texts import visible  # help comes up without

            if isinstance(message := getattr(error, "message", None), str):
                vars(error)["message"] = visible(message)
            raise
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        if ctx.resilient_parsing:
            for one in params:
                vars(one)["process_value"] = partial(_as_typed, one)
        return params


def _as_typed(param: Any, ctx: Any, value: Any) -> Any:
    return value if ctx.resilient_parsing else type(param).process_value(param, ctx, value)


class NamedContext(TyperCommand.context_class):  # type: ignore[misc,valid-type]
    """What is said of a group's own command is said of the group: nobody types its name."""

    @property
    def command_path(self) -> str:
        return str(super().command_path).removesuffix(f" {DEFAULT}")


class PanelCommand(TextParams, TyperCommand):
    """A command whose help has its options in parts, those of its own first and those of every command last."""

    context_class = NamedContext

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from gpucost.options import EVERYWHERE, PANELS

        rows = [
            (param.rich_help_panel or EVERYWHERE, param.get_help_record(ctx))
            for param in self.get_params(ctx)
        ]
        for panel in PANELS:
            if within := [row for place, row in rows if row and place == panel]:
                with formatter.section(panel):
                    formatter.write_dl(within)


class CommandGroup(TextParams, TyperGroup):
    """A group whose help is written from the table, without importing its commands; `topics` order and head it."""

    group: ClassVar[str] = ""
    rows: ClassVar[Mapping[str, str]] = {}
    topics: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = CommandTable(self.group, self.rows, self.commands)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        listed = [name for names in self.topics.values() for name in names]
        return [*listed, *(name for name in self.commands if name not in listed)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for topic, names in (self.topics or {"Commands": self.list_commands(ctx)}).items():
            with formatter.section(topic):
                formatter.write_dl([(name, self._summary(name)) for name in names if name != DEFAULT])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            options: list[Any] = super(TyperGroup, self).shell_complete(ctx, incomplete)
            return options
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete) and name != DEFAULT]
        return [CompletionItem(name, help=self._summary(name)) for name in names]

    def _summary(self, name: str) -> str:
        return self.rows[name] if name in self.rows else str(self.commands[name].help)


# The name that a group's own command has: it is not listed.
DEFAULT = "list"


class DefaultCommandGroup(CommandGroup):
    """A group that is a command too, `gpucost prices H100` beside `gpucost prices history …`.

    Words that begin with no command's name go to the command called DEFAULT; the group's help shows that one's, too.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else None
        if ctx.resilient_parsing:
            args = [DEFAULT, *args] if args and first not in self.commands else args
        elif first not in self.commands:
            # behind a -- everything is a value
            options = args[: args.index("--")] if "--" in args else args
            wants_help = any(word in ctx.help_option_names for word in options)
            args = [ctx.help_option_names[0]] if wants_help else [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return [
            *super().shell_complete(ctx, incomplete),
            *self.commands[DEFAULT].shell_complete(ctx, incomplete),
        ]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, self.subcommand_metavar, prefix="       ")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.commands[DEFAULT].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


# The modules of commands and groups that lie in none of their name.
MODULES = {
    **dict.fromkeys(("init", "demo", "doctor", "config", "store", "schema", "sql"), "setup"),
    "report": "report",
    "policy_check": "policy",
    "chargeback": "bills",
    "whatif_plan": "whatif",
}
# What each group is for, and its commands, with their lines in its help.
GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "collect": (
        "Pull data from a source into the store.",
        {
            "prometheus": "Metrics of kube-state-metrics and dcgm-exporter.",
            "aws": "AWS billing exports: CUR, CUR 2.0, FOCUS.",
            "gcp": "Google Cloud's detailed usage cost export.",
            "azure": "Azure cost exports, or the Cost Management query API.",
            "focus": "FOCUS files of any provider, and OCI's cost reports.",
            "spot": "Spot price history of GPU instances.",
            "prices": "List prices of AWS, Google Cloud, Azure, OCI, RunPod and Vast.ai.",
            "slurm": "Jobs, nodes and accounts of Slurm.",
            "progress": "What workloads did: epochs, requests, tokens, units of your own.",
        },
    ),
    "config": ("The configuration in force.", {"show": "Every setting in force, and where it comes from."}),
    "store": (
        "The store: one DuckDB file.",
        {
            "info": "What the store holds, by source, period and size.",
            "check": "Read all of it, and hold it against what has to hold.",
            "log": "What was done to it: loads, seals, restatements.",
            "backup": "Write a copy of it, of one moment.",
            "compact": "Make the file small again; drop samples that are old enough.",
        },
    ),
    "lake": (
        "Raw data and figures as Parquet files: many clusters, years, Spark.",
        {
            "export": "Write what the store holds into a lake.",
            "attribute": "Price and attribute a lake, here or on Spark.",
            "info": "What a lake holds, by cluster and writer.",
        },
    ),
    "explain": ("Where a figure comes from.", {}),
    "unit": ("What an epoch, an experiment, a request or a token costs.", {}),
    "prices": ("What a GPU costs where, and how that is known.", {DEFAULT: ""}),
    "whatif": ("What a change would save.", {}),
    "notify": (
        "Send the summary of a report to Slack, by mail or to a webhook.",
        {
            "slack": "To Slack.",
            "webhook": "To a server that takes JSON, with the report itself.",
            "email": "By mail.",
        },
    ),
    "export": (
        "Files for Prometheus, Grafana and Kubernetes.",
        {
            "alerts": "Alerting rules for Prometheus.",
            "recording-rules": "Recording rules for Prometheus: GPUs by state, and their cost.",
            "dashboard": "A Grafana dashboard.",
            "openmetrics": "What teams cost, as metrics.",
            "cronjob": "A Kubernetes CronJob, and the claim for its store.",
            "chart": "A Helm chart: jobs that collect and charge, and what they need.",
        },
    ),
    "policy": ("Rules that the fleet should keep.", {"rules": "Print the rules, to start from."}),
    "chargeback": (
        "A month's bundle for finance and teams.",
        {DEFAULT: "", "verify": "Make a sealed month's figures again, or say what changed."},
    ),
    "budget": ("Budgets and targets of teams and of the fleet.", {}),
}
COMMANDS = {
    "init": "Write a commented gpucost.toml to start from.",
    "demo": "Try it out: two months of a sample fleet, metrics and bill.",
    "doctor": "Check the whole set-up, and say how to mend it.",
    "open": "The report as a page in your browser.",
    "sql": "Ask the store anything in SQL, read-only.",
    "mcp": "Read-only tools for agents (Model Context Protocol).",
    "schema": "The JSON Schema of an answer.",
}
TOPICS = {
    "Set up": ("init", "demo", "collect", "doctor", "config", "store", "lake"),
    "See": ("report", "open", "explain", "waste", "queue", "unit", "prices", "diff", "sql"),
    "Decide": ("findings", "whatif", "quote", "forecast"),
    "Share": ("chargeback", "notify", "export", "mcp", "schema"),
    "Check": ("reconcile", "budget", "policy", "anomalies"),
}


def _rows() -> dict[str, dict[str, str]]:
    """The commands of each group, and of none, with their lines in its help: with the questions of the registry."""
    top = dict.fromkeys((name for names in _topics().values() for name in names if name not in GROUPS), "")
    rows = {"": top | COMMANDS, **{group: dict(commands) for group, (_, commands) in GROUPS.items()}}
    for words, question in QUESTIONS.items():
        first, _, rest = words.partition(" ")
        group, name = (first, rest or DEFAULT) if first in GROUPS else ("", first)
        rows[group][name] = question.summary
    return rows


def _topics() -> dict[str, list[str]]:
    """The commands by what they are for; questions of the registry that are not named come last."""
    topics = {topic: list(names) for topic, names in TOPICS.items()}
    named = {name for names in TOPICS.values() for name in names}
    for words, question in QUESTIONS.items():
        if question.topic and words not in named:
            topics[question.topic].append(words)
    return topics


def _group(name: str, help: str, rows: Mapping[str, str], topics: Mapping[str, Sequence[str]]) -> typer.Typer:
    base = DefaultCommandGroup if DEFAULT in rows else CommandGroup
    return typer.Typer(
        help=help,
        cls=type(base.__name__, (base,), {"group": name, "rows": rows, "topics": topics}),
        no_args_is_help=True,
        # Plain help comes up in a third of the time that boxes take, and reads the same in a pipe.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpucost {__version__}")
        raise typer.Exit


_ROWS = _rows()
app = _group("", "What your GPUs cost, who used them, and what you could do about it.", _ROWS[""], _topics())
for _name, (_help, _) in GROUPS.items():
    app.add_typer(_group(_name, _help, _ROWS[_name], {}), name=_name)


@app.callback(
    epilog="Start with: gpucost demo. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a budget or target is missed, "
    "4 the period asked for is incomplete, 130 interrupted."
)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Config file, for any command.", show_default=False),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FILE", help="Store file, for any command.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show what each stage took.")] = False,
) -> None:
    """What your GPUs cost, who used them, and what you could do about it."""


def leaves(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that call it."""
    command = command or typer.main.get_command(app)
    if isinstance(command, CommandGroup):
        for name, inner in command.commands.items():
            yield from leaves(inner, words if name == DEFAULT else (*words, name))
    else:
        yield words, command
