"""The doctor's findings about the store, the names of clusters, and prices."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.config.load import load_config
from gpucost.config.model import Config, Prices, PrometheusSource
from gpucost.doctor import Status, check_clusters, check_prices, check_store
from gpucost.periods import to_ms
from gpucost.store.connection import Store
from tests.unit.test_cli_doctor import MAIN, NOW


@pytest.mark.usefixtures("own_migrations")
def test_state_of_the_store(tmp_path: Path) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb", prometheus=[MAIN])
    assert [check.fix for check in check_store(config, NOW)] == ["gpucost collect prometheus"]
    with Store(config.store).write() as con:
        end = to_ms(NOW - timedelta(hours=1))
        con.execute(
            "INSERT INTO loads VALUES (1, 1, 'prometheus', 'main', ?, ?, 1, 0, now()::TIMESTAMP)",
            [end - 3_600_000, end],
        )
    assert {check.status for check in check_store(config, NOW)} == {Status.ok}
    late = [check for check in check_store(config, NOW + timedelta(days=3)) if check.status is Status.warn]
    assert "3.0 days old" in late[0].found
    other = config.model_copy(update={"prometheus": [PrometheusSource(name="other")]})
    assert any(check.fix == "gpucost collect prometheus --source other" for check in check_store(other, NOW))
    config.store.write_bytes(config.store.read_bytes()[:-1])
    (cut,) = check_store(config, NOW)
    assert cut.status is Status.fail and "is damaged" in cut.found
    config.store.write_text("no database")
    assert [check.status for check in check_store(config, NOW)] == [Status.fail]


NAMED = """
clusters = [{ name = "prd", until = 2026-11-01 }, { name = "prod", until = 2026-11-01 }]
[coverage]
accept = [
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved" },
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved", cluster = "mian" },
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved", cluster = "main" },
]"""


def test_cluster_names_without_series_are_reported(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text(NAMED)
    config = load_config(tmp_path, environ={}, cwd=tmp_path)
    with Store(config.store).write():
        pass
    assert list(check_clusters(config)) == []
    with Store(config.store).write() as con:
        con.execute(
            "INSERT INTO series VALUES (0, 0, 'a', 'prod', 'up', map()), (1, 1, 'a', 'main', 'up', map())"
        )
        con.execute("INSERT INTO loads VALUES (1, 1, 'slurm', 'hpc', 0, 1, 1, 0, now()::TIMESTAMP)")
    assert [(check.status, check.subject, check.found) for check in check_clusters(config)] == [
        (Status.warn, "[[clusters]] name", "unknown cluster prd; known: hpc, main, prod"),
        (Status.warn, "[[coverage.accept]] cluster", "unknown cluster mian; known: hpc, main, prod"),
    ]


def test_broken_or_missing_price_book_fails(tmp_path: Path) -> None:
    book = tmp_path / "prices.csv"
    config = Config(store=tmp_path / "none.duckdb", prices=Prices(book=book))
    assert [check.status for check in check_prices(config, NOW)] == [Status.fail]
    book.write_text("instance_type,price_per_hour,currency\np4d.24xlarge,cheap,USD\n")
    assert str(book) in next(check_prices(config, NOW)).found
    book.write_text("instance_type,price_per_hour,currency\np4d.24xlarge,20,USD\n")
    assert [(check.status, check.found) for check in check_prices(config, NOW)] == [(Status.ok, "1 prices")]


# 200 and 30 days old; the first row is not the node's last price
PRICED = """
INSERT INTO node_prices SELECT node, hour, hour + 1, 1, source, as_of, NULL FROM (VALUES
    (1, 0, 'catalog',      '2025-06-20'::DATE),
    (1, 1, 'catalog',      '2026-10-02'),
    (2, 1, 'catalog',      '2026-04-15'),
    (3, 1, 'spot_history', '2026-10-02'),
    (4, 1, 'price_book',   NULL),
    (5, 1, 'bill',         '2026-04-15')) AS rows(node, hour, source, as_of)"""


def test_age_of_the_last_node_prices_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb")
    monkeypatch.setattr(pipeline, "attribute", lambda *_: None)
    with Store(config.store).write() as con:
        con.execute(PRICED)
    checks = {one.subject: f"{one.status.value}: {one.found}; {one.fix}" for one in check_prices(config, NOW)}
    old = "prices 2 nodes now, price dates 2026-04-15 to 2026-10-02, up to 200 days old"
    assert checks["catalog"] == f"warn: {old}; gpucost collect prices"
    assert checks["spot_history"] == "ok: prices 1 node now, price date 2026-10-02, up to 30 days old; None"
    assert checks["bill"].startswith("ok: ") and "price_book" not in checks
