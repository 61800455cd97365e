"""Nodes, their GPUs, and the pods that held them, from the raw series."""

from collections.abc import Sequence

from gpucost.catalog import accelerators, activity_metrics, load_catalog, other_resources
from gpucost.config.model import Activity, Config, hours_off, instant_ms
from gpucost.engine import run_stage, run_stages
from gpucost.periods import label_name
from gpucost.records import DuckDBPyConnection
from gpucost.store import runs

_INTERFACE = "interface"
# Macros that attribution uses, too.
_SAMPLES = "03_samples"
# Configured teams, workload types, hosts and gaps; periods are half-open, in milliseconds.
_CONFIGURED = """
CREATE OR REPLACE TEMP TABLE team_globs (ordinal INTEGER, team VARCHAR, pattern VARCHAR, clusters VARCHAR[]);
CREATE OR REPLACE TEMP TABLE team_values (ordinal INTEGER, team VARCHAR, label VARCHAR, value VARCHAR);
CREATE OR REPLACE TEMP TABLE team_categories (ordinal INTEGER, team VARCHAR, category VARCHAR, value VARCHAR, clusters VARCHAR[]);
CREATE OR REPLACE TEMP TABLE user_labels (name VARCHAR, label VARCHAR);
CREATE OR REPLACE TEMP TABLE type_rules
    (ordinal INTEGER, type VARCHAR, namespaces VARCHAR[], names VARCHAR[], kinds VARCHAR[], labels VARCHAR[]);
CREATE OR REPLACE TEMP TABLE host_rules
    (ordinal INTEGER, pattern VARCHAR, clusters VARCHAR, provider VARCHAR, user_label VARCHAR, labels MAP(VARCHAR, VARCHAR));
CREATE OR REPLACE TEMP TABLE declared_off (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT);
CREATE OR REPLACE TEMP TABLE accepted_gaps
    (ordinal INTEGER, cluster VARCHAR, from_ms BIGINT, to_ms BIGINT, who VARCHAR, why VARCHAR);
CREATE OR REPLACE TEMP TABLE expected_clusters (cluster VARCHAR)"""


FIRST_AND_LAST = """
SELECT min(from_ms), max(to_ms)
FROM (SELECT min(first_ms) AS from_ms, max(last_ms) AS to_ms FROM states
    UNION ALL SELECT min(from_ms), max(to_ms) FROM loads WHERE kind = 'slurm')"""


def declare(con: DuckDBPyConnection) -> None:
    """Make the macros and empty temporary tables that inventory hands to price and attribution."""
    run_stage(con, __name__, _INTERFACE)
    run_stage(con, __name__, _SAMPLES)


