"""`gpucost report`: the cost of GPUs by team or any other dimension."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.cli.asking import Ask, asking
from gpucost.cli.command import Call, FocusVersion
from gpucost.cli.output import to_stdout, waiting, write_output
from gpucost.disk import atomic_write
from gpucost.errors import UsageError
from gpucost.options import RARE, Option
from gpucost.questions import QUESTIONS
from gpucost.questions.report import incomplete, read_or_incomplete

if TYPE_CHECKING:
    from gpucost.questions.request import LabeledRequest, WorkloadRequest
    from gpucost.store.table_files import FileKind


@asking("report")
def report(
    call: Call,
    ask: Ask,
    focus_version: Annotated[
        FocusVersion, Option("FOCUS version of --format focus.", is_shown=True, panel=RARE)
    ] = "1.2",
    brief: Annotated[
        bool, Option("Markdown: print only the three-line summary, for a pull request comment.")
    ] = False,
    efficiency: Annotated[
        bool, Option("Show effective cost instead, as gpucost efficiency does (docs/efficiency.md).")
    ] = False,
) -> None:
    """Write the report, its summary, its effective cost, or the month's bill as a FOCUS file."""
    if brief and call.format != "markdown":
        raise UsageError("--brief needs --format markdown", "add --format markdown")
    if efficiency and call.format != "html":
        write_efficiency(call, is_brief=brief, **ask.keywords)
        return
    if call.format == "focus":
        write_focus(call, focus_version, **ask.keywords)
        return
    answer = ask()
    if efficiency and not ask.keywords["request"].settings.activity.profile:
        call.note(
            "note: the page has no effective cost, as profiling metrics are not collected: set [activity] profile = true"
        )
    if brief:
        from gpucost.render.markdown import brief as summary

        write_output(summary(answer), call.target)
        call.conclude(answer)
    else:
        call.answer(answer)


def write_efficiency(
    call: Call, request: LabeledRequest, *, is_brief: bool, top: int = 10, strict: bool = False, **others: Any
) -> None:
    """Write effective cost. Raises UsageError for other options of the report."""
    if is_brief or others or call.format == "focus":
        raise UsageError(
            "--efficiency takes no --by, --share-unallocated, --findings, --brief or --format focus",
            "leave out one of them; a page (--format html) has all but the last two",
        )
    query = request.query()
    answer = read_or_incomplete(
        request, query, lambda: QUESTIONS["efficiency"].function(request, top), strict=strict
    )
    if strict and (failure := incomplete(request, query)):
        answer = replace(answer, errors=(failure,), exit_code=failure.exit_code)
    call.answer(answer)


def write_focus(call: Call, version: str, request: WorkloadRequest, **options: Any) -> None:
    """Write a month's bill as a FOCUS file: CSV, or Parquet by the suffix of -o.

    Raises UsageError without a month, and with filters: the file's rows replace whole charges.
    """

    from gpucost.publish.focus import focus_file

    config, month, target = request.settings, request.month, call.target
    if month is None:
        raise UsageError(
            "--format focus needs one billing period", "add --month, for example --month 2026-10"
        )
    if request.scope_name or options.get("by") or options.get("share_unallocated"):
        raise UsageError(
            "--format focus takes no --team, --namespace, --cluster, --workload, --user, --label, --by or --share-unallocated: "
            "its rows replace whole charges",
            "filter the file by its columns x_gpucost_team, x_gpucost_namespace and x_gpucost_cluster",
        )
    kind: FileKind = "parquet" if target and target.suffix.lower() == ".parquet" else "csv"
    is_strict, query = bool(options.get("strict")), request.query()
    with atomic_write(target) as part:
        totals = read_or_incomplete(
            request,
            query,
            lambda: focus_file(config, request.store, month, version, kind, part),
            strict=is_strict,
        )
        if target is None:
            waiting.stop()
            with to_stdout(), part.open("rb") as content:
                shutil.copyfileobj(content, sys.stdout.buffer)
                sys.stdout.buffer.flush()
    billed = (
        "; ".join(f"{cost:,.2f} {currency} effective" for currency, cost in totals.effective_cost.items())
        or "no bill"
    )
    call.note(
        f"FOCUS {version} of {month}: {totals.charges:,} charges in {totals.billed_rows:,} rows, {billed}; "
        f"{totals.estimated_rows:,} rows of estimates, {totals.estimated_cost:,.2f} {config.currency}"
    )
    request.note_gaps()
    if is_strict and (failure := incomplete(request, query)):
        raise failure
