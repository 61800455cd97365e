"""Stand-ins on loopback that speak what the clouds' clients of billing exports hear: BigQuery's REST API, Azure's query API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests import loopback
from tests.loopback import Quiet
from tests.text_tables import words

Answer = tuple[int, dict[str, str], Any]
Handler = Callable[[str, str, dict[str, list[str]], Any], Answer]
COLUMNS = "billing_account_id service sku usage_start_time usage_end_time cost credits invoice brand_new"


@contextmanager
def serving(handle: Handler) -> Iterator[str]:
    """Serves on a free port of loopback; `handle(method, path, query, body)` answers (status, headers, JSON). Yields its URL."""

    class Server(Quiet):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            url, body = urlsplit(self.path), json.loads(self.received() or "null")
            status, headers, answer = handle(self.command, url.path, parse_qs(url.query), body)
            self.respond(status, answer, headers)

        do_GET = do_POST = _serve  # noqa: N815

    with loopback.serving(Server) as url:
        yield url


class BigQuery:
    """A table of JSON texts by invoice month, behind jobs.insert, jobs.get, jobs.getQueryResults and tables.get.

    `refusals` are answered, one each, before anything else is; `jobs` are the configurations asked for. Reading takes 3 GiB.
    """

    page, read = 2, 3 << 30

    def __init__(self, rows: dict[str, list[str]]) -> None:
        self.rows, self.fields = rows, COLUMNS.split()
        self.refusals: list[Answer] = []
        self.jobs: list[dict[str, Any]] = []
        self.partitioning = {"type": "DAY"}

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if self.refusals:
            return self.refusals.pop(0)
        if "/tables/" in path:
            return 200, {}, self._table()
        if method == "POST":
            job = body["configuration"]
            if int(job["query"].get("maximumBytesBilled", self.read)) < self.read:
                return error(400, "bytesBilledLimitExceeded")
            self.jobs.append(job)
            return 200, {}, self._job(len(self.jobs) - 1)
        number = int(path.rpartition("-")[2])
        if "/jobs/" in path:
            return 200, {}, self._job(number)
        return 200, {}, self._results(number, query)

    def _table(self) -> dict[str, Any]:
        schema = {"fields": [{"name": name, "type": "STRING", "mode": "NULLABLE"} for name in self.fields]}
        place = words("projectId=ml-proj datasetId=billing tableId=gcp_billing_export_resource_v1_X")
        table = {"tableReference": place, "schema": schema, "timePartitioning": self.partitioning}
        return {**table, "numRows": str(sum(map(len, self.rows.values())))}

    def _job(self, number: int) -> dict[str, Any]:
        reference = words(f"projectId=ml-proj jobId=job-{number} location=US")
        read = {"totalBytesProcessed": str(self.read)}
        job = {"jobReference": reference, "configuration": self.jobs[number], "status": {"state": "DONE"}}
        return {**job, "statistics": {**read, "query": read}}

    def _results(self, number: int, query: dict[str, list[str]]) -> dict[str, Any]:
        asked = self.jobs[number]["query"]["queryParameters"]
        parameters = {one["name"]: one["parameterValue"]["value"] for one in asked}
        lines = self.rows.get(parameters["month"], [])
        start, most = (int(query.get(name, ["0"])[0]) for name in ("pageToken", "maxResults"))
        end = start + min(most or 9, self.page)
        return self._job(number) | {
            "jobComplete": True, "totalRows": str(len(lines)), "schema": {"fields": [{"name": "line", "type": "STRING"}]},
            "rows": [{"f": [{"v": line}]} for line in lines[start:end]], "pageToken": str(end) if end < len(lines) else None,
        }  # fmt: skip


class CostManagement:
    """Rows behind the query API, in pages behind `nextLink`. `refusals` come first, unless None."""

    def __init__(self, pages: list[list[list[Any]]], columns: list[str]) -> None:
        self.pages = pages
        self.columns = columns
        self.refusals: list[Answer | None] = []
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        assert method == "POST" and re.search("/providers/Microsoft.CostManagement/query$", path)
        self.asked.append((path, body))
        if self.refusals and (refusal := self.refusals.pop(0)):
            return refusal
        page = int(query.get("$skiptoken", ["0"])[0])
        more = f"{self.url}{path}?api-version=2025-03-01&$skiptoken={page + 1}"
        columns = [{"name": name, "type": "String"} for name in self.columns]
        link = more if page + 1 < len(self.pages) else None
        return 200, {}, {"properties": {"nextLink": link, "columns": columns, "rows": self.pages[page]}}


def error(code: int, reason: str, **headers: str) -> Answer:
    """What Google answers where it refuses."""
    told = words(f"reason={reason} message={reason} domain=global")
    return code, headers, {"error": {"code": code, "message": reason, "errors": [told]}}
