"""Which setting wins, where relative paths lie, and that every wrong key is named with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import texts
from gpucost.cli.app import app
from gpucost.cli.open import _private_page
from gpucost.config.files import places
from gpucost.config.load import PATH_KEYS, all_keys, line_numbers, load_config, resolved, section_of
from gpucost.config.model import Config, shown_url
from gpucost.errors import ConfigError

Environ = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def load(home: Path, text: str | None = None, environ: Environ | None = None, **options: Any) -> Config:
    if text is not None:
        (home / "work" / "gpucost.toml").write_text(text)
    return load_config(environ={"HOME": str(home / "home"), **(environ or {})}, cwd=home / "work", **options)


def refused(home: Path, text: str, environ: Environ | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(home, text, environ)
    assert caught.value.fix
    return caught.value.message


def test_defaults_without_a_file(home: Path) -> None:
    config = load(home)
    assert config.path is None
    assert config.store == home / "work" / "gpucost.duckdb"
    assert [server.url for server in config.prometheus] == ["http://127.0.0.1:9090"]


def test_order_is_option_variable_file_user_file(home: Path) -> None:
    user = home / "home" / ".config" / "gpucost"
    user.mkdir(parents=True)
    (user / "gpucost.toml").write_text('timezone = "Asia/Tokyo"\nstore = "a.duckdb"')
    assert load(home).timezone == "Asia/Tokyo"
    assert load(home).store == user / "a.duckdb"
    file = 'timezone = "Europe/Berlin"\nstore = "b.duckdb"'
    assert load(home, file).timezone == "Europe/Berlin"
    environ = {"GPUCOST_TIMEZONE": "America/New_York", "GPUCOST_STORE": "c.duckdb"}
    assert load(home, file, environ).timezone == "America/New_York"
    assert load(home, file, environ).store == home / "work" / "c.duckdb"
    assert load(home, file, environ, store=Path("d.duckdb")).store == home / "work" / "d.duckdb"


def test_a_file_is_found_by_xdg_config_home_an_option_or_a_variable(home: Path) -> None:
    (home / "xdg" / "gpucost").mkdir(parents=True)
    (home / "xdg" / "gpucost" / "gpucost.toml").write_text('currency = "EUR"')
    assert load(home, environ={"XDG_CONFIG_HOME": str(home / "xdg")}).currency == "EUR"
    (home / "one.toml").write_text('currency = "EUR"')
    (home / "two.toml").write_text('currency = "GBP"')
    environ = {"GPUCOST_CONFIG": str(home / "one.toml")}
    assert load(home, environ=environ).currency == "EUR"
    assert load(home, environ=environ, path=home / "two.toml").currency == "GBP"


@pytest.mark.parametrize("by_option", [True, False])
def test_a_named_file_that_is_missing_says_where_it_was_looked_for(home: Path, by_option: bool) -> None:
    named: dict[str, Any] = (
        {"path": Path("none.toml")} if by_option else {"environ": {"GPUCOST_CONFIG": "none.toml"}}
    )
    with pytest.raises(ConfigError) as caught:
        load(home, **named)
    assert str(home / "work" / "none.toml") in caught.value.message
    assert ("--config" if by_option else "GPUCOST_CONFIG") in caught.value.message


def test_nested_variables(home: Path) -> None:
    environ = {
        "GPUCOST_PROMETHEUS__URL": "https://prometheus.example.com/",
        "GPUCOST_PROMETHEUS__TLS__CA_FILE": "ca.pem",
        "GPUCOST_IDLE__THRESHOLD_PERCENT": "7.5",
        "GPUCOST_TEAMS": '[{"name": "research", "namespaces": ["ml-*"]}]',
    }
    config = load(home, '[prometheus]\nurl = "http://other"\ntenant = "a"', environ)
    assert config.prometheus[0].url == "https://prometheus.example.com"
    assert config.prometheus[0].tenant == "a"
    assert config.prometheus[0].tls.ca_file == home / "work" / "ca.pem"
    assert config.idle.threshold_percent == 7.5
    assert config.teams[0].namespaces == ["ml-*"]


def test_variables_of_others_and_empty_ones_count_as_unset(home: Path) -> None:
    assert (
        load(home, environ={"GPUCOST_PORT": "tcp://10.0.0.1:80", "GPUCOST_SERVICE_HOST": "10.0.0.1"}).currency
        == "USD"
    )
    environ = {"GPUCOST_STORE": "", "GPUCOST_TIMEZONE": "", "GPUCOST_PROMETHEUS__URL": ""}
    assert load(home, 'timezone = "Asia/Tokyo"', environ) == load(home, 'timezone = "Asia/Tokyo"')


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GPUCOST_STOER": "x"}, "GPUCOST_STOER"),
        ({"GPUCOST_IDLE__TRESHOLD_PERCENT": "5"}, "did you mean idle.threshold_percent?"),
        ({"GPUCOST_IDLE__THRESHOLD_PERCENT": "many"}, "variable GPUCOST_IDLE__THRESHOLD_PERCENT"),
        ({"GPUCOST_TEAMS": "[nonsense"}, "GPUCOST_TEAMS is not valid JSON"),
        ({"GPUCOST_IDLE": "x"}, "should be a table"),
        ({"GPUCOST_TIMEZONE__NAME": "UTC"}, "GPUCOST_TIMEZONE__NAME"),
    ],
)
def test_wrong_variables_are_named(home: Path, environ: Environ, expected: str) -> None:
    assert expected in refused(home, 'timezone = "UTC"', environ)


_UNIT = '[[units]]\nname = "a"\nunit = "request"\nmetric = "a"\n'


_BILL = "was removed; load the seller's bill: gpucost collect focus FILE"
_COUNT = "was removed; count tokens at the server that makes them, and load the seller's bill for bought ones"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[engine]\nworkers = 2", "engine.workers (gpucost.toml:2): was removed; delete it, or set engine.name"),
        ('[price_lists]\nlitellm = "map.json"', "price_lists.litellm (gpucost.toml:2): was removed; use the list"),
        ('[[call_logs]]\nname = "mine"', _BILL), ("[gateway]\nown = []", _BILL), (f'{_UNIT}gateway = "b"', _COUNT),
        (f'{_UNIT}team_label = "b"', "was removed; use tenant_label"), (f'{_UNIT}provider_label = "b"', _BILL),
        (f'{_UNIT}base_label = "b"', _BILL), (f'{_UNIT}currency = "EUR"', _BILL),
    ],
)  # fmt: skip
def test_removed_key_names_its_replacement(home: Path, text: str, words: str) -> None:
    assert words in refused(home, text).replace(f"{home / 'work'}/", "")


def test_variable_for_a_removed_table_names_its_replacement(home: Path) -> None:
    with pytest.raises(
        ConfigError, match="variable GPUCOST_GATEWAY__OWN is for a setting that was removed"
    ) as caught:
        load(home, environ={"GPUCOST_GATEWAY__OWN": '["llama"]'})
    assert caught.value.fix == "load the seller's bill: gpucost collect focus FILE"


def test_relative_paths_lie_beside_the_file(home: Path) -> None:
    (home / "etc").mkdir()
    (home / "etc" / "gpucost.toml").write_text(
        '[prices]\nbook = "prices.csv"\n[prometheus]\nbearer_token_file = "~/token"'
    )
    config = load(home, path=home / "etc")
    assert config.prices.book == home / "etc" / "prices.csv"
    assert config.store == home / "etc" / "gpucost.duckdb"
    assert config.prometheus[0].bearer_token_file == Path("~/token").expanduser()
    by_variable = load(home, path=home / "etc", environ={"GPUCOST_PRICES__BOOK": "here.csv"})
    assert by_variable.prices.book == home / "work" / "here.csv"


def test_every_path_of_the_model_is_resolved_and_nested_keys_and_lines_are_known() -> None:
    def paths(section: Any) -> Iterator[str]:
        for name, info in section.model_fields.items():
            if inner := section_of(info.annotation):
                yield from paths(inner)
            elif "Path" in str(info.annotation):
                yield name

    assert set(paths(Config)) == PATH_KEYS
    assert {"store.path", "prometheus.url", "prometheus.tls.ca_file", "teams.namespaces"} <= set(
        all_keys(Config)
    )
    text = '# comment\na = 1\n[b.c]\n"d e".f = 2\n[[g]]\nh = 1\n[[g]]\n[g.i]\nj = 2  # x\n'
    tomllib.loads(text)
    assert line_numbers(text) == {
        ("a",): 2, ("b", "c"): 3, ("b", "c", "d e", "f"): 4, ("g", 0): 5, ("g", 0, "h"): 6, ("g", 1): 7, ("g", 1, "i"): 8,
        ("g", 1, "i", "j"): 9,
    }  # fmt: skip


def test_one_server_several_or_none_and_variables_that_mean_one(home: Path) -> None:
    assert [s.source for s in load(home, '[prometheus]\nurl = "http://a"').prometheus] == ["http://a"]
    several = load(
        home, '[[prometheus]]\nurl = "http://a"\nname = "a"\n[[prometheus]]\nurl = "http://b"\ncluster = "b"'
    )
    assert [(s.source, s.cluster) for s in several.prometheus] == [("a", None), ("http://b", "b")]
    assert load(home, "prometheus = []").prometheus == []
    by_variable = load(home, "prometheus = []", {"GPUCOST_PROMETHEUS__URL": "http://a"})
    assert [server.url for server in by_variable.prometheus] == ["http://a"]
    file = '[[prometheus]]\nurl = "http://a"\n[[prometheus]]\nurl = "http://b"'
    assert "several [[prometheus]]" in refused(home, file, {"GPUCOST_PROMETHEUS__URL": "http://c"})


def test_all_wrong_keys_are_listed_with_their_lines(home: Path) -> None:
    servers = '[[prometheus]]\nurl = "http://a"\n[prometheus.basic_auth]\nusername = "me"\n'
    servers += '[[prometheus]]\nurl = "ftp://b"\ntls.ca_fil = "x"\n'
    message = refused(home, 'stor = "x"\ntimezone = "Mars/Base"\n[idle]\nthreshold_percent = 500\n' + servers)
    where = home / "work" / "gpucost.toml"
    assert message.splitlines()[1:] == [
        f"  stor ({where}:1): no such key; did you mean store?",
        f"  timezone ({where}:2): should be an IANA time zone name such as Europe/Berlin, got 'Mars/Base'",
        f"  idle.threshold_percent ({where}:4): should be less than or equal to 100, got 500",
        f"  prometheus[0].basic_auth ({where}:7): needs one of password_file and password_env",
        f"  prometheus[1].url ({where}:10): should begin with http:// or https://",
        f"  prometheus[1].tls.ca_fil ({where}:11): no such key; did you mean prometheus[1].tls.ca_file?",
    ]


@pytest.mark.parametrize("environ", [{}, {"GPUCOST_PRICES__COST_BASIS": "residual"}])
def test_removed_value_names_its_replacement(home: Path, environ: Environ) -> None:
    message = refused(home, "" if environ else '[prices]\ncost_basis = "residual"', environ)
    place = "variable GPUCOST_PRICES__COST_BASIS" if environ else f"{home / 'work' / 'gpucost.toml'}:2"
    assert f"prices.cost_basis ({place}): the value 'residual' was removed; use \"sku\"" in message


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ('[prometheus]\nbearer_token = "hunter2"', "bearer_token_file or bearer_token_env"),
        (
            '[prometheus.basic_auth]\nusername = "me"\npassword = "hunter2"\npassword_env = "P"',
            "password_file or password_env",
        ),
        ('[prometheus]\nheaders = { Authorization = "hunter2" }', "headers_env"),
        ('[prometheus]\nheaders = { X-Api-Key = "hunter2" }', "headers_env"),
        ('[prometheus]\nurl = "http://me:hunter2@host"', "[prometheus.basic_auth]"),
        ('[prometheus]\nurl = "http://host?token=hunter2"', "without ?"),
    ],
)
def test_secrets_in_the_file_are_refused_and_not_shown(home: Path, file: str, hint: str) -> None:
    message = refused(home, file)
    assert hint in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("timezone = Berlin", "not valid TOML"),
        ('path = "x"', "no such key"),
        ("[prometheus]\nthreshold_percent = 5", "did you mean idle.threshold_percent?"),
        (
            '[[prometheus]]\nurl = "http://a"\n[[prometheus]]\nurl = "http://a/"',
            "two servers are called http://a",
        ),
        ('[prometheus]\nbearer_token_env = "A"\nbearer_token_file = "b"', "one is enough"),
        ('[prometheus.tls]\nkey_file = "k"', "needs cert_file"),
        ('[[teams]]\nname = "a"', "needs namespaces, labels, cost_categories or api"),
        ('[[units]]\nname = "file"\nunit = "epoch"\nmetric = "epoch"', "take another name"),
        ('[[units]]\nname = "a"\nunit = "epoch"', "needs one of metric and query"),
        ('[[units]]\nname = "a"\nunit = "request"\nmetric = "m"\nkind = "gauge"', "is for epochs"),
        ('currency = "dollars"', "currency"),
        ('[bills]\ncurrency = "euro"', "bills.currency"),
        ("idle = 5", "should be a table"),
        ('timezone = "../etc/passwd"', "IANA"),
    ],
)
def test_refused_files(home: Path, file: str, expected: str) -> None:
    assert expected in refused(home, file)


_CLUSTER = '[[clusters]]\nname = "a"\n'
_SIGNED = '[[coverage.accept]]\nwho = "Dana"\nwhy = "moved"\n'
_HOURS = "'7-19' should look like 07:00-21:00 or Mon-Fri 07:00-21:00"
_MOMENT = "should look like 2026-10-03 or 2026-10-03T06:00"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            _CLUSTER + "from = 2026-12-01\nuntil = 2026-09-01",
            "clusters[0].until (FILE:4): should lie after from",
        ),
        (
            _CLUSTER + "from = 2026-09-01\nuntil = 2026-09-01T00:00:00",
            "clusters[0].until (FILE:4): should lie after from",
        ),
        (
            _SIGNED + "from = 2026-09-01T02:00:00Z\nto = 2026-09-01",
            "coverage.accept[0].to (FILE:5): should lie after from",
        ),
        (
            _SIGNED + 'from = "never"\nto = 2026-09-01',
            f"coverage.accept[0].from (FILE:4): {_MOMENT}, got 'never'",
        ),
        (_CLUSTER + "until = 07:00:00", f"clusters[0].until (FILE:3): {_MOMENT}"),
        (
            _CLUSTER + "to = 2026-09-01",
            "clusters[0].to (FILE:3): no such key; did you mean clusters[0].until?",
        ),
        (
            _CLUSTER + "start = 2026-09-01",
            "clusters[0].start (FILE:3): no such key; did you mean clusters[0].from?",
        ),
        (_CLUSTER + 'hours = "7-19"', f"clusters[0].hours (FILE:3): {_HOURS}"),
        (
            _CLUSTER + 'hours = ["24:00-07:00"]',
            "clusters[0].hours (FILE:3): '24:00-07:00' begins at 24:00: that is 00:00 of the next day",
        ),
        (
            _CLUSTER + 'hours = ["Sat 07:00-07:00"]',
            "clusters[0].hours (FILE:3): 'Sat 07:00-07:00' ends when it begins: a whole day is 00:00-24:00",
        ),
        ('[clusters]\nname = "a"\nuntil = 2026-09-01', "clusters (FILE:1): write [[clusters]]"),
        ("[coverage.accept]\nto = 2026-09-01", "coverage.accept (FILE:1): write [[coverage.accept]]"),
        (
            '[[hosts]]\nname = "a"\ninstance = "b"',
            "hosts[0].instance (FILE:3): no such key; did you mean hosts[0].instance_type?",
        ),
        (
            '[[hosts]]\nname = "a"\ncapacity_type = "preemptible"',
            "hosts[0].capacity_type (FILE:3): should be 'on_demand', 'spot', 'reserved', 'capacity_block' or 'flex_start', "
            "got 'preemptible'",
        ),
        (
            '[[hosts]]\ngpus = 0\nname = "a"',
            "hosts[0].gpus (FILE:2): should be greater than or equal to 1, got 0",
        ),
        ('[[hosts]]\nuser_label = "user"', "hosts[0].name (FILE:1): is missing"),
        (
            '[coverage]\nmax_bridge = "1d"',
            "coverage.max_bridge (FILE:2): should look like 90m or 2h, got '1d'",
        ),
        (
            '[coverage]\nmax_bridge = "9m"',
            "coverage.max_bridge (FILE:2): should lie between 10m and 24h, got '9m'",
        ),
        (
            '[coverage]\nmax_bridge = "25h"',
            "coverage.max_bridge (FILE:2): should lie between 10m and 24h, got '25h'",
        ),
    ],
)
def test_each_wrong_word_on_coverage_is_one_line(home: Path, file: str, expected: str) -> None:
    assert refused(home, file).splitlines()[1:] == [
        "  " + expected.replace("FILE", str(home / "work" / "gpucost.toml"))
    ]


def test_coverage_that_is_right_and_the_line_of_tables_on_one(home: Path) -> None:
    file = '[coverage]\nmax_bridge = "1440m"\n' + _SIGNED + 'from = "2026-09-01"\nto = 2026-09-01T00:00:01Z\n'
    config = load(
        home, file + _CLUSTER + 'until = 2026-09-01\nhours = ["Mon-Fri 00:00-24:00", "Sat 20:00-06:00"]'
    )
    assert config.coverage.max_bridge_ms == 24 * 3_600_000
    assert [(start.hour, end.hour) for _, start, end in config.clusters[0].weekly()] == [(0, 0), (20, 6)]
    rows = {key: (value, origin) for key, value, origin in resolved(config)}
    where = home / "work" / "gpucost.toml"
    assert rows["coverage.accept[0].from"] == ('"2026-09-01"', f"{where}:6")
    assert rows["coverage.accept[0].to"] == ('"2026-09-01 00:00:01+00:00"', f"{where}:7")
    assert rows["clusters[0].until"] == ('"2026-09-01"', f"{where}:10")
    assert "coverage.accept[0].start" not in rows
    config = load(home, 'clusters = [{ name = "a", from = 2026-09-01 }]')
    assert {origin for key, _, origin in resolved(config) if key.startswith("clusters")} == {
        f"{home / 'work' / 'gpucost.toml'}:1"
    }


@pytest.mark.parametrize(
    ("file", "key", "shown"),
    [
        ('[azure]\nexports = ["https://a.blob.core.windows.net/c?sv=1&sig=hunter2"]', "azure.exports",
         '["https://a.blob.core.windows.net/c?***"]'),
        ('[aws]\nexports = ["s3://me:hunter2@bucket/x", "bills/a.csv"]', "aws.exports", '["s3://***@bucket/x", "bills/a.csv"]'),
        ('[azure]\nretail_prices_url = "https://prices.example.com/list?key=hunter2#hunter2"', "azure.retail_prices_url",
         '"https://prices.example.com/list?***"'),
        ('[price_lists]\noci = "https://me:hunter2@prices.example.com/"', "price_lists.oci", '"https://***@prices.example.com/"'),
        ('[lake]\nurl = "me:hunter2@host/lake"', "lake.url", '"***@host/lake"'),
        ('[notify.webhook]\nurl = "https://hooks.example.com/a?token=hunter2"', "notify.webhook.url",
        '"https://hooks.example.com/a?***"'),
        ('[engine]\nspark_master = "spark://me:hunter2@host:7077"', "engine.spark_master", '"spark://***@host:7077"'),
        ('[engine.spark_options]\n"spark.hadoop.fs.s3a.secret.key" = "hunter2"',
         "engine.spark_options.spark.hadoop.fs.s3a.secret.key", "(hidden)"),
        ('[[teams]]\nname = "a"\nnamespaces = ["you@example.com", "a?b"]', "teams[0].namespaces", '["you@example.com", "a?b"]'),
    ],
)  # fmt: skip
def test_config_show_and_messages_conceal_credentials(
    file: str, key: str, shown: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_SECRETS", set())
    rows = resolved(load(home, file))
    assert {name: value for name, value, _ in rows}[key] == shown
    assert "hunter2" not in str(rows)
    assert ({"hunter2", "aHVudGVyMg=="} if "hunter2" in file else set()) == texts._SECRETS


@pytest.mark.parametrize(
    "file",
    [
        "[azure]\nretail_prices_url = 7",
        '[aws]\nexports = [["s3://me:hunter2@b"]]',
        "[engine.spark_options]\na = 712",
    ],
)
def test_wrong_settings_that_may_hold_a_secret_are_named_without_it(file: str, home: Path) -> None:
    assert "hunter2" not in refused(home, file) and "got" not in refused(home, file)


def test_a_directory_or_a_file_that_is_no_text_is_refused(home: Path) -> None:
    (home / "work" / "gpucost.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read"):
        load(home)
    (home / "gpucost.toml").mkdir()
    for named in (None, home, home / "gpucost.toml"):
        with pytest.raises(ConfigError, match="is a directory, not a config file"):
            load_config(named, environ={"HOME": str(home)}, cwd=home)


def test_resolved_says_where_each_value_comes_from_and_hides_headers(home: Path) -> None:
    file = 'currency = "EUR"\n[prometheus]\nheaders = { X-Team = "finops" }\nbearer_token_env = "TOKEN"\n'
    config = load(
        home, file, {"GPUCOST_IDLE__THRESHOLD_PERCENT": "7", "TOKEN": "hunter2"}, store=Path("x.duckdb")
    )
    rows = {key: (value, origin) for key, value, origin in resolved(config)}
    where = home / "work" / "gpucost.toml"
    assert rows["currency"] == ('"EUR"', f"{where}:1")
    assert rows["store.path"] == (f'"{home}/work/x.duckdb"', "option --store")
    assert rows["idle.threshold_percent"] == ("7.0", "variable GPUCOST_IDLE__THRESHOLD_PERCENT")
    assert rows["prometheus[0].headers.X-Team"] == ("(hidden)", f"{where}:3")
    assert rows["prometheus[0].bearer_token_env"] == ('"TOKEN"', f"{where}:4")
    assert rows["timezone"] == ('"UTC"', "default")
    assert rows["targets.efficiency"] == ("0.8", "default")
    assert "hunter2" not in str(rows)


@pytest.mark.parametrize("url", ["http://user:sekret@host:1/x", "user:sekret@host", "https://u:sek/ret@host"])
def test_a_shown_url_holds_no_password(home: Path, url: str) -> None:
    assert "sek" not in shown_url(url) and "ret" not in shown_url(url)
    assert shown_url("http://host:9090/x") == "http://host:9090/x"
    assert "sek" not in refused(home, f'[prometheus]\nurl = "{url}"')


def test_a_user_without_a_home_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often run as a user id that no file lists, without HOME."""
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert places({}, home) == [home / "gpucost.toml"]
    assert places({"XDG_CONFIG_HOME": "/x"}, home)[1:] == [Path("/x/gpucost/gpucost.toml")]
    monkeypatch.chdir(home)
    shown = CliRunner().invoke(app, ["config", "show"])
    assert shown.exit_code == 0
    assert f"(looked for {home}/gpucost.toml)" in shown.stderr
    assert _private_page().parent.is_dir()
    named = CliRunner().invoke(app, ["report", "--store", "~/x"])
    assert named.exit_code == 1
    assert named.stderr.startswith(
        "error: a path begins with ~, and this user has no home directory\nfix: set HOME"
    )
