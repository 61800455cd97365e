"""The order of settings, the base of relative paths, and errors for wrong keys with their place."""

from __future__ import annotations

import re
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
from tests.text_tables import words

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
    """The message, with paths relative to the folder."""
    with pytest.raises(ConfigError) as caught:
        load(home, text, environ)
    assert caught.value.fix
    return caught.value.message.replace(f"{home / 'work'}/", "")


def table(text: str) -> list[list[str]]:
    """Files of one line each, and the expected text."""
    return [line.split("  -> ") for line in text.strip().splitlines()]


FILES = words(
    "user=home/.config/gpucost/gpucost.toml work=work/gpucost.toml xdg=xdg/gpucost/gpucost.toml one=one.toml two=two.toml"
)
# existing files, variables and options; then the expected currency and store
ORDER = """
-          -                                             -                 USD  work/gpucost.duckdb
user       -                                             -                 USE  home/.config/gpucost/own.duckdb
user,work  -                                             -                 WOR  work/own.duckdb
user,work  GPUCOST_CURRENCY=PLN,GPUCOST_STORE=c.duckdb   -                 PLN  work/c.duckdb
user,work  GPUCOST_CURRENCY=PLN,GPUCOST_STORE=c.duckdb   store=d.duckdb    PLN  work/d.duckdb
user,xdg   XDG_CONFIG_HOME=../xdg                        -                 XDG  xdg/gpucost/own.duckdb
one,two    GPUCOST_CONFIG=../one.toml                    -                 ONE  own.duckdb
one,two    GPUCOST_CONFIG=../one.toml                    path=../two.toml  TWO  own.duckdb"""


