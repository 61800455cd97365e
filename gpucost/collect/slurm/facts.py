"""Parse Slurm's facts other than jobs: nodes, reservations, node events, accounts and their shares."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpucost import inputs
from gpucost.collect.slurm.sacct import (
    Clock,
    Notes,
    SacctFormat,
    _moment,
    _number,
    clock_of,
    expand_nodes,
    numbers_in,
)
from gpucost.errors import DataError
from gpucost.inputs import JsonObject
from gpucost.records import frozen_dataclass

Table = dict[str, list[Any]]
# A table of the store, and its rows by column; the cluster is None if the text does not name it.
SlurmTable = tuple[str, Table]
Rows = Iterator[JsonObject]
Record = Mapping[str, str]


def read_facts(text: str, name: str, form: SacctFormat, notes: Notes, seen_ms: int) -> SlurmTable | None:
    """The facts of a text; None if it is of an unknown kind. Raises DataError if it cannot be read.

    Nodes of `scontrol show node -o` or --json, and of `sinfo --json`; GPUs of jobs of `scontrol show job -d`
    or --json; reservations of `scontrol show reservation -o` or --json; events, associations and shares of
    `sacctmgr show event`, `sacctmgr show assoc tree` and `sshare` with --parsable2 or --json.
    """
    reader = _Reader(name, clock_of(form, notes), seen_ms)
    start = text.lstrip()[:4096]
    try:
        if start.startswith("{"):
            answer = inputs.parse_json(text)
            for key, table, read in _ANSWERS:
                if key in answer:
                    entries = answer[key].get(key, []) if isinstance(answer[key], Mapping) else answer[key]
                    return table, _table(row for item in entries for row in read(reader, item))
            return None
        for mark, table, read in _LISTS:
            if start.startswith(mark):
                # one record per line, or per paragraph without --oneliner
                records = [record for record in re.split(rf"(?:^|\n){mark}", text) if record.strip()]
                return table, _table(row for record in records for row in read(reader, mark + record))
        first = start.partition("\n")[0]
        header = [column.strip() for column in first.rstrip("|").split("|")]
        for needed, table, read in _TABLES:
            if needed <= set(header):
                lines = [line.split("|") for line in text.splitlines()[1:] if line.strip()]
                return table, _table(read(reader, [dict(zip(header, line, strict=False)) for line in lines]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read: {error}") from None
    return None


def _table(rows: Rows) -> Table:
    table: Table = {}
    for row in rows:
        for column, value in ({"cluster": None} | row).items():
            table.setdefault(column, []).append(value)
    return table


def _fields(text: str) -> JsonObject:
    """The fields of 'NodeName=n1 Gres=gpu:2' by their JSON names, such as `node_name`."""
    found = re.findall(r"(\w+)=(\S*)", text)
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): value for name, value in found}


def _names(value: str | list[str] | None) -> list[str]:
    if isinstance(value, list):
        return value
    return [] if value in (None, "", "(null)", "N/A") else str(value).split(",")


@frozen_dataclass
class _Reader:
    """Rows of a text called `name`, observed at `seen_ms`."""

    name: str
    clock: Clock
    seen_ms: int

    def moment(self, value: Any) -> int | None:
        return self.clock(value) if isinstance(value, str) else _moment(value)

    def node(self, item: JsonObject) -> Rows:
        features = item.get("active_features") or item.get("available_features") or item.get("features")
        yield {
            "node": item.get("node_name") or item.get("name") or item["hostname"], "seen_ms": self.seen_ms,
            "gres": ",".join(_names(item.get("gres"))), "partitions": _names(item.get("partitions")),
            "features": _names(features), "instance_type": next(iter(_names(item.get("instance_type"))), None),
        }  # fmt: skip

    def devices(self, text: str) -> Rows:
        job = _fields(text)
        for nodes, gres in re.findall(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)", text):
            for node in expand_nodes(nodes, self.name):
                yield from _indices(int(job["job_id"]), self.clock(job["submit_time"]), node, gres)

    def json_devices(self, item: JsonObject) -> Rows:
        nodes = expand_nodes(item.get("nodes") or "")
        for node, gres in zip(nodes, item.get("gres_detail") or (), strict=False):
            yield from _indices(int(_number(item["job_id"]) or 0), _moment(item["submit_time"]), node, gres)

    def reservation(self, item: JsonObject) -> Rows:
        yield {
            "name": item.get("reservation_name") or item["name"],
            "from_ms": self.moment(item["start_time"]), "to_ms": self.moment(item["end_time"]),
            "nodes": expand_nodes(item.get("node_list") or item.get("nodes") or "", self.name),
            "flags": _names(item.get("flags")), "accounts": _names(item.get("accounts")),
        }  # fmt: skip

    def events(self, records: Iterable[Record]) -> Rows:
        for row in records:
            # Rows without a node give the cluster's size.
            if row.get("NodeName"):
                yield {
                    "cluster": row.get("Cluster") or None, "node": row["NodeName"], "from_ms": self.clock(row["TimeStart"]),
                    "to_ms": self.clock(row["TimeEnd"]), "state": row.get("State", ""), "reason": row.get("Reason") or None,
                }  # fmt: skip

    def accounts(self, records: Iterable[Record]) -> Rows:
        path: list[tuple[int, str]] = []
        for row in records:
            if row.get("User"):
                continue
            account = row["Account"].strip()
            depth = len(row["Account"]) - len(row["Account"].lstrip())
            path = [place for place in path if place[0] < depth]
            parent = row.get("ParentName") or row.get("Par Name") or (path[-1][1] if path else None)
            path.append((depth, account))
            yield {"cluster": row.get("Cluster") or None, "account": account, "parent": parent}

    def json_account(self, item: JsonObject) -> Rows:
        if not item.get("user"):
            parent = item.get("parent_account") or None
            yield {"cluster": item.get("cluster") or None, "account": item["account"], "parent": parent}

    def shares(self, records: Iterable[Record]) -> Rows:
        for row in records:
            yield {
                "cluster": row.get("Cluster") or None, "account": row["Account"].strip(), "user": row.get("User", "").strip(),
                "seen_ms": self.seen_ms,
                **{column: _figure(row.get(name, "").strip()) for column, name in _FIGURES.items()},
            }  # fmt: skip

    def json_share(self, item: JsonObject) -> Rows:
        is_user = "USER" in (item.get("type") or ())
        yield {
            "cluster": item.get("cluster") or None, "account": item["parent"] if is_user else item["name"],
            "user": item["name"] if is_user else "", "seen_ms": self.seen_ms,
            "norm_shares": _number(item.get("shares_normalized")), "raw_usage": _number(item.get("usage")),
            "effective_usage": _number(item.get("effective_usage")),
            "fair_share": _number((item.get("fairshare") or {}).get("factor")) if is_user else None,
        }  # fmt: skip


_FIGURES = {
    "norm_shares": "NormShares",
    "raw_usage": "RawUsage",
    "effective_usage": "EffectvUsage",
    "fair_share": "FairShare",
}


def _figure(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[0-9.]+(e[+-]?\d+)?", text) else None


def _indices(job_id: int, submit_ms: int | None, node: str, gres: str) -> Rows:
    """The number of GPUs of each type in 'gpu:a100:2(IDX:0-1),gpu:2(IDX:4,6)'."""
    for kind, entries in re.findall(r"\bgpu([^(,]*)\(IDX:([\d,-]+)\)", gres):
        names = [word for word in kind.split(":") if word and not word.isdigit()]
        gpus = [int(number) for number in numbers_in(entries)]
        yield {
            "job_id": job_id,
            "submit_ms": submit_ms,
            "node": node,
            "type": "".join(names[:1]),
            "gpus": gpus,
        }


_Read = Callable[[_Reader, Any], Rows]
_ANSWERS: tuple[tuple[str, str, _Read], ...] = (
    ("nodes", "slurm_nodes", _Reader.node),
    ("reservations", "slurm_reservations", _Reader.reservation),
    ("jobs", "slurm_devices", _Reader.json_devices),
    ("associations", "slurm_accounts", _Reader.json_account),
    ("shares", "slurm_shares", _Reader.json_share),
)
_LISTS: tuple[tuple[str, str, _Read], ...] = (
    ("JobId=", "slurm_devices", _Reader.devices),
    ("NodeName=", "slurm_nodes", lambda reader, text: reader.node(_fields(text))),
    ("ReservationName=", "slurm_reservations", lambda reader, text: reader.reservation(_fields(text))),
)
_TABLES: tuple[tuple[set[str], str, _Read], ...] = (
    ({"NodeName", "TimeStart", "TimeEnd"}, "slurm_events", _Reader.events),
    ({"Account", "User", "RawShares", "FairShare"}, "slurm_shares", _Reader.shares),
    ({"Account", "User"}, "slurm_accounts", _Reader.accounts),
)
