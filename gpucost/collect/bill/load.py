"""Load billing exports: find files, detect formats, read, map, and replace earlier versions in the store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Literal

from gpucost import disk, engine
from gpucost.catalog import load_catalog
from gpucost.collect.base import SourceFinding
from gpucost.collect.bill import formats, manifest, opening
from gpucost.collect.bill.formats import Format
from gpucost.collect.bill.manifest import BillManifest
from gpucost.collect.bill.opening import Tree
from gpucost.errors import DataError, GpucostError
from gpucost.objects import Entry
from gpucost.records import frozen_dataclass
from gpucost.store import bill_files, bill_rules, charges, sqlfiles
from gpucost.store.bill_files import RawFile, Staged
from gpucost.store.charges import BillLoad, BillResult
from gpucost.store.connection import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement

# The mapped rows with optional columns, null by default: the columns of bill_rows, `format` if content does
# not distinguish formats, and `issuer` of invoices if it is not the provider.
_READ = """CREATE OR REPLACE TEMP VIEW charges_read AS
SELECT * REPLACE (
    CASE WHEN year(charge_period_start) BETWEEN 2000 AND 2100 THEN charge_period_start END AS charge_period_start,
    CASE WHEN year(charge_period_end) BETWEEN 2000 AND 2100 THEN charge_period_end END AS charge_period_end,
    CASE WHEN billing_period BETWEEN '2000-01' AND '2100-12' THEN billing_period END AS billing_period,
    -- Blanks and invisible marks do not make a different account.
    nullif(trim(billing_account_id, ' \t\xa0\u200b\u200c\u200d\u2060\ufeff'), '') AS billing_account_id,
    trim(sub_account_id, ' \t\xa0\u200b\u200c\u200d\u2060\ufeff') AS sub_account_id)
FROM (
    FROM (SELECT NULL::VARCHAR AS format, NULL::VARCHAR AS issuer, * EXCLUDE (bill_id) FROM bill_rows LIMIT 0)
    UNION ALL BY NAME
    FROM mapped)
-- Leave out rows without a cost and without a valid end.
WHERE coalesce(billed_cost <> 0 OR effective_cost <> 0 OR charge_period_start IS NULL, true)
    OR charge_period_end BETWEEN charge_period_start AND TIMESTAMP '2101-01-01'"""
# First step for every format: keep only the first of rows with the same row_digest, within a file or across
# files. Rows without a line item id have no digest and stay.
_REPEATED = """CREATE OR REPLACE TEMP TABLE repeated AS
SELECT source_file, file_row_number
FROM staged
WHERE getvariable('may_repeat')
  AND row_digest IN (SELECT row_digest FROM staged WHERE row_digest IS NOT NULL GROUP BY row_digest HAVING count(*) > 1)
QUALIFY row_number() OVER (
    PARTITION BY row_digest, CASE WHEN NOT getvariable('across_files') THEN source_file END
    ORDER BY source_file, file_row_number) > 1"""
_NOT_REPEATED = "CREATE OR REPLACE TEMP VIEW raw_rows AS FROM staged ANTI JOIN repeated USING (source_file, file_row_number)"
_HOLDERS = """FROM staged
SELECT DISTINCT focus_provider(service_provider_name, provider_name, publisher_name, invoice_issuer_name)"""
# Equal rows are mapped once: the mapping's views read only the first of them.
_FIRST_ROWS = """CREATE OR REPLACE TEMP VIEW raw AS
FROM raw_rows
SEMI JOIN (SELECT source_row - 1 AS file_row_number FROM first_rows) USING (file_row_number)"""
_ALL_ROWS = "CREATE OR REPLACE TEMP VIEW raw AS FROM raw_rows"
_IN_TWO_FILES = (
    "SELECT 1 FROM raw WHERE row_digest IS NOT NULL GROUP BY row_digest HAVING count(*) > 1 LIMIT 1"
)
_WITHOUT_ACCOUNT = (
    "SELECT file FROM bills_by_file GROUP BY file, provider HAVING min(account) = '' AND max(account) > ''"
)
_ACTUAL_ONLY = """FROM charges
WHERE format = 'azure-actual' AND commitment_discount_status = 'Used' AND cost_cause = 'zero_unexplained'
    AND list_contains($1, billing_period)
