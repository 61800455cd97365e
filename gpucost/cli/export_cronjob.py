"""`gpucost export cronjob`: a manifest that runs gpucost in Kubernetes."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, VerboseOption, handle_errors
from gpucost.cli._exports import OutputOption, deliver
from gpucost.errors import UsageError


@handle_errors
def export_cronjob(
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Image that the Dockerfile of gpucost makes.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the CronJob.")] = "gpucost",
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="Namespace of everything.")] = "gpucost",
    schedule: Annotated[str, typer.Option("--schedule", metavar="CRON", help="When it runs.")] = "30 2 * * *",
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="COMMAND",
            help="What it runs, without gpucost in front; repeatable: one after the other. Default: collect prometheus.",
            show_default=False,
        ),
    ] = None,
    claim: Annotated[
        str, typer.Option("--claim", metavar="NAME", help="Persistent volume claim that the store lies on.")
    ] = "gpucost-data",
    claim_size: Annotated[str, typer.Option("--claim-size", metavar="SIZE", help="How large a claim to make.")] = "10Gi",
    existing_claim: Annotated[bool, typer.Option("--existing-claim", help="The claim is there: make none.")] = False,
    storage_class: Annotated[
        str | None,
        typer.Option("--storage-class", metavar="NAME", help="Storage class of the claim; else the default."),
    ] = None,
    config_map: Annotated[
        str, typer.Option("--config-map", metavar="NAME", help="Config map that holds gpucost.toml.")
    ] = "gpucost-config",
    secret: Annotated[
        str | None,
        typer.Option("--secret", metavar="NAME", help="Secret whose keys become environment variables.", show_default=False),
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option(
            "--service-account", metavar="NAME", help="Service account, for a cloud's workload identity.", show_default=False
        ),
    ] = None,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Memory that it asks for, and may use.")] = "2Gi",
    output: OutputOption = None,
    config: ConfigOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print a Kubernetes CronJob, and the claim for its store.

    It runs without root, without capabilities, on a file system that cannot be written outside of the store and /tmp. The
    schedule is in the configured time zone. Commands are run in the directory of the store, one after the other, until one fails.

    \b
    Examples:
      gpucost export cronjob --image registry.example.com/gpucost:1.0 -o cronjob.yml
      gpucost export cronjob --image gpucost:1.0 --secret gpucost --run "collect prometheus" --run "notify slack"
      gpucost export cronjob --image gpucost:1.0 --schedule "0 6 2 * *" --existing-claim
    """
    from gpucost.config import load_config
    from gpucost.export.cronjob import CronJobOptions, cronjob

    settings = load_config(config)
    runs = tuple(run or ("collect prometheus",))
    _check_commands(runs)
    options = CronJobOptions(
        image=image,
        name=name,
        namespace=namespace,
        schedule=schedule,
        timezone=settings.timezone,
        runs=runs,
        claim=claim,
        claim_size=None if existing_claim else claim_size,
        storage_class=storage_class,
        config_map=config_map,
        secret=secret,
        service_account=service_account,
        memory=memory,
    )
    deliver(cronjob(options), output, "manifest", quiet=quiet)


def _check_commands(runs: tuple[str, ...]) -> None:
    """Raises UsageError for a command that gpucost does not have: better now than at 2:30."""
    import typer.main

    from gpucost.cli.app import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for run in runs:
        first = next(iter(run.removeprefix("gpucost ").split()), "")
        if first not in known:
            raise UsageError(f"--run {run!r}: gpucost has no command {first!r}", f"it has {', '.join(sorted(known))}")
