"""Reads what Slurm says besides jobs: nodes, reservations, what happened to nodes, accounts and their shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpucost import inputs
from gpucost.collect.slurm.sacct import Notes, SacctFormat, _Clock, _moment, _number, expand_nodes
from gpucost.errors import DataError

Table = dict[str, list[Any]]
# A table of the store, and its rows by column; the cluster stands there where the text names it, else None.
Facts = tuple[str, Table]


def read_facts(text: str, name: str, form: SacctFormat, notes: Notes, seen_ms: int) -> Facts | None:
    """What a text tells; None where it is not one of the kinds known. Raises DataError where it is one, and cannot be read.

    Nodes of `scontrol show node -o` or --json and `sinfo`, GPUs of jobs of `scontrol show job -d` or --json, reservations of
    `scontrol show reservation -o` or --json, events, associations and shares of `sacctmgr show event`, `sacctmgr show assoc tree`
    and `sshare` with --parsable2 or --json.
    """
    clock = _Clock(form.timezone, notes)
    start = text.lstrip()[:4096]
    try:
        if start.startswith("{"):
            answer = inputs.parse_json(text)
            for key, table, told in _ANSWERS:
                if key in answer:
                    listed = answer[key].get(key, []) if isinstance(answer[key], Mapping) else answer[key]
                    return table, _table(row for item in listed for row in told(item, seen_ms))
            return None
        if start.startswith("JobId="):
            return "slurm_devices", _table(
                row for record in _unfolded(text, "JobId=") for row in _devices(record, clock, name)
            )
        for mark, table, parsed in _LISTS:
            if start.startswith(mark):
                rows = (dict(re.findall(r"(\w+)=(\S*)", line)) for line in _unfolded(text, mark))
                return table, _table(parsed(row, clock, seen_ms, name) for row in rows)
        header = [column.strip() for column in start.partition("\n")[0].rstrip("|").split("|")]
        if {"NODELIST", "GRES"} <= set(re.split(r"[\s|]+", start.partition("\n")[0])):
            return "slurm_nodes", _table(_sinfo(text, name, seen_ms))
        for needed, table, told in _TABLES:
            if needed <= set(header):
                lines = [line.split("|") for line in text.splitlines()[1:] if line.strip()]
                records = [dict(zip(header, line, strict=False)) for line in lines]
                return table, _table(told(records, clock, seen_ms))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read: {error}") from None
    return None


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    table: Table = {}
    for row in rows:
        for column, value in row.items():
            table.setdefault(column, []).append(value)
    return table


def _unfolded(text: str, mark: str) -> list[str]:
    """A record a line: without --oneliner they are paragraphs."""
    return [mark + record for record in re.split(rf"(?:^|\n){re.escape(mark)}", text) if record.strip()]


def _names(text: str | None) -> list[str]:
    return [] if text in (None, "", "(null)", "N/A") else str(text).split(",")


def _node(row: Mapping[str, str], _clock: _Clock, seen_ms: int, _name: str) -> Mapping[str, Any]:
    features = _names(row.get("ActiveFeatures") or row.get("AvailableFeatures"))
    kind = next(iter(_names(row.get("InstanceType"))), None)
    return _described(
        row["NodeName"],
        seen_ms,
        ",".join(_names(row.get("Gres"))),
        _names(row.get("Partitions")),
        features,
        kind,
    )


def _json_node(item: Mapping[str, Any], seen_ms: int) -> Iterable[Mapping[str, Any]]:
    features = item.get("active_features") or item.get("features") or []
    listed = _names(features) if isinstance(features, str) else list(features)
    node, kind = item.get("name") or item["hostname"], item.get("instance_type") or None
    yield _described(node, seen_ms, item.get("gres") or "", list(item.get("partitions") or ()), listed, kind)


def _sinfo(text: str, name: str, seen_ms: int) -> Iterable[Mapping[str, Any]]:
    """A line for each partition of a node, or of several nodes that are alike."""
    lines = [line.split("|") if "|" in line else line.split() for line in text.splitlines() if line.strip()]
    header = [column.strip() for column in lines[0]]
    nodes: dict[str, tuple[str, list[str], list[str]]] = {}
    for line in lines[1:]:
        row = dict(zip(header, (value.strip() for value in line), strict=True))
        for node in expand_nodes(row["NODELIST"], name):
            features = _names(row.get("AVAIL_FEATURES") or row.get("ACTIVE_FEATURES"))
            _, partitions, _ = nodes.setdefault(node, (",".join(_names(row["GRES"])), [], features))
            partitions += [
                one for one in [row.get("PARTITION", "").rstrip("*")] if one and one not in partitions
            ]
    for node, (gres, partitions, features) in nodes.items():
        yield _described(node, seen_ms, gres, partitions, features, None)


def _devices(record: str, clock: _Clock, name: str) -> Iterable[Mapping[str, Any]]:
    told = dict(re.findall(r"(\w+)=(\S*)", record))
    for nodes, gres in re.findall(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)", record):
        for node in expand_nodes(nodes, name):
            yield from _indices(int(told["JobId"]), clock.ms(told["SubmitTime"]), node, gres)


def _json_devices(item: Mapping[str, Any], _seen_ms: int) -> Iterable[Mapping[str, Any]]:
    for node, gres in zip(expand_nodes(item.get("nodes") or ""), item.get("gres_detail") or (), strict=False):
        yield from _indices(int(_number(item["job_id"]) or 0), _moment(item["submit_time"]), node, gres)


def _indices(job_id: int, submit_ms: int | None, node: str, gres: str) -> Iterable[Mapping[str, Any]]:
    """Of 'gpu:a100:2(IDX:0-1),gpu:2(IDX:4,6)': the GPUs of each type."""
    for kind, listed in re.findall(r"\bgpu([^(,]*)\(IDX:([\d,-]+)\)", gres):
        names = [word for word in kind.split(":") if word and not word.isdigit()]
        spans = (span.partition("-") for span in listed.split(","))
        gpus = [gpu for first, _, last in spans for gpu in range(int(first), int(last or first) + 1)]
        yield {
            "cluster": None, "job_id": job_id, "submit_ms": submit_ms, "node": node, "type": "".join(names[:1]), "gpus": gpus,
        }  # fmt: skip


def _described(
    node: str, seen_ms: int, gres: str, partitions: list[str], features: list[str], instance_type: str | None
) -> Mapping[str, Any]:
    return {
        "cluster": None, "node": node, "seen_ms": seen_ms, "gres": gres, "partitions": partitions, "features": features,
        "instance_type": instance_type,
    }  # fmt: skip


def _reservation(row: Mapping[str, str], clock: _Clock, _seen_ms: int, name: str) -> Mapping[str, Any]:
    return {
        "cluster": None, "name": row["ReservationName"], "from_ms": clock.ms(row["StartTime"]), "to_ms": clock.ms(row["EndTime"]),
        "nodes": expand_nodes(row.get("Nodes", ""), name), "flags": _names(row.get("Flags")),
        "accounts": _names(row.get("Accounts")),
    }  # fmt: skip


def _json_reservation(item: Mapping[str, Any], _seen_ms: int) -> Iterable[Mapping[str, Any]]:
    yield {
        "cluster": None, "name": item["name"], "from_ms": _moment(item["start_time"]), "to_ms": _moment(item["end_time"]),
        "nodes": expand_nodes(item.get("node_list") or ""), "flags": list(item.get("flags") or ()),
        "accounts": _names(item.get("accounts")),
    }  # fmt: skip


def _events(
    records: Iterable[Mapping[str, str]], clock: _Clock, _seen_ms: int
) -> Iterable[Mapping[str, Any]]:
    for row in records:
        # those without a node tell of the cluster's size
        if row.get("NodeName"):
            yield {
                "cluster": row.get("Cluster") or None, "node": row["NodeName"], "from_ms": clock.ms(row["TimeStart"]),
                "to_ms": clock.ms(row["TimeEnd"]), "state": row.get("State", ""), "reason": row.get("Reason") or None,
            }  # fmt: skip


def _accounts(
    records: Iterable[Mapping[str, str]], _clock: _Clock, _seen_ms: int
) -> Iterable[Mapping[str, Any]]:
    path: list[tuple[int, str]] = []
    for row in records:
        if row.get("User"):
            continue
        account = row["Account"].strip()
        depth = len(row["Account"]) - len(row["Account"].lstrip())
        path = [(one, name) for one, name in path if one < depth]
        parent = row.get("ParentName") or row.get("Par Name") or (path[-1][1] if path else None)
        path.append((depth, account))
        yield {"cluster": row.get("Cluster") or None, "account": account, "parent": parent}


def _json_account(item: Mapping[str, Any], _seen_ms: int) -> Iterable[Mapping[str, Any]]:
    if not item.get("user"):
        parent = item.get("parent_account") or None
        yield {"cluster": item.get("cluster") or None, "account": item["account"], "parent": parent}


def _json_share(item: Mapping[str, Any], seen_ms: int) -> Iterable[Mapping[str, Any]]:
    is_user = "USER" in (item.get("type") or ())
    yield {
        "cluster": item.get("cluster") or None, "account": item["parent"] if is_user else item["name"],
        "user": item["name"] if is_user else "", "seen_ms": seen_ms, "norm_shares": _number(item.get("shares_normalized")),
        "raw_usage": _number(item.get("usage")), "effective_usage": _number(item.get("effective_usage")),
        "fair_share": _number((item.get("fairshare") or {}).get("factor")) if is_user else None,
    }  # fmt: skip


def _shares(
    records: Iterable[Mapping[str, str]], _clock: _Clock, seen_ms: int
) -> Iterable[Mapping[str, Any]]:
    def number(row: Mapping[str, str], name: str) -> float | None:
        text = row.get(name, "").strip()
        return float(text) if re.fullmatch(r"-?[0-9.]+(e[+-]?\d+)?", text) else None

    for row in records:
        yield {
            "cluster": row.get("Cluster") or None, "account": row["Account"].strip(), "user": row.get("User", "").strip(),
            "seen_ms": seen_ms,
            "norm_shares": number(row, "NormShares"), "raw_usage": number(row, "RawUsage"),
            "effective_usage": number(row, "EffectvUsage"), "fair_share": number(row, "FairShare"),
        }  # fmt: skip


_ANSWERS: tuple[tuple[str, str, Callable[[Mapping[str, Any], int], Iterable[Mapping[str, Any]]]], ...] = (
    ("nodes", "slurm_nodes", _json_node),
    ("reservations", "slurm_reservations", _json_reservation),
    ("jobs", "slurm_devices", _json_devices),
    ("associations", "slurm_accounts", _json_account),
    ("shares", "slurm_shares", _json_share),
)
_LISTS: tuple[tuple[str, str, Callable[..., Mapping[str, Any]]], ...] = (
    ("NodeName=", "slurm_nodes", _node),
    ("ReservationName=", "slurm_reservations", _reservation),
)
_TABLES: tuple[tuple[set[str], str, Callable[..., Iterable[Mapping[str, Any]]]], ...] = (
    ({"NodeName", "TimeStart", "TimeEnd"}, "slurm_events", _events),
    ({"Account", "User", "RawShares", "FairShare"}, "slurm_shares", _shares),
    ({"Account", "User"}, "slurm_accounts", _accounts),
)