LIMIT 1"""
# Rows of the files that are left out.
_LEFT_OUT = """SELECT 'warning', 'left_out', source_file || ', row ' || min(source_row)
    || CASE WHEN count(*) > 1 THEN ' and ' || count(*) - 1 || ' more' ELSE '' END
    || ': left out, because it costs nothing and its end is before its start or cannot be read'
FROM mapped
ANTI JOIN incoming USING (source_file, source_row)
GROUP BY source_file
ORDER BY ALL"""
_HAS_LEFT_OUT = "SELECT (SELECT count(*) FROM raw) > (SELECT coalesce(sum(rows), 0) FROM first_rows)"
_UNNAMED = """SELECT 'note', 'without_account',
           source_file || ': rows without a billing account (' || unnamed || ') count for ' || account || ', the only one in it'
           FROM without_account
           ORDER BY ALL"""
_UNREAD = """SELECT source_file, source_row, charge_lack(c) AS what
FROM charges_read AS c
WHERE what IS NOT NULL
ORDER BY source_file, source_row
LIMIT 1"""


def stage(con: DuckDBPyConnection, form: Format, opened: RawFile, target: Path) -> Staged:
    """One file as text columns, named as in the format's SQL. Raises DataError."""
    if opened.kind == "json":
        raise DataError(
            f"{opened.name} is a single JSON document",
            "save it as JSON lines: one charge per line, each an object",
        )
    header = list(opened.header)
    columns, maps = formats.locate(form, header, opened.name)
    if opened.kind == "jsonl":
        # Lines omit null values, so a column can appear for the first time far down.
        header += [column for column, at in columns.items() if at is None]
        columns, maps = formats.locate(form, header, opened.name)
    has_line_items = bool(form.line_item) and columns[form.line_item[0]] is not None
    file = replace(
        opened,
        header=header,
        columns=columns,
        maps=maps,
        line_item=form.line_item if has_line_items else (),
        times=form.times,
        numbers=form.numbers.split(),
    )
    return bill_files.stage(con, file, target)


def write_rows(
    con: DuckDBPyConnection,
    form: Format,
    staged: Sequence[Staged],
    files: charges.BillFiles,
    *,
    across_files: bool = True,
) -> list[SourceFinding]:
    """Write the charges of staged files to the store open on `con`, each once; return the format's findings.

    A charge in two files counts twice unless `across_files`. Raises DataError, with file and row, if a
    required column of a charge is missing.
    """
    bill_files.staged_view(con, staged, form.columns, formats.MAPS)
    con.execute("SET VARIABLE across_files = $1", [across_files])
    may_repeat = any(file.repeats for file in staged) or (across_files and len(staged) > 1)
    con.execute("SET VARIABLE may_repeat = $1", [may_repeat])
    if form.catalog:
        load_catalog(con)
    with bill_files.values_in_words([file.name for file in staged]):
        for step in (_REPEATED, _NOT_REPEATED, _ALL_ROWS, formats.FOCUS_PROVIDER):
            con.execute(step)
        queries: list[Statement | str] = [_UNNAMED]
        for text in map(formats.sql_text, form.sql.split()):
            if engine.has_input(con, text, {}):
                statements = engine.parsed(con, text)
                if form.has_findings and text == formats.sql_text(form.sql.split()[-1]):
                    queries.append(statements.pop())
                for statement in statements:
                    con.execute(statement)
        con.execute(_READ)
        # First the varying columns; `first_rows` then lists the rows with all combinations of the others.
        sqlfiles.run(con, "incoming_lines")
        con.execute(_FIRST_ROWS)
        is_complete = charges.write_details(con, files)
        con.execute(_ALL_ROWS)
        if not is_complete:
            raise _unread(con, form)
        if without := con.execute(_WITHOUT_ACCOUNT).fetchone():
            raise DataError(
                f"{without[0]}: some rows have no billing account",
                "get the file again; none of it was loaded",
            )
        if con.execute(_HAS_LEFT_OUT).fetchall() == [(True,)]:
            queries.insert(0, _LEFT_OUT)
    # Reading the written rows is faster than mapping them again.
    con.execute("CREATE OR REPLACE TEMP VIEW charges_read AS FROM incoming")
    findings = [SourceFinding(*row) for query in queries for row in con.execute(query).fetchall()]
    ((repeated,),) = con.execute("SELECT count(*) FROM repeated").fetchall()
    return findings + repeated_rows(repeated, "of these files")


