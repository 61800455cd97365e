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


@contextmanager
def serving(handle: Handler) -> Iterator[str]:
    """Serves on a free port of loopback; `handle(method, path, query, body)` answers (status, headers, JSON). Yields its URL."""

    class Server(Quiet):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, answer = handle(
                self.command, url.path, parse_qs(url.query), json.loads(body) if body else None
            )
            text = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in (
                {"Content-Type": "application/json", "Content-Length": str(len(text))} | headers
            ).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _serve  # noqa: N815

    with loopback.serving(Server) as url:
        yield url


class BigQuery:
    """A table of JSON texts by invoice month, behind jobs.insert, jobs.get, jobs.getQueryResults and tables.get.

    `refusals` are answered, one each, before anything else is; `jobs` are the configurations asked for.
    """

    def __init__(self, rows: dict[str, list[str]], *, page: int = 2, bytes_read: int = 3 << 30) -> None:
        self.rows = rows
        self.page = page
        self.bytes_read = bytes_read
        self.refusals: list[Answer] = []
        self.jobs: list[dict[str, Any]] = []
        self.fields = [
            "billing_account_id",
            "service",
            "sku",
            "usage_start_time",
            "usage_end_time",
            "cost",
            "credits",
        ]
        self.fields += ["invoice", "brand_new"]
        self.partitioning: dict[str, str] | None = {"type": "DAY"}

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if self.refusals:
            return self.refusals.pop(0)
        if "/tables/" in path:
            return 200, {}, self._table()
        if method == "POST" and path.endswith("/jobs"):
            return self._insert(body)
        found = re.search(r"/(?:queries|jobs)/([^/]+)$", path)
        if not found:
            return 404, {}, _error(404, "notFound", f"no {path}")
        job = self.jobs[int(found.group(1).rpartition("-")[2])]
        if "/jobs/" in path:
            return 200, {}, self._job(job)
        return 200, {}, self._results(job, query)

    def _table(self) -> dict[str, Any]:
        reference = {
            "projectId": "ml-proj",
            "datasetId": "billing",
            "tableId": "gcp_billing_export_resource_v1_X",
        }
        schema = {"fields": [{"name": name, "type": "STRING", "mode": "NULLABLE"} for name in self.fields]}
        rows = str(sum(map(len, self.rows.values())))
        table = {"kind": "bigquery#table", "tableReference": reference, "schema": schema, "numRows": rows}
        return table | ({"timePartitioning": self.partitioning} if self.partitioning else {})

    def _insert(self, body: Any) -> Answer:
        job = body["configuration"]
        if "maximumBytesBilled" in job["query"] and int(job["query"]["maximumBytesBilled"]) < self.bytes_read:
            return 400, {}, _error(400, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed")
        job["number"] = len(self.jobs)
        self.jobs.append(job)
        return 200, {}, self._job(job)

    def _job(self, job: dict[str, Any]) -> dict[str, Any]:
        reference = {"projectId": "ml-proj", "jobId": f"job-{job['number']}", "location": "US"}
        statistics = {
            "totalBytesProcessed": str(self.bytes_read),
            "query": {"totalBytesProcessed": str(self.bytes_read), "statementType": "SELECT"},
        }
        configuration = {key: value for key, value in job.items() if key != "number"}
        return {"kind": "bigquery#job", "jobReference": reference, "configuration": configuration, "status": {"state": "DONE"},
                "statistics": statistics}  # fmt: skip

    def _results(self, job: dict[str, Any], query: dict[str, list[str]]) -> dict[str, Any]:
        month = next(
            one["parameterValue"]["value"]
            for one in job["query"]["queryParameters"]
            if one["name"] == "month"
        )
        lines = self.rows.get(month, [])
        start = int(query.get("pageToken", ["0"])[0])
        most = int(query.get("maxResults", [str(self.page)])[0])
        end = min(start + min(most, self.page), len(lines))
        reference = {"projectId": "ml-proj", "jobId": f"job-{job['number']}", "location": "US"}
        answer: dict[str, Any] = {
            "kind": "bigquery#getQueryResultsResponse",
            "jobReference": reference,
            "jobComplete": True,
        }
        answer |= {"totalRows": str(len(lines)), "schema": {"fields": [{"name": "line", "type": "STRING"}]}}
        answer["rows"] = [{"f": [{"v": line}]} for line in lines[start:end]]
        return answer | ({"pageToken": str(end)} if end < len(lines) else {})


class CostManagement:
    """Rows behind the query API, in pages behind `nextLink`; `refusals` come first, `asked` are the bodies."""

    def __init__(self, pages: list[list[list[Any]]], columns: list[str]) -> None:
        self.pages = pages
        self.columns = columns
        self.refusals: list[Answer] = []
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        assert method == "POST" and path.endswith("/providers/Microsoft.CostManagement/query")
        self.asked.append((path, body))
        if self.refusals:
            return self.refusals.pop(0)
        page = int(query.get("$skiptoken", ["0"])[0])
        more = (
            f"{self.url}{path}?api-version=2025-03-01&$skiptoken={page + 1}"
            if page + 1 < len(self.pages)
            else None
        )
        properties = {
            "nextLink": more,
            "columns": [{"name": name, "type": "String"} for name in self.columns],
            "rows": self.pages[page],
        }
        return (
            200,
            {},
            {"id": "x", "name": "y", "type": "Microsoft.CostManagement/query", "properties": properties},
        )


def _error(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "error": {
            "code": code,
            "message": message,
            "errors": [{"reason": reason, "message": message, "domain": "global"}],
        }
    }


def throttled(seconds: str = "1") -> Answer:
    """What Google answers to too many requests."""
    return 429, {"Retry-After": seconds}, _error(429, "rateLimitExceeded", "Exceeded rate limits")


def expired() -> Answer:
    """What Google answers to a token of yesterday."""
    return 401, {}, _error(401, "authError", "Request had invalid authentication credentials.")
