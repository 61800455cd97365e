"""Checks of what lies on this machine: the store, the price book, and what attribution found wanting."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from gpucost import pipeline
from gpucost.config import Config
from gpucost.doctor.check import Check, Status
from gpucost.errors import GpucostError
from gpucost.model import MS_PER_HOUR, from_ms, iso
from gpucost.store import Store, StoreInfo

# A daily collection is late after a day and a half.
STALE_AFTER = timedelta(hours=36)
COVERAGE_DAYS = 31
SHOWN_OF_A_KIND = 3
# Sources of prices that can be asked again -> the command that does.
REFRESHED = {"catalog": "gpucost collect prices", "spot_history": "gpucost collect spot"}


def check_store(config: Config, now: datetime) -> Iterator[Check]:
    """Does the store open, and is every server's data in it fresh?"""
    store = Store(config.store)
    if not store.exists:
        yield Check("store", str(store.path), Status.warn, "not there yet", "gpucost collect prometheus")
        return
    try:
        info = store.info()
    except GpucostError as error:
        yield Check("store", str(store.path), Status.fail, error.message, error.fix or "name another file with --store")
        return
    yield Check("store", str(store.path), Status.ok, f"opens; schema {info.schema_version}, {info.samples:,} activity samples")
    for server in config.prometheus:
        yield _freshness(server.source, info, now)


def _freshness(source: str, info: StoreInfo, now: datetime) -> Check:
    held = next((known for known in info.sources if known.source == source), None)
    if held is None:
        command = f"gpucost collect prometheus --source {shlex.quote(source)}"
        return Check("store", source, Status.warn, "nothing collected yet", command)
    period = f"holds {iso(held.start)} to {iso(held.end)}"
    if now - held.end > STALE_AFTER:
        days = (now - held.end) / timedelta(days=1)
        return Check("store", source, Status.warn, f"{period}, {days:.1f} days old", "gpucost collect prometheus, daily")
    return Check("store", source, Status.ok, period)


def check_prices(config: Config, now: datetime) -> Iterator[Check]:
    """Does the price book parse, has every node seen a price, and how old is it? Brings attribution up to date to tell."""
    from gpucost.price.book import read_book
    from gpucost.price.fx import rates

    if config.prices.book is None:
        yield Check("prices", "price book", Status.ok, "none; list prices of the catalog are used")
    else:
        try:
            rows = read_book(config.prices.book, config.currency, config.tz, rates(config))
            yield Check("prices", str(config.prices.book), Status.ok, f"{len(rows)} prices")
        except GpucostError as error:
            yield Check("prices", str(config.prices.book), Status.fail, error.message, error.fix or "correct the file")
            return
    store = Store(config.store)
    if store.exists:
        yield from _found_by_attribution(config, store, now)


def _found_by_attribution(config: Config, store: Store, now: datetime) -> Iterator[Check]:
    try:
        pipeline.attribute(config, store)
        with store.read() as con:
            nodes = con.execute("SELECT count(DISTINCT (cluster, node)) FROM nodes").fetchall()[0][0]
            ages = con.execute(_PRICE_AGES).fetchall()
            warnings = con.execute(
                "SELECT code, subject, message, fix, row_number() OVER (PARTITION BY code ORDER BY from_ms DESC, subject),"
                " count(*) OVER (PARTITION BY code) FROM warnings ORDER BY code, 5"
            ).fetchall()
    except GpucostError as error:
        yield Check("prices", "attribution", Status.fail, error.message, error.fix)
        return
    if not any(code == "unpriced_node" for code, *_ in warnings):
        yield Check("prices", "nodes", Status.ok, f"all {nodes} GPU nodes in the store have a price")
    yield from _price_ages(config, ages, now)
    for code, subject, message, fix, number, count in warnings:
        area = "prices" if code in ("unpriced_node", "stale_price") else "data"
        status = Status.fail if code == "unpriced_node" else Status.warn
        if number <= SHOWN_OF_A_KIND:
            more = f" (and {count - number} more)" if number == SHOWN_OF_A_KIND < count else ""
            look = f"gpucost sql \"from warnings where code = '{code}'\""
            yield Check(area, subject or code, status, message + more, fix or look)