def _unread(con: DuckDBPyConnection, form: Format) -> DataError:
    ((file, row, what),) = con.execute(_UNREAD).fetchall()
    fix = (
        f"row 1 is the first row of data; the file was read as {form.title}; charges must begin in 2000 to 2100 and "
        "end later; none of it was loaded"
    )
    if what.startswith("the currency "):
        fix = 'export it, or set currency = "USD" (for example) in [bills] of gpucost.toml; none of the file was loaded'
    return DataError(f"{file}, row {row}: {what}", fix)


def repeated_rows(count: int, where: str) -> list[SourceFinding]:
    """The note about rows left out as repeats, if any; `where` is the place of the first ones."""
    rows = "1 row repeats a charge" if count == 1 else f"{count:,} rows repeat charges"
    message = f"{rows} {where}, equal in every column that is read: each charge counts once"
    return [SourceFinding("note", "repeated_rows", message)] if count else []


def write_loose(
    con: DuckDBPyConnection, form: Format, staged: Sequence[Staged], files: charges.BillFiles
) -> tuple[list[SourceFinding], dict[str, str]]:
    """As `write_rows`, for files without a manifest; leaves out superseded files and returns them."""
    findings = write_rows(con, form, staged, files, across_files=False)
    lost = bill_rules.superseded(con) if len(staged) > 1 else {}
    if lost or (len(staged) > 1 and con.execute(_IN_TWO_FILES).fetchall()):
        con.execute(charges.TAKE_BACK)
        findings = write_rows(con, form, [file for file in staged if file.name not in lost], files)
    return findings, lost


_EVERY_SECONDS = 0.2


@frozen_dataclass
class BillProgress:
    """Progress of a run: bytes of files read and in total, and the current step."""

    done: int
    total: int
    note: str


Progress = Callable[[BillProgress], None]