def pairs(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=([^,]+)", text))


@pytest.mark.parametrize("row", ORDER.strip().splitlines())
def test_setting_with_highest_precedence_is_used(
    home: Path, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, environ, options, currency, store = row.split()
    monkeypatch.chdir(home / "work")
    for name, file in FILES.items():
        if name in files:
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(f'currency = "{name.upper()[:3]}"\nstore = "own.duckdb"')
    config = load(home, None, pairs(environ), **{key: Path(value) for key, value in pairs(options).items()})
    assert (config.currency, config.store.resolve()) == (currency, home / store)
    assert (config.path is None) is (files == "-")
    assert [server.url for server in config.prometheus] == ["http://127.0.0.1:9090"]


@pytest.mark.parametrize("by", ["--config", "GPUCOST_CONFIG"])
def test_missing_named_file_is_reported_with_its_path(home: Path, by: str) -> None:
    file = Path("none.toml")
    with pytest.raises(ConfigError, match=by) as caught:
        load(home, environ={by: str(file)}, path=file if by == "--config" else None)
    assert str(home / "work" / file) in caught.value.message


def test_nested_variables(home: Path) -> None:
    environ = {
        "GPUCOST_PROMETHEUS__URL": "https://prometheus.example.com/",
        "GPUCOST_PROMETHEUS__TLS__CA_FILE": "ca.pem",
        "GPUCOST_IDLE__THRESHOLD_PERCENT": "7.5",
        "GPUCOST_TEAMS": '[{"name": "research", "namespaces": ["ml-*"]}]',
    }
    config = load(home, '[prometheus]\nurl = "http://other"\ntenant = "a"', environ)
    (server,) = config.prometheus
    assert (server.url, server.tenant) == ("https://prometheus.example.com", "a")
    assert server.tls.ca_file == home / "work" / "ca.pem"
    assert config.idle.threshold_percent == 7.5
    assert config.teams[0].namespaces == ["ml-*"]


def test_variables_of_other_programs_and_empty_ones_count_as_unset(home: Path) -> None:
    file = 'timezone = "Asia/Tokyo"'
    names = "GPUCOST_STORE", "GPUCOST_TIMEZONE", "GPUCOST_PROMETHEUS__URL"
    others = {"GPUCOST_PORT": "tcp://10.0.0.1:80", "GPUCOST_SERVICE_HOST": "10.0.0.1"}
    assert load(home, file, dict.fromkeys(names, "") | others) == load(home, file)


WRONG_VARIABLES = """
GPUCOST_STOER=x                            GPUCOST_STOER
GPUCOST_IDLE__TRESHOLD_PERCENT=5           did you mean idle.threshold_percent?
GPUCOST_IDLE__THRESHOLD_PERCENT=many       variable GPUCOST_IDLE__THRESHOLD_PERCENT
GPUCOST_TEAMS=[nonsense                    GPUCOST_TEAMS is not valid JSON
GPUCOST_IDLE=x                             should be a table
GPUCOST_TIMEZONE__NAME=UTC                 GPUCOST_TIMEZONE__NAME
GPUCOST_PRICES__COST_BASIS=residual        (variable GPUCOST_PRICES__COST_BASIS): the value 'residual' was removed; use "sku"
GPUCOST_GATEWAY__OWN=["llama"]             variable GPUCOST_GATEWAY__OWN is for a setting that was removed"""


@pytest.mark.parametrize("line", WRONG_VARIABLES.strip().splitlines())
def test_wrong_variables_are_named(home: Path, line: str) -> None:
    variable, expected = line.split(maxsplit=1)
    name, _, value = variable.partition("=")
    assert expected in refused(home, 'timezone = "UTC"', {name: value})


def test_relative_paths_are_relative_to_the_file(home: Path) -> None:
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
    assert {"store.path", "prometheus.url", "prometheus.tls.ca_file", "teams.namespaces"} <= {
        *all_keys(Config)
    }
    text = '# comment\na = 1\n[b.c]\n"d e".f = 2\n[[g]]\nh = 1\n[[g]]\n[g.i]\nj = 2  # x\n'
    found = [f"{'.'.join(map(str, key))}:{line}" for key, line in line_numbers(text).items()]
    assert ", ".join(found) == "a:2, b.c:3, b.c.d e.f:4, g.0:5, g.0.h:6, g.1:7, g.1.i:8, g.1.i.j:9"


def test_one_several_or_no_servers_and_variables_for_one(home: Path) -> None:
    several = '[[prometheus]]\nurl = "http://a"\nname = "a"\n[[prometheus]]\nurl = "http://b"\ncluster = "b"'
    none, variable = "prometheus = []", {"GPUCOST_PROMETHEUS__URL": "http://a"}
    for file, environ, expected in (
        ('[prometheus]\nurl = "http://a"', {}, "http://a None"),
        (several, {}, "a None, http://b b"),
        (none, {}, ""),
        (none, variable, "http://a None"),
    ):
        servers = load(home, file, environ).prometheus
        assert ", ".join(f"{server.source} {server.cluster}" for server in servers) == expected
    assert "several [[prometheus]]" in refused(home, several, {"GPUCOST_PROMETHEUS__URL": "http://c"})


# part of the message, which never shows a secret
REFUSED = """
timezone = Berlin  -> not valid TOML
path = "x"  -> unknown key
prometheus.threshold_percent = 5  -> did you mean idle.threshold_percent?
prometheus = [{ url = "http://a" }, { url = "http://a/" }]  -> two servers are named http://a
prometheus = { bearer_token_env = "A", bearer_token_file = "b" }  -> keep one
prometheus.tls.key_file = "k"  -> needs cert_file
teams = [{ name = "a" }]  -> needs namespaces, labels, cost_categories, api or parent
teams = [{ name = "a", parent = "b" }, { name = "b", parent = "a" }]  -> teams: a, b: a team cannot be above itself
teams = [{ name = "a", parent = "b" }, { name = "a", parent = "c" }]  -> teams: a team has one parent
units = [{ name = "file", unit = "epoch", metric = "epoch" }]  -> choose another name
units = [{ name = "a", unit = "epoch" }]  -> needs one of metric and query
units = [{ name = "a", unit = "request", metric = "m", kind = "gauge" }]  -> is for epochs
currency = "dollars"  -> currency
bills.currency = "euro"  -> bills.currency
idle = 5  -> should be a table
workload_types = [{ type = "batch" }]  -> needs one of namespaces, names, kinds and labels
waste.forgotten_after = "soon"  -> forgotten_after
timezone = "../etc/passwd"  -> IANA
prices.cost_basis = "residual"  -> prices.cost_basis (gpucost.toml:1): the value 'residual' was removed; use "sku"
engine.workers = 2  -> engine.workers (gpucost.toml:1): was removed; delete it, or set engine.name
price_lists.litellm = "map.json"  -> price_lists.litellm (gpucost.toml:1): was removed; use the built-in list
call_logs = [{ name = "mine" }]  -> was removed; load the seller's bill: gpucost collect focus FILE
gateway.own = []  -> was removed; load the seller's bill: gpucost collect focus FILE
units = [{ gateway = "b" }]  -> was removed; count tokens at the server that makes them, and load the seller's bill for bought
units = [{ team_label = "b" }]  -> was removed; use tenant_label
units = [{ provider_label = "b" }]  -> was removed; load the seller's bill: gpucost collect focus FILE
units = [{ base_label = "b" }]  -> was removed; load the seller's bill: gpucost collect focus FILE
units = [{ currency = "EUR" }]  -> was removed; load the seller's bill: gpucost collect focus FILE
prometheus.bearer_token = "hunter2"  -> bearer_token_file or bearer_token_env
prometheus.basic_auth = { username = "me", password = "hunter2", password_env = "P" }  -> password_file or password_env
prometheus.headers = { Authorization = "hunter2" }  -> headers_env
prometheus.headers = { X-Api-Key = "hunter2" }  -> headers_env
prometheus.url = "http://me:hunter2@host"  -> [prometheus.basic_auth]
prometheus.url = "hunter2:hunter2@host"  -> should begin with http:// or https://
prometheus.url = "https://u:hunter/2hunter2@host"  -> [prometheus.basic_auth]
prometheus.url = "http://host?token=hunter2"  -> without ?
azure.retail_prices_url = 1712  -> azure.retail_prices_url
aws.exports = [["s3://me:hunter2@b"]]  -> aws.exports
engine.spark_options.a = 1712  -> engine.spark_options.a
shared_costs = [{ name = "n", of = "storage", split = "owner" }]  -> split = "owner" needs owner
shared_costs = [{ name = "n", of = "storage", owner = "x" }]  -> owner needs split = "owner"
shared_costs = [{ name = "n", of = "namespaces" }]  -> of = "namespaces" needs namespaces
shared_costs = [{ name = "n", of = "storage", namespaces = ["x"] }]  -> namespaces needs of = "namespaces"
shared_costs = [{ name = "n", of = "namespaces", namespaces = ["x"], provider = "aws" }]  -> provider selects bills
shared_costs = [{ name = "n", of = "gpus" }]  -> shared_costs
shared_costs = [{ name = "n", of = "storage" }, { name = "n", of = "storage" }]  -> two are named n"""


@pytest.mark.parametrize(("file", "expected"), table(REFUSED))
def test_invalid_files_are_refused(home: Path, file: str, expected: str) -> None:
    message = refused(home, file)
    assert expected in message and not re.search("hunter|1712", message)


# the only wrong key, and the error
LINES = """
clusters = [{ name = "a", from = 2026-12-01, until = 2026-09-01 }]  -> clusters[0].until: should be after from
clusters = [{ name = "a", from = 2026-09-01, until = 2026-09-01T00:00:00 }]  -> clusters[0].until: should be after from
coverage.accept = [{ who = "D", why = "x", from = 2026-09-01T02:00:00Z, to = 2026-09-01 }]  \
-> coverage.accept[0].to: should be after from
coverage.accept = [{ who = "D", why = "x", from = "never", to = 2026-09-01 }]  \
-> coverage.accept[0].from: should look like 2026-10-03 or 2026-10-03T06:00, got 'never'
clusters = [{ name = "a", until = 07:00:00 }]  -> clusters[0].until: should look like 2026-10-03 or 2026-10-03T06:00
clusters = [{ name = "a", to = 2026-09-01 }]  -> clusters[0].to: unknown key; did you mean clusters[0].until?
clusters = [{ name = "a", start = 2026-09-01 }]  -> clusters[0].start: unknown key; did you mean clusters[0].from?
clusters = [{ name = "a", hours = "7-19" }]  -> clusters[0].hours: '7-19' should look like 07:00-21:00 or Mon-Fri 07:00-21:00
clusters = [{ name = "a", hours = ["24:00-07:00"] }]  \
-> clusters[0].hours: '24:00-07:00' begins at 24:00; write 00:00 of the next day
clusters = [{ name = "a", hours = ["Sat 07:00-07:00"] }]  \
-> clusters[0].hours: 'Sat 07:00-07:00' is empty; a whole day is 00:00-24:00
clusters = { name = "a", until = 2026-09-01 }  -> clusters: write [[clusters]]
coverage.accept = { to = 2026-09-01 }  -> coverage.accept: write [[coverage.accept]]
hosts = [{ name = "a", instance = "b" }]  -> hosts[0].instance: unknown key; did you mean hosts[0].instance_type?
hosts = [{ name = "a", capacity_type = "preemptible" }]  -> hosts[0].capacity_type: \
should be 'on_demand', 'spot', 'reserved', 'capacity_block' or 'flex_start', got 'preemptible'
hosts = [{ name = "a", gpus = 0 }]  -> hosts[0].gpus: should be greater than or equal to 1, got 0
coverage.max_bridge = "1d"  -> coverage.max_bridge: should look like 90m or 2h, got '1d'
coverage.max_bridge = "9m"  -> coverage.max_bridge: should be between 10m and 24h, got '9m'
coverage.max_bridge = "25h"  -> coverage.max_bridge: should be between 10m and 24h, got '25h'"""


@pytest.mark.parametrize(("file", "expected"), table(LINES))
def test_each_wrong_key_is_one_line(home: Path, file: str, expected: str) -> None:
    assert refused(home, file).replace(" (gpucost.toml:1)", "").splitlines()[1:] == [f"  {expected}"]


WRONG_KEYS = """
stor = "x"
timezone = "Mars/Base"
[idle]
threshold_percent = 500
[[prometheus]]
url = "http://a"
[prometheus.basic_auth]
username = "me"
[[prometheus]]
url = "ftp://b"
tls.ca_fil = "x"
[[clusters]]
name = "a"
from = 2026-12-01
until = 2026-09-01
[[hosts]]
user_label = "user"
"""


def test_all_wrong_keys_are_listed_with_their_lines(home: Path) -> None:
    assert refused(home, WRONG_KEYS).splitlines()[1:] == [
        "  stor (gpucost.toml:2): unknown key; did you mean store?",
        "  timezone (gpucost.toml:3): should be an IANA time zone name such as Europe/Berlin, got 'Mars/Base'",
        "  idle.threshold_percent (gpucost.toml:5): should be less than or equal to 100, got 500",
        "  prometheus[0].basic_auth (gpucost.toml:8): needs one of password_file and password_env",
        "  prometheus[1].url (gpucost.toml:11): should begin with http:// or https://",
        "  prometheus[1].tls.ca_fil (gpucost.toml:12): unknown key; did you mean prometheus[1].tls.ca_file?",
        "  clusters[0].until (gpucost.toml:16): should be after from",
        "  hosts[0].name (gpucost.toml:17): is missing",
    ]


# a file, the name of a value and its displayed form
CONCEALED = """
azure.exports = ["https://a.example.com/c?sv=1&sig=hunter2"]  -> azure.exports: ["https://a.example.com/c?***"]
aws.exports = ["s3://me:hunter2@bucket/x", "bills/a.csv"]  -> aws.exports: ["s3://***@bucket/x", "bills/a.csv"]
azure.retail_prices_url = "https://prices/a?key=hunter2#hunter2"  -> azure.retail_prices_url: "https://prices/a?***"
price_lists.oci = "https://me:hunter2@prices/"  -> price_lists.oci: "https://***@prices/"
lake.url = "me:hunter2@host/lake"  -> lake.url: "***@host/lake"
price_lists.vast = "https://hooks/a?token=hunter2"  -> price_lists.vast: "https://hooks/a?***"
engine.spark_master = "spark://me:hunter2@host:7077"  -> engine.spark_master: "spark://***@host:7077"
engine.spark_options."fs.s3a.secret.key" = "hunter2"  -> engine.spark_options.fs.s3a.secret.key: (hidden)
teams = [{ name = "a", namespaces = ["you@example.com", "a?b"] }]  -> teams[0].namespaces: ["you@example.com", "a?b"]"""


@pytest.mark.parametrize(("file", "shown"), table(CONCEALED))
def test_config_show_and_messages_conceal_credentials(
    home: Path, file: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_SECRETS", set())
    rows = resolved(load(home, file))
    assert shown in [f"{name}: {value}" for name, value, _ in rows]
    assert "hunter2" not in str(rows)
    assert ({"hunter2", "aHVudGVyMg=="} if "hunter2" in file else set()) == texts._SECRETS


def test_directory_and_binary_file_are_refused(home: Path) -> None:
    (home / "work" / "gpucost.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read"):
        load(home)
    (home / "gpucost.toml").mkdir()
    for named in (None, home, home / "gpucost.toml"):
        with pytest.raises(ConfigError, match="is a directory, not a config file"):
            load_config(named, environ={"HOME": str(home)}, cwd=home)


RIGHT = """\
currency = "EUR"
[prometheus]
headers = { X-Team = "finops" }
bearer_token_env = "TOKEN"
[coverage]
max_bridge = "1440m"
[[coverage.accept]]
who = "Dana"
why = "moved"
from = "2026-09-01"
to = 2026-09-01T00:00:01Z
[[clusters]]
name = "a"
until = 2026-09-01
hours = ["Mon-Fri 00:00-24:00", "Sat 20:00-06:00"]"""
RESOLVED = """
currency "EUR" FILE:1
store.path "HOME/work/x.duckdb" option --store
idle.threshold_percent 7.0 variable GPUCOST_IDLE__THRESHOLD_PERCENT
prometheus[0].headers.X-Team (hidden) FILE:3
prometheus[0].bearer_token_env "TOKEN" FILE:4
coverage.accept[0].from "2026-09-01" FILE:10
coverage.accept[0].to "2026-09-01 00:00:01+00:00" FILE:11
clusters[0].until "2026-09-01" FILE:14
timezone "UTC" default
targets.efficiency 0.8 default"""


def test_resolved_names_the_origin_of_each_value_and_hides_headers(home: Path) -> None:
    environ = {"GPUCOST_IDLE__THRESHOLD_PERCENT": "7", "TOKEN": "hunter2"}
    config = load(home, RIGHT, environ, store=Path("x.duckdb"))
    rows = [" ".join(row) for row in resolved(config)]
    expected = RESOLVED.replace("FILE", "HOME/work/gpucost.toml").replace("HOME", str(home))
    assert {*expected.strip().splitlines()} <= {*rows}
    assert not re.search("hunter2|accept.0..start", str(rows))
    assert config.coverage.max_bridge_ms == 24 * 3_600_000
    assert [(start.hour, end.hour) for _, start, end in config.clusters[0].weekly()] == [(0, 0), (20, 6)]
    config = load(home, 'clusters = [{ name = "a", from = 2026-09-01 }]')
    assert {line for key, _, line in resolved(config) if key.startswith("clusters")} == {f"{config.path}:1"}


@pytest.mark.parametrize("url", ["http://user:sekret@host:1/x", "user:sekret@host", "https://u:sek/ret@host"])
def test_displayed_url_contains_no_password(url: str) -> None:
    assert "sek" not in shown_url(url) and "ret" not in shown_url(url)
    assert shown_url("http://host:9090/x") == "http://host:9090/x"


def test_user_without_a_home_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often run without HOME, under a user id without a passwd entry."""
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert places({}, home) == [home / "gpucost.toml"]
    assert places({"XDG_CONFIG_HOME": "/x"}, home)[1:] == [Path("/x/gpucost/gpucost.toml")]
    monkeypatch.chdir(home)
    shown = CliRunner().invoke(app, ["config", "show"])
    assert shown.exit_code == 0
    assert f"(searched: {home}/gpucost.toml)" in shown.stderr
    assert _private_page().parent.is_dir()
    named = CliRunner().invoke(app, ["report", "--store", "~/x"])
    assert named.exit_code == 1
    assert named.stderr.startswith(
        "error: a path begins with ~, but this user has no home directory\nfix: set HOME"
    )
