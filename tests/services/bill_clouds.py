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

Answer = tuple[int, dict[str, str], Any]
Handler = Callable[[str, str, dict[str, list[str]], Any], Answer]
COLUMNS = [
    "billing_account_id",
    "service",
    "sku",
    "usage_start_time",
    "usage_end_time",
    "cost",
    "credits",
    "invoice",
    "brand_new",
]


@contextmanager
def serving(handle: Handler) -> Iterator[str]:
    """Serves on a free port of loopback; `handle(method, path, query, body)` answers (status, headers, JSON). Yields its URL."""

    class Server(Quiet):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            url, length = urlsplit(self.path), int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, headers, answer = handle(self.command, url.path, parse_qs(url.query), body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            own = {"Content-Type": "application/json", "Content-Length": str(len(text))}
            for name, value in (own | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _serve  # noqa: N815

    with loopback.serving(Server) as url:
        yield url


class BigQuery:
    """A table of JSON texts by invoice month, behind jobs.insert, jobs.get, jobs.getQueryResults and tables.get.

    `refusals` are answered, one each, before anything else is; `jobs` are the configurations asked for. Reading takes 3 GiB.
    """

    page, read = 2, 3 << 30

    def __init__(self, rows: dict[str, list[str]]) -> None:
        self.rows, self.fields = rows, COLUMNS
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
        rows = str(sum(map(len, self.rows.values())))
        place = {
            "projectId": "ml-proj",
            "datasetId": "billing",
            "tableId": "gcp_billing_export_resource_v1_X",
        }
        return {
            "tableReference": place,
            "schema": schema,
            "numRows": rows,
            "timePartitioning": self.partitioning,
        }

    def _job(self, number: int) -> dict[str, Any]:
        reference = {"projectId": "ml-proj", "jobId": f"job-{number}", "location": "US"}
        read = {"totalBytesProcessed": str(self.read), "query": {"totalBytesProcessed": str(self.read)}}
        return {
            "jobReference": reference,
            "configuration": self.jobs[number],
            "status": {"state": "DONE"},
            "statistics": read,
        }

    def _results(self, number: int, query: dict[str, list[str]]) -> dict[str, Any]:
        parameters = {
            one["name"]: one["parameterValue"]["value"]
            for one in self.jobs[number]["query"]["queryParameters"]
        }
        lines = self.rows.get(parameters["month"], [])
        start, most = (
            int(query.get(name, [other])[0]) for name, other in (("pageToken", "0"), ("maxResults", "9"))
        )
        end = start + min(most, self.page)
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
    told = {"reason": reason, "message": reason, "domain": "global"}
    return code, headers, {"error": {"code": code, "message": reason, "errors": [told]}}