class Meter:
    """Report each step to `progress`, if there is one."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = 0
        self.total = 0

    def show_progress(self, note: str, part: int = 0) -> None:
        """Report the current step, and the bytes read of the current file."""
        if self._progress is not None:
            self._progress(BillProgress(self._done + part, self.total, note))

    def advance(self, size: int) -> None:
        """A file of `size` bytes is done."""
        self._done += size
        self.show_progress("")

    @contextmanager
    def reading(self, con: DuckDBPyConnection, name: str, size: int) -> Iterator[None]:
        """Report progress continuously while a file is read on `con`."""
        self.show_progress(f"reading {name}")
        if self._progress is None:
            yield
            return
        # DuckDB tracks progress only if its progress bar is enabled.
        con.execute("SET enable_progress_bar = true")
        con.execute("SET enable_progress_bar_print = false")
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_EVERY_SECONDS):
                if (percent := con.query_progress()) > 0:
                    self.show_progress(f"reading {name}", round(size * percent / 100))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


# Findings that need no export.
_NOTHING = {"not_loaded", "leftovers", "passed_over"}
# Maximum number of skipped files that are named.
_LISTED = 3


@dataclass(slots=True)
class BillRun:
    """The result of a run: one result per bill, findings, and failures (none of these was loaded)."""

    results: list[BillResult] = field(default_factory=list)
    findings: list[SourceFinding] = field(default_factory=list)
    errors: list[GpucostError] = field(default_factory=list)


def collect_bills(
    store: Store,
    trees: Sequence[Tree],
    provider: str | None,
    *,
    currency: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BillRun:
    """Load the exports below `trees`: exports of `provider`, or with None FOCUS files of any provider.

    Billing periods with a manifest are loaded one by one; loose files are loaded together, by format.
    Failures are listed in `errors`, and the run continues. `force` replaces bills that would otherwise stay.
    `currency` applies to rows without one; if it is missing, such rows fail.
    """
    with disk.temporary() as work, ExitStack() as opened:
        loading = _Loading(store, opened, work, provider, force, currency, Meter(progress))
        loading.all(trees)
    return loading.run


File = tuple[Tree, Entry]
_Delivery = tuple[Tree, BillManifest, list[File]]


@dataclass(slots=True)
class _Group:
    """Files of one format that are loaded together; `named` are the files named by the user."""

    kind: Format
    staged: list[Staged] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    has_archive: bool = False


@dataclass
class _Loading:
    store: Store
    opened: ExitStack
    work: Path
    provider: str | None
    force: bool
    currency: str | None
    meter: Meter
    run: BillRun = field(default_factory=BillRun)
    _serial: Iterator[int] = field(default_factory=count)
    # File stamps at the time of their digests, and the digests' stamps.
    _states: dict[File, object] = field(default_factory=dict)
    _stamps: dict[str, str] = field(default_factory=dict)
    _folders: set[Path] = field(default_factory=set)

    @cached_property
    def con(self) -> DuckDBPyConnection:
        """Folder for read files; files that are already loaded are not opened."""
        con = self.opened.enter_context(bill_files.workspace(self.work, *self._folders))
        sqlfiles.run(con, "bill_macros")
        return con

    @cached_property
    def _stamped(self) -> dict[str, str]:
        if self.force or not self.store.exists:
            return {}
        with self.store.read() as con:
            return dict(con.execute(charges.STAMPED).fetchall())

    def all(self, trees: Sequence[Tree]) -> None:
        """Load the exports in the trees: each manifest by itself, loose files together."""
        self._folders = {folder for tree in trees for folder in tree.folders()}
        sets: list[_Delivery] = []
        loose: list[File] = []
        for tree in trees:
            with self._caught():
                deliveries, rest = self._plan(tree)
                sets += deliveries
                loose += rest
        every = chain(loose, *(files for _, _, files in sets))
        self.meter.total = sum(entry.size for _, entry in every)
        for tree, delivery, files in sorted(sets, key=lambda item: (item[1].source, item[1].billing_period)):
            with self._caught(tree):
                self._whole(tree, delivery, files)
        self._loose(loose)
        if not self._has_actual_only():
            self.run.findings = [finding for finding in self.run.findings if finding.code != "actual_only"]
        if (
            not self.run.results
            and not self.run.errors
            and {finding.code for finding in self.run.findings} <= _NOTHING
        ):
            self._fail("no file was loaded: none is a billing export with charges for this command")

    def _has_actual_only(self) -> bool:
        """Whether machines under commitments still lack an amortized cost after the whole run."""
        if all(finding.code != "actual_only" for finding in self.run.findings):
            return False
        periods = [result.billing_period for result in self.run.results]
        with self.store.read() as con:
            return bool(con.execute(_ACTUAL_ONLY, [periods]).fetchall())

    @contextmanager
    def _caught(self, tree: Tree | None = None, left: int = 0) -> Iterator[None]:
        """Record failures in the block and continue; skip files of `tree` that this command does not take.

        A failure keeps `left` other files from being loaded.
        """
        try:
            yield
        except GpucostError as error:
            if tree is not None and isinstance(error, formats.NotThis):
                self._pass_over(tree, error)
            else:
                self.run.errors.append(error)
                self._leave(left)

    def _plan(self, tree: Tree) -> tuple[list[_Delivery], list[File]]:
        """Billing periods with manifests, and loose files."""
        entries = tree.entries()
        if over := tree.passed_over():
            what = "1 file was" if len(over) == 1 else f"{len(over):,} files were"
            some_names = ", ".join(over[:_LISTED]) + (" …" if len(over) > _LISTED else "")
            fix = "name a file directly to load it anyway"
            self._find("note", "passed_over", f"{tree.name}: {what} skipped by name: {some_names}", fix)
        manifests = tree.manifests()
        others = []
        for entry in entries:
            read, name = None, tree.label(entry)
            if entry.key.lower().endswith(".json") and "manifest" in entry.key.lower():
                self.meter.show_progress(f"reading {name}")
                read = manifest.parse(tree.fetch(entry, self.work).read_bytes(), entry, name)
            if read is None:
                others.append(entry)
            elif self.provider in (None, read.provider):
                manifests.append(read)
            else:
                what = f"{name} is the manifest of an export of {read.provider}"
                self._pass_over(tree, formats.NotThis(what, f"load it with gpucost collect {read.provider}"))
        by_key = {entry.key: entry for entry in others}
        if manifests and tree.is_file and not tree.manifests():
            # Only the manifest was named: its files are around it.
            by_key |= {entry.key: entry for entry in tree.around()}
        sets: list[_Delivery] = []
        named: set[str] = set()
        # An Azure manifest without any of its files is next to other exports: it does not apply to them.
        stray = {item.key for item in manifests if item.delivered and not any(manifest.located(item, by_key))}
        roots = {manifest.governed(item) for item in manifests if item.key not in stray}
        for chosen in manifest.choose(manifests):
            with self._caught():
                found = manifest.find(chosen, by_key, f"{tree.name}: {chosen.key}")
                sets.append((tree, chosen, [(tree, entry) for entry in found]))
                named |= {entry.key for entry in found}
        loose = [
            entry
            for entry in others
            if not any(root in ("", ".") or entry.key.startswith(f"{root}/") for root in roots)
        ]
        if left := len([entry for entry in others if entry not in loose and entry.key not in named]):
            self._find("note", "leftovers", f"{tree.name}: {left} files are in no manifest and do not count")
        if not sets and not loose and not self.run.errors:
            raise DataError(
                f"no billing export below {tree.name}, judging by file names",
                "files end in .csv, .parquet, .json, .gz or .zip; name a file directly to load it anyway",
            )
        return sets, [(tree, entry) for entry in loose]

    def _whole(self, tree: Tree, delivery: BillManifest, files: list[File]) -> None:
        digests = [self._content_digest(*file) for file in files]
        if not files:
            raise DataError(f"{tree.name}: {delivery.key} names no files", "get the manifest again")
        loaded = self._loaded_whole(delivery, digests)
        if loaded is not None:
            self._keep_stamps(loaded, digests)
            self._find(
                "note", "unchanged", f"{delivery.source} {delivery.billing_period}: already loaded, unchanged"
            )
            self.meter.advance(sum(entry.size for _, entry in files))
            return
        groups: dict[str, _Group] = {}
        for file in files:
            for kind, staged in self._read(*file):
                groups.setdefault(kind.name, _Group(kind, [], digests, files)).staged.append(staged)
            self.meter.advance(file[1].size)
        if len(groups) > 1:
            raise DataError(
                f"{tree.name}: files of one manifest have different formats: {', '.join(groups)}",
                "get the export again",
            )
        (group,) = groups.values()
        group.named = {tree.name} if tree.is_file else set()
        self._write(group, delivery.source)

    @contextmanager
    def _store(self, files: Sequence[File]) -> Iterator[DuckDBPyConnection]:
        """The store in a transaction, with the variables of the formats' SQL.

        Raises DataError if one of `files` that is read in place (Parquet) changed since its digest.
        """
        self.meter.show_progress("writing to the store")
        with self.store.write(self.work, *self._folders) as con:
            bill_files.bound(con)
            # Each thread fills its own row groups, at half the cost of keeping the files' order; source_row
            # records the order.
            con.execute("SET preserve_insertion_order = false")
            con.execute("SET VARIABLE currency = $1", [self.currency])
            sqlfiles.run(con, "bill_macros")
            yield con
            for tree, entry in files:
                if tree.state(entry) != self._states[tree, entry]:
                    what = f"{tree.label(entry)} changed while it was read"
                    raise DataError(
                        what, "run the command again when the file is complete; none of it was loaded"
                    )

    def _content_digest(self, tree: Tree, entry: Entry) -> str:
        """The digest of a file's content; the stored digest if the file on disk is unchanged since its load."""
        self._states[tree, entry] = tree.state(entry)
        stamp = tree.stamp(entry)
        if stamp is None:
            return tree.digest(entry)
        digest = self._stamped.get(stamp) or tree.digest(entry)
        self._stamps[digest] = stamp
        return digest

    def _stamps_of(self, digests: Iterable[str]) -> dict[str, str]:
        return {self._stamps[digest]: digest for digest in digests if digest in self._stamps}

    def _keep_stamps(self, digest: str, digests: Iterable[str]) -> None:
        """Stamps of loaded files that were too young then or were touched since."""
        new = {
            stamp: digest for stamp, digest in self._stamps_of(digests).items() if stamp not in self._stamped
        }
        if new:
            with self.store.write() as con:
                con.execute(charges.ADD_STAMPS, [list(new), list(new.values()), digest])

    def _loaded_whole(self, delivery: BillManifest, digests: Sequence[str]) -> str | None:
        """The digest of the load, if the store has exactly these files of a period, read by the current
        rules.
        """
        if self.force or not self.store.exists:
            return None
        with self.store.read() as con:
            period = [delivery.source, delivery.billing_period]
            loaded: str | None = sqlfiles.value(con, charges.LOADED_DIGEST, period)
        is_same = any(self._digest(kind, digests) == loaded for kind in formats.all_formats())
        return loaded if is_same else None

    def _loose(self, loose: list[File]) -> None:
        files: dict[str, File] = {}
        errors_before = len(self.run.errors)
        for tree, entry in loose:
            with self._caught():
                digest = self._content_digest(tree, entry)
                first_tree, first = files.setdefault(digest, (tree, entry))
                if (first_tree, first) != (tree, entry):
                    same = f"{tree.label(entry)} is the same as {first_tree.label(first)}: it counts once"
                    self._find("note", "same_file", same)
                    self.meter.advance(entry.size)
        loaded = self._loaded(files)
        groups: dict[str, _Group] = {}
        loaded_digests = set[str]().union(*(load.file_digests for _, load, _ in loaded))
        for digest in files:
            if digest not in loaded_digests:
                self._read_loose(digest, files[digest], groups)
        # New files are compared together with loaded ones.
        changed = [load.file_digests for kind, load, _ in loaded if kind.name in groups]
        changed_digests = set[str]().union(*changed)
        for digest in files:
            if digest in changed_digests:
                self._read_loose(digest, files[digest], groups)
        if any(not isinstance(error, formats.NotThis) for error in self.run.errors[errors_before:]):
            # A file of the batch is invalid: none of the batch is loaded.
            self._leave(sum(len(group.staged) for group in groups.values()))
            return
        for kind, load, results in loaded:
            if kind.name not in groups:
                self.run.results += results
                self._keep_stamps(load.digest, load.file_digests)
                self.meter.advance(sum(files[digest][1].size for digest in load.file_digests))
        for group in groups.values():
            with self._caught(left=len(group.staged) - 1):
                self._write(group)

    def _loaded(self, digests: Iterable[str]) -> list[tuple[Format, BillLoad, list[BillResult]]]:
        """The stored result of exactly these files, read by the current rules, as this command would load it."""
        if self.force or not self.store.exists:
            return []
        with self.store.read() as con:
            return [
                (kind, load, charges.unchanged(con, load.digest))
                for load in charges.loads(con, digests)
                for kind in formats.all_formats()
                if self._digest(kind, load.file_digests) == load.digest
                and (kind.command == "focus" if self.provider is None else load.providers == {self.provider})
            ]

    def _read_loose(self, digest: str, file: File, groups: dict[str, _Group]) -> None:
        tree, entry = file
        with self._caught(tree):
            read = self._read(tree, entry)
            for kind, staged in read:
                if not bill_files.has_rows(self.con, staged):
                    empty = f"{staged.name} has a header, but no charges"
                    self._pass_over(tree, formats.NotThis(empty, "export a month with charges"))
                    continue
                group = groups.setdefault(kind.name, _Group(kind))
                group.staged.append(staged)
                group.digests.append(digest)
                group.files.append(file)
                group.named |= {staged.name} if tree.is_file else set()
                group.has_archive |= len(read) > 1
        self.meter.advance(entry.size)

    def _leave(self, count: int) -> None:
        if count > 0:
            what = f"{count:,} files next to it were not loaded either"
            self._find("warning", "batch_left", what, "load them without it")

    def _pass_over(self, tree: Tree, error: formats.NotThis) -> None:
        """A file that this command does not take is an error if it was named, otherwise a note."""
        if tree.is_file:
            self.run.errors.append(error)
        else:
            self._find("warning", "not_loaded", f"{error.message}; not loaded", error.fix)

    def _write(self, group: _Group, source: str | None = None) -> None:
        """Replace a group in the store: the files of a manifest, of `source`, or loose ones."""
        kind, stamps = group.kind, self._stamps_of(group.digests)
        file_digests = None if source or group.has_archive else group.digests
        digest = self._digest(kind, group.digests)
        files = charges.BillFiles(kind.name, digest, source, file_digests, stamps)
        lost: dict[str, str] = {}
        with (
            self._store(group.files) as con,
            bill_files.values_in_words([file.name for file in group.staged]),
        ):
            if source:
                findings = write_rows(con, kind, group.staged, files)
            else:
                findings, lost = write_loose(con, kind, group.staged, files)
            held = charges.providers(con)
            if self.provider is not None and held - {self.provider}:
                raise DataError(
                    f"a {files.format} file contains charges of {', '.join(sorted(held))}",
                    "load files of any provider with gpucost collect focus",
                )
            results = charges.replace(con, files, force=self.force)
        for old, new in sorted(lost.items()):
            why = f"{old} does not count: {new} is a newer version of the same bill"
            if old in group.named:
                self._fail(why, "leave it out")
            else:
                self._find("note", "superseded", why)
        self._report_results(files, results, findings, is_named=bool(group.named))

    def _report_results(
        self,
        files: charges.BillFiles,
        results: list[BillResult],
        findings: Sequence[SourceFinding],
        *,
        is_named: bool,
    ) -> None:
        """Report the bills' outcomes. A bill left out is an error if its file was named, otherwise a note."""
        if not results:
            empty = f"{files.source or 'the ' + files.format + ' files'}: a header, but no charges"
            if is_named:
                self._fail(empty, "export a month with charges")
            else:
                self._find("warning", "not_loaded", f"{empty}; not loaded")
        self.run.results += results
        if any(result.loaded for result in results):
            self.run.findings += findings
        for result in results:
            bill = f"{result.source} {result.billing_period}"
            if result.verdict == "twice":
                fix = "--replace replaces the whole stored bill; load parts of an export with one command"
                self._fail(f"{bill} was not loaded: {'; '.join(result.twice)}", fix)
            elif result.twice and result.loaded:
                fix = "compare the days in both files; load parts of one export with one command"
                self._find("warning", "billed_twice", f"{bill}: {'; '.join(result.twice)}", fix)
            elif result.verdict in ("overlap", "restated"):
                why = f"{bill} was left out; the bill in the store stays: {charges.KEPT[result.verdict]}"
                fix = "give the whole month in one export; if this is it, --replace replaces the stored bill"
                self._fail(why, fix)
            elif is_named and not result.loaded and result.verdict != "unchanged":
                fix = "ignore this if it is right; otherwise load the bill with --replace"
                self._fail(f"{bill} was not loaded: {charges.KEPT[result.verdict]}", fix)
            where = f"already in the store with another part of {bill}"
            self.run.findings += repeated_rows(result.repeated, where)

    def _read(self, tree: Tree, entry: Entry) -> list[tuple[Format, Staged]]:
        """The files in a file or archive, as text columns; fetched files are kept only if read in place."""
        directory, name = self.work / f"files-{next(self._serial)}", tree.label(entry)
        directory.mkdir()
        files = []
        with self.meter.reading(self.con, name, entry.size):
            for file in opening.open_files(self.con, tree.fetch(entry, directory), name, directory):
                if file.has_marks:
                    marks = f"{file.name}: byte order marks inside the text were removed"
                    self._find("note", "byte_order_marks", marks)
                kind = formats.recognize(file.header, file.name)
                if (
                    kind.command != "focus"
                    if self.provider is None
                    else kind.provider not in ("", self.provider)
                ):
                    what = f"{file.name} is {kind.title}" + ("" if self.provider else ", not a FOCUS file")
                    raise formats.NotThis(what, f"load it with gpucost collect {kind.command}")
                staged = stage(self.con, kind, file, self.work / f"staged-{next(self._serial)}.parquet")
                if self.provider is not None and not kind.provider:
                    self._check_holders(kind, staged)
                files.append((kind, staged))
        if all(staged.raw is None for _, staged in files):
            rmtree(directory)
        return files

    def _check_holders(self, form: Format, staged: Staged) -> None:
        """A format used by several providers; the rows name theirs."""
        with bill_files.values_in_words([staged.name]):
            bill_files.staged_view(self.con, [staged], form.columns, formats.MAPS)
            self.con.execute(formats.FOCUS_PROVIDER)
            holders = {str(row[0]) for row in self.con.execute(_HOLDERS).fetchall()}
        if holders and self.provider not in holders:
            what = f"{staged.name} is {form.title} of {', '.join(sorted(holders))}"
            raise formats.NotThis(what, "load files of any provider with gpucost collect focus")

    def _digest(self, form: Format, digests: Iterable[str]) -> str:
        parts = [form.name, form.rules_digest, self.currency or "", *sorted(digests)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _find(
        self, level: Literal["warning", "note"], code: str, message: str, fix: str | None = None
    ) -> None:
        self.run.findings.append(SourceFinding(level, code, message, fix))

    def _fail(self, message: str, fix: str | None = None) -> None:
        self.run.errors.append(DataError(message, fix))
