"""Options that what-ifs cannot use: what is said, and the exit code."""

from __future__ import annotations

import pytest

from tests.unit.whatif_costs import assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

OWN = "--purchase-price 280000 --gpu-watts 700 --years 4 --price-per-kwh 0.12"
ON, BOTH = "--on-demand-price 32", "--on-demand-price 32 --spot-price 12"
A100, TO_H100 = "--gpu-model A100-SXM4-40GB", "--to-gpu-model H100-80GB-HBM3 --to-price 6"
TODAY = "--gpus 4 --on-demand-price 3 --price-per gpu"
TOKENS = "--prompt-tokens-per-day 4B --generation-tokens-per-day 800M"
PRICED = f"{TOKENS} --input-price-per-million 2.5 --output-price-per-million 10"
SERVED = f"{PRICED} --peak-factor 3 --gpus-per-replica 2 --replica-tokens-per-second 9000"
JOB = "--backtest --instance-type p3.2xlarge --region us-east-1 --hours 2"
# options, and what is said of them; those of the first list are wrong (2), what those of the second ask for is not there (1)
WRONG = {
    "reserve": [
        ("--nodes 4", "price on demand is missing"),
        (f"{ON} --commitment-price 2=1", "nobody sells 2 years"),
        (f"{ON} --commitment-discount 1=100", "at most 99"),
        ("--nodes 1 --instance-type a2-highgpu-8g", "--region names one"),
        ("--nodes 1 --instance-type 1x_H200", "digitalocean and vast, and no region tells them apart"),
        (f"--hours 1e9 {ON}", "at most 87,840"),
        ("--payment-option gift", "gift is not known"),
    ],
    "buy": [
        ("--nodes 2 --on-demand-price 3", "purchase_price"),
        (f"{OWN} --nodes 2", "the price on demand is missing"),
        (f"{OWN} --residual-percent 120 --nodes 1 {ON}", "--residual-percent is 120"),
        (f"{OWN} --lead-months -1", "no number from 0"),
    ],
    "move": [
        ("--spot-price 3", "no place to compare with"),
        ("--nodes 3", "the primary's spot price is missing"),
        ("--spot-price 3 --place x", "not NAME=MONEY"),
        ("--spot-price 3 --place x=1 --at-most-percent 120", "at most 100"),
        ("--region us-east-1", "--region needs --instance-type"),
        ("--spot-price 3 --place x=1", "--wait-minutes is missing"),
        ("--spot-price 3 --place x=1 --wait-minutes 5 --egress-gb 10", "--egress-price-per-gb is missing"),
        (
            "--spot-price 3 --place x=1 --wait-minutes 5 --egress-gb 10 --egress-price-per-gb 1 --delay-cost-per-hour 2",
            "--transfer-gbit-per-second is missing",
        ),
        ("--starts-per-day 3", "--starts-per-day has no meaning without --gb-per-start"),
        ("--gb-per-start 1 --place x=1", "--place has no meaning with --gb-per-start"),
        ("--gb-per-start 1 --wait-minutes 5", "--wait-minutes has no meaning with --gb-per-start"),
        ("--gb-per-start 1 --nodes 2 --starts-per-day 3", "leave out one"),
        ("--gb-per-start 1 --nodes 2 --days 99999", "3660"),
        ("--gb-per-start 1 --days 3", "the number of starts is missing"),
        ("--gb-per-start 1 --starts-per-day 3 --team x", "leave out --team"),
    ],
    "share": [
        ("--pods 4", "--utilization-percent"),
        ("--utilization-percent 4", "--pods"),
        ("--pods 4 --utilization-percent 10 --method mig", "model"),
        ("--pods 4 --utilization-percent 10 --method mig --gpu-model T4", "cannot be cut"),
        ("--pods 4 --utilization-percent 10 --gpu-model A10000", "did you mean"),
        ("--pods 4 --utilization-percent 10 --memory-per-pod-mib 10", "--gpu-model"),
        ("--pods 4 --utilization-percent 10 --gpu-model T4 --memory-per-pod-mib 99999", "do not fit"),
        ("--pods 4 --utilization-percent 10 --across-teams", "--across-teams asks for usage in the store"),
        ("--method mig --ways 3", "--ways"),
    ],
    "schedule": [
        ("--nodes 2", "--on-demand-price"),
        (ON, "--active-hours-per-day"),
        (f"{ON} --active-hours-per-day 10 --hours 200", "300"),
        (f"{ON} --active-hours-per-day 5 --month 2026-10", "--month"),
        (f"{ON} --active-hours-per-day 5 --office-hours 08:00-18:00", "twice"),
        (f"{ON} --active-hours-per-day 5 --idle-minutes 5", "--idle-minutes"),
        (f"{ON} --active-hours-per-day 5 --save ../x", "--save cannot call an answer"),
        ("--office-hours 8-18", "08:00-18:00"),
        ("--office-hours 08:00-18:00 --weekdays mo-fr", "mon-fri"),
    ],
    "rightsize": [
        ("--gpu-model A100", "--to-gpu-model"),
        (f"{A100} --gpus 4 --on-demand-price 3 {TO_H100}", "--to-gpus"),
        (f"--gpu-model B9000 {TODAY} {TO_H100}", "--gpu-model 'B9000'"),
        (f"{A100} {TODAY} {TO_H100} --month 2026-10", "--month"),
        (f"{A100} {TODAY} {TO_H100} --other-models", "--other-models"),
        (f"--gpu-model K80 {TODAY} {TO_H100}", "--relative-speed"),
    ],
    "spot": [
        (f"{BOTH} --interruptions-per-hour -1", "from 0"),
        (f"{BOTH} --hours 0.25", "longer than the job"),
        (ON, "--spot-price is missing"),
        ("--instance-type p4d.25xlarge", "p4d.24xlarge"),
        ("--instance-type p4d.24xlarge", "--region"),
        ("--instance-type p4d.24xlarge --region us-east-1 --gpus 4", "has 8 GPUs"),
        (f"{BOTH} --region us-east-1", "--instance-type"),
        (f"{BOTH} --team research", "--team"),
        (f"{BOTH} --interruptions-per-hour 9999", "never end"),
        ("--backtest --instance-type p3.2xlarge", "--hours is missing"),
        (f"{JOB} --move-to on-demand", "reverse"),
        (f"{JOB} --on-demand-share 1.5", "at most 1"),
        (f"{BOTH} --hours 9e9", "at most 87,840"),
        ("--on-demand-price 1e30 --spot-price 12", "at most 10,000,000"),
        (f"{BOTH} --hours 5 --active-hours-per-day 5", "leave out one"),
        (f"{BOTH} --days 5", "--active-hours-per-day"),
    ],
    "tokens": [
        (
            f"{SERVED.replace('--generation-tokens-per-day 800M', '')} {ON}",
            "--generation-tokens-per-day are not both given",
        ),
        ("--prompt-tokens-per-day 0 --generation-tokens-per-day 0", "are not both given, or are 0"),
        ("--prompt-tokens-per-day many --generation-tokens-per-day 1", "'many' is no number from 0"),
        (f"{SERVED.replace('--peak-factor 3', '')} {ON}", "--peak-factor is missing"),
        (f"{TOKENS} --peak-factor 3", "the API's price is missing"),
        (f"{PRICED} --peak-factor 25", "at most 24"),
        (f"{PRICED} --peak-factor 3 {ON}", "what serves the tokens is missing"),
        (f"{PRICED} --peak-factor 3 --gpus-per-replica 2 {ON}", "the throughput is missing or given twice"),
        (f"{PRICED} --peak-factor 3 --replica-tokens-per-second 9 {ON}", "--gpus-per-replica is missing"),
        (f"{SERVED} {ON} --throughput-of Deployment/x", "the throughput is missing or given twice"),
        (SERVED, "the price on demand is missing"),
        (f"{SERVED} {ON} --team x", "leave out --team"),
        (f"{SERVED} {ON} --region us-east-1", "--region is of an --instance-type"),
        (f"{SERVED} --instance-type p5.48xlarge --region us-east-1 --gpus 4", "has 8 GPUs, not 4"),
        (f"{SERVED} {ON} --cached-share 2", "at most 1"),
        (f"{SERVED} {ON} --nodes 2", "leave out --nodes"),
        (f"{PRICED} {ON}", "what serves the tokens is missing"),
        ("--nodes 2", "--prompt-tokens-per-day and --generation-tokens-per-day are not both given"),
        (f"{PRICED} --nodes 2", "the price on demand is missing"),
        (f"{PRICED} --nodes 2 {ON} --workload x", "leave out --workload"),
    ],
    "plan": [("", "no plan is named"), ("plan.toml --example", "--example prints a plan")],
}
ABSENT = {
    "reserve": [(f"--nodes 4 {ON}", "no price of a commitment"), ("", "there is no store")],
    "buy": [("none.toml --nodes 2", "cannot read none.toml"), (OWN, "there is no store")],
    "move": [
        ("--instance-type p99.large", "no GPU or instance type is called"),
        ("--wait-minutes 0", "there is no store"),
        ("--gb-per-start 1", "there is no store"),
    ],
    "tokens": [
        ("", "there is no store"),
        (f"--gpus-per-replica 1 --throughput-of x {ON}", "there is no store"),
    ],
    "spot": [("--team research", "no store")],
    "plan": [("none.toml", "cannot read none.toml")],
}


@pytest.mark.parametrize("command", WRONG)
def test_what_cannot_be_used_is_said(command: str) -> None:
    for words, message in WRONG[command]:
        assert_refused(command, words, message)
    for words, message in ABSENT.get(command, []):
        assert_refused(command, words, message, 1)