def load_settings(con: DuckDBPyConnection, config: Config, heard: tuple[int, int] | None = None) -> None:
    """Fill `settings` (one row), and make the other temporary tables of the configuration.

    `heard` is the first and last moment with data, in milliseconds, if the store has only a part of it.

    The cost basis, whether cost categories name teams, and the patterns of resources become variables
    instead: DuckDB knows them when it plans a statement, and skips tables that are not needed.
    """
    con.execute("SET VARIABLE cost_basis = $basis", {"basis": config.prices.cost_basis})
    con.execute("SET VARIABLE accelerators = $pattern", {"pattern": accelerators().lower()})
    con.execute("SET VARIABLE other_resources = $pattern", {"pattern": other_resources().lower()})
    con.execute(
        "SET VARIABLE has_team_categories = $any", {"any": any(team.cost_categories for team in config.teams)}
    )
    configured = bool(config.teams or config.team_labels.namespace or config.team_labels.pod)
    namespace_label = config.team_labels.namespace if configured else "team"
    con.execute(
        """INSERT INTO settings BY NAME SELECT
            $threshold_percent AS threshold_percent, $mig_share AS mig_share, $max_bridge_ms AS max_bridge_ms,
            $hami_default_mem AS hami_default_mem, $hami_memory_scaling AS hami_memory_scaling,
            $teams_configured AS teams_configured, $currency AS currency,
            $team_namespace_label AS team_namespace_label, $team_pod_label AS team_pod_label,
            $charge_reservations AS charge_reservations, $slurm_in_kubernetes AS slurm_in_kubernetes""",
        {
            "threshold_percent": config.idle.threshold_percent,
            "mig_share": config.mig.share,
            "max_bridge_ms": config.coverage.max_bridge_ms,
            "hami_default_mem": config.hami.default_mem,
            "hami_memory_scaling": config.hami.memory_scaling,
            "teams_configured": configured,
            "currency": config.currency,
            "team_namespace_label": namespace_label and label_name(namespace_label),
            "team_pod_label": config.team_labels.pod and label_name(config.team_labels.pod),
            "charge_reservations": config.slurm.charge_reservations,
            "slurm_in_kubernetes": config.slurm.in_kubernetes,
        },
    )
    con.execute(_CONFIGURED)
    _load_metrics(con, config.activity)
    if user := config.labels.user:
        con.execute("INSERT INTO user_labels VALUES ($1, $2)", [user, label_name(user)])
    for ordinal, team in enumerate(config.teams):
        row = [ordinal, team.name, team.namespaces, team.clusters]
        con.execute("INSERT INTO team_globs SELECT $1, $2, unnest($3::VARCHAR[]), $4", row)
        for key, values in team.labels.items():
            row = [ordinal, team.name, label_name(key), values]
            con.execute("INSERT INTO team_values SELECT $1, $2, $3, unnest($4::VARCHAR[])", row)
        for key, values in team.cost_categories.items():
            row = [ordinal, team.name, key, values, team.clusters]
            con.execute("INSERT INTO team_categories SELECT $1, $2, $3, unnest($4::VARCHAR[]), $5", row)
    for ordinal, rule in enumerate(config.workload_types):
        labels = [f"{label_name(key)}={value}" for key, values in rule.labels.items() for value in values]
        con.execute(
            "INSERT INTO type_rules VALUES ($1, $2, $3, $4, $5, $6)",
            [ordinal, rule.type, rule.namespaces, rule.names, rule.kinds, labels],
        )
    for ordinal, host in enumerate(config.hosts):
        facts = host.labels
        row = [
            ordinal,
            host.name,
            host.cluster or "*",
            host.provider,
            host.user_label,
            list(facts),
            list(facts.values()),
        ]
        con.execute(
            "INSERT INTO host_rules VALUES ($1, $2, $3, $4, $5, map($6::VARCHAR[], $7::VARCHAR[]))", row
        )

    if config.clusters:
        first, last = heard or con.execute(FIRST_AND_LAST).fetchall()[0]
    for declared in config.clusters:
        con.execute("INSERT INTO expected_clusters VALUES ($1)", [declared.name])
        for start, end in hours_off(declared, config.tz, (first or 0, last or 0)):
            con.execute("INSERT INTO declared_off VALUES ($1, $2, $3)", [declared.name, start, end])
    for ordinal, gap in enumerate(config.coverage.accept):
        span = [instant_ms(moment, config.tz) for moment in (gap.start, gap.end)]
        con.execute(
            "INSERT INTO accepted_gaps VALUES ($1, $2, $3, $4, $5, $6)",
            [ordinal, gap.cluster, *span, gap.who, gap.why],
        )
    for source in config.prometheus:
        # A server without data is missing as its cluster, or under its own name if other servers have data;
        # a server with data names its clusters itself.
        others = [other.source for other in config.prometheus if other.source != source.source]
        con.execute(
            "INSERT INTO expected_clusters SELECT coalesce($1::VARCHAR, $2::VARCHAR)"
            " WHERE $2 NOT IN (SELECT source FROM series)"
            " AND ($1 IS NOT NULL OR EXISTS (FROM series WHERE source IN (SELECT unnest($3::VARCHAR[]))))",
            [source.cluster, source.source, others],
        )


_METRICS = """
CREATE OR REPLACE TEMP TABLE activity_metrics AS
SELECT unnest($part) AS part, unnest($metric) AS metric, unnest($measures) AS measures, unnest($scale::DOUBLE[]) AS scale,
    unnest($is_set) AS is_set, unnest($unit) AS unit, unnest($device) AS device, unnest($model::VARCHAR[][]) AS model,
    unnest($host) AS host"""


def _load_metrics(con: DuckDBPyConnection, activity: Activity) -> None:
    metrics = activity_metrics(activity)
    names = ("part", "measures", "scale", "is_set", "unit", "host")
    columns = {name: [getattr(metric, name) for metric in metrics] for name in names}
    lists = {name: [list(getattr(metric, name)) for metric in metrics] for name in ("device", "model")}
    con.execute(_METRICS, {**columns, **lists, "metric": [metric.metric.lower() for metric in metrics]})


def load_activity(con: DuckDBPyConnection, activity: Activity) -> None:
    """Make only the temporary tables activity_series and scale_remarks."""
    load_catalog(con)
    _load_metrics(con, activity)
    run_stage(con, __name__, _SAMPLES)
    run_stage(con, __name__, "13_activity_series")


def stage(
    con: DuckDBPyConnection,
    config: Config,
    needs: Sequence[tuple[str, str, str, str]] = (),
    heard: tuple[int, int] | None = None,
) -> None:
    """Rebuild the tables of inventory.

    These are nodes, allocations and their traits, collected and warnings, and the temporary tables that other
    stages read.

    `heard` is as for load_settings. `needs` are the metrics and labels that a warning names if they are
    missing: kind, metric, loss, fix.
    """
    con.execute(
        "DELETE FROM nodes; DELETE FROM allocations; DELETE FROM allocation_traits; DELETE FROM mig_fragmentation; "
        "DELETE FROM pending_pods; DELETE FROM collected; DELETE FROM coverage_gaps; "
        "DELETE FROM node_stops; DELETE FROM health_events; DELETE FROM warnings"
    )
    declare(con)
    load_catalog(con)
    load_settings(con, config, heard)
    runs.look(con, needs)
    run_stages(con, __name__, skip=(_INTERFACE,))


def coverage(con: DuckDBPyConnection, config: Config) -> None:
    """Rebuild only coverage_gaps and collected, from metrics."""
    con.execute("DELETE FROM collected; DELETE FROM coverage_gaps")
    declare(con)
    load_catalog(con)
    load_settings(con, config)
    run_stages(con, __name__, until="18_coverage_gaps")