# What the last price of each node comes from, and how old that is.
_PRICE_AGES = """
SELECT price_source, count(*), min(price_as_of), max(price_as_of)
FROM (FROM node_prices QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY to_ms DESC) = 1)
GROUP BY price_source ORDER BY ALL"""


def _price_ages(config: Config, ages: list[tuple[str, int, date | None, date | None]], now: datetime) -> Iterator[Check]:
    """For each source that nodes are priced from last: how many, and of which days its prices are."""
    today = now.astimezone(config.tz).date()
    for source, nodes, oldest, newest in ages:
        if oldest is None or newest is None:
            continue
        dates = f"of {oldest}" if oldest == newest else f"of {oldest} to {newest}"
        days = (today - oldest).days
        text = f"prices {nodes} node{'s' if nodes > 1 else ''} at present, {dates}: up to {days} days old"
        # the price book's owner dates it; a bill is as old as its month
        stale = source in REFRESHED and days > config.prices.stale_after_days
        yield Check("prices", source, Status.warn if stale else Status.ok, text, REFRESHED[source] if stale else None)


_COVERAGE = """
SELECT c.cluster, c.end_ms, coalesce(g.kind, ''), coalesce(count(g.kind), 0), coalesce(sum(g.to_ms - g.from_ms), 0),
    max(g.from_ms), arg_max(g.to_ms, g.from_ms), arg_max(g.families, g.from_ms), arg_max(g.reason, g.from_ms)
FROM (SELECT cluster, max(to_ms) AS end_ms, greatest(min(from_ms), end_ms - $1) AS since_ms FROM collected GROUP BY cluster) AS c
LEFT JOIN LATERAL (
    SELECT * REPLACE (greatest(from_ms, c.since_ms) AS from_ms, least(to_ms, c.end_ms) AS to_ms) FROM coverage_gaps
    WHERE cluster = c.cluster AND kind IN ('not_collected', 'partial') AND accepted_by IS NULL
) AS g ON g.from_ms < g.to_ms
GROUP BY ALL ORDER BY ALL"""


def check_coverage(config: Config) -> Iterator[Check]:
    """Until when each cluster is collected, and what of the month before that is missing. Attribution is up to date."""
    store = Store(config.store)
    if not store.exists:
        return
    try:
        with store.read() as con:
            rows = con.execute(_COVERAGE, [COVERAGE_DAYS * 24 * MS_PER_HOUR]).fetchall()
            known = [name for (name,) in con.execute("SELECT DISTINCT cluster FROM series ORDER BY ALL").fetchall()]
    except GpucostError:
        return  # said before
    for cluster, end_ms, kind, count, missing_ms, from_ms_, to_ms_, families, reason in rows:
        text = f"collected until {iso(from_ms(end_ms))}"
        if not count:
            yield Check("coverage", cluster, Status.ok, f"{text}, nothing missing in the {COVERAGE_DAYS} days before")
            continue
        start, end = iso(from_ms(from_ms_)), iso(from_ms(to_ms_))
        lacks = "from answers that were partial" if kind == "partial" else "missing"
        text += f"; {missing_ms / MS_PER_HOUR:.1f} h {lacks} in the {COVERAGE_DAYS} days before, in {count} gap(s)"
        text += f", the last {start} to {end} ({', '.join(families)}): {reason}"
        yield Check("coverage", cluster, Status.warn, text, f"gpucost collect prometheus --from {start} --to {end}")
    yield from _unknown_clusters(config, known)


def _unknown_clusters(config: Config, known: list[str]) -> Iterator[Check]:
    """Names in the settings that no series has, where there are series: what they declare or sign has no effect."""
    named = [("[[clusters]] name", cluster.name) for cluster in config.clusters]
    named += [("[[coverage.accept]] cluster", gap.cluster) for gap in config.coverage.accept if gap.cluster]
    for where, name in dict.fromkeys(named):
        if known and name not in known:
            text = f"no cluster is called {name}; known: {', '.join(known)}"
            yield Check("coverage", where, Status.warn, text, f"write a known name, or collect from the server that has {name}")
