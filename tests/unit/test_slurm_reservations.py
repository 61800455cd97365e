"""GPUs that reservations keep free, and their cost; random histories add up with and without reservations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.unit.slurm_words import NODES, Clusters, H, Job, Scene, T, down, job, jobs, scene, tres

RESERVED = (
    f"ReservationName=exam StartTime={T} EndTime={T + 7200} Nodes=n1 Flags=SPEC_NODES Accounts=cv,nlp,-product Users=(null)\n"
    f"ReservationName=zoo StartTime={T + 3600} EndTime={T + 7200} Nodes=n[1-2] Flags=OVERLAP Accounts=(null) Users=ann\n"
)
#: Two of n1's 4 GPUs are held for an hour, and it is down for a quarter of one; zoo gets only n2 and has no account.
KEPT = scene(
    jobs("1 0 3600 n1 a100:2\n2 0 7200 n2 v100:1"), "", NODES, RESERVED, down(("n1", 6300, 7200, "DOWN"))
)
EXAM = 2 + 3.0
CHARGED = "[slurm]\ncharge_reservations = true\n"


def history(seed: int) -> list[Job]:
    """Consecutive jobs on each of two nodes, some requeued, some still running; in random order."""
    random = Random(seed)
    jobs, number = [], 0
    for place, most in (("n1", 4), ("n2", 2)):
        at = random.randint(0, 300)
        while at < 6000:
            number += 1
            end = at + random.randint(1, 2500)
            held = tres(random.randint(1, most), random.choice(["a100", "a100", ""]))
            account, known = random.choice(["nlp", "cv"]), random.choice([number, max(number - 1, 1)])
            jobs.append(job(known, at, end if end < 7200 else None, place, held, Account=account))
            at = end + random.randint(0, 400)
    random.shuffle(jobs)
    # the key of a run is its job and its submission time
    return list({(one["JobIDRaw"], one["Submit"]): one for one in jobs}.values())


def reserved_scene(seed: int) -> Scene:
    """Half of a history, then all of it with a reservation of both accounts."""
    runs = history(seed)
    start, end = sorted(Random(seed).sample(range(0, 86400, 30), 2))
    reserved = (
        f"ReservationName=r StartTime={T + start} EndTime={T + end} Nodes=n[1-2] Flags=FLEX Accounts=cv,nlp\n"
    )
    return scene(runs[::2], "", NODES, reserved, more=[runs])


Both = tuple[Clusters, Clusters]
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def stores(module_path: Path) -> Iterator[Both]:
    """Stores in which reservations are shown, and in which they are charged."""
    scenes = {"kept": KEPT} | {f"{seed}": reserved_scene(seed) for seed in SEEDS}
    clusters = Clusters(module_path, scenes)
    charged = clusters.copy(CHARGED)
    with clusters.attributed(), charged.attributed():
        yield clusters, charged


def test_gpus_kept_free_by_a_reservation_have_their_own_row(stores: Both) -> None:
    clusters, _ = stores
    assert clusters.held("kept", "namespace") == pytest.approx({"nlp": 4 * H})
    free = {
        (row.keys["reservation"], row.keys["gpu_model"]): row.unallocated.unallocated_gpu_hours
        for row in clusters.rows("kept", "reservation,gpu_model") if row.unallocated
    }  # fmt: skip
    first, second = "A100-SXM4-40GB", "V100-SXM2-16GB"
    kept = {("exam", first): EXAM, ("zoo", first): 2, ("zoo", second): 1}
    assert free == pytest.approx(kept | {(None, first): 1 + 2, (None, second): 1})
    assert clusters.sums("kept")["unavailable_gpu_hours"] == pytest.approx(1)
    assert clusters.wasted("kept")["reserved"] == pytest.approx(EXAM + 3)


def test_accounts_of_a_reservation_can_pay_for_its_free_gpus(stores: Both) -> None:
    clusters, charged = stores
    assert charged.held("kept", "namespace") == pytest.approx({"nlp": (4 + EXAM / 2) * H, "cv": EXAM / 2 * H})
    assert charged.held("kept", "workload")["Reservation/exam"] == pytest.approx(EXAM * H)
    shown, paid = clusters.sums("kept"), charged.sums("kept")
    assert paid["idle_gpu_hours"] == pytest.approx(EXAM) and paid["node_cost"] == shown["node_cost"]
    assert paid["unallocated_gpu_hours"] == pytest.approx(shown["unallocated_gpu_hours"] - EXAM)
    assert charged.wasted("kept")["reserved"] == pytest.approx(EXAM + 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories_add_up(seed: int, stores: Both) -> None:
    """GPU-seconds by account to the second; allocated and unallocated parts add up to all hours and cost of the nodes."""
    clusters, charged = stores
    name, expected = f"{seed}", dict[str | None, float](nlp=0, cv=0)
    for one in history(seed):
        gpus = int(one["AllocTRES"].rpartition("gres/gpu=")[2].partition(",")[0])
        expected[one["Account"]] += gpus * one["ElapsedRaw"]
    sums, paid = clusters.sums(name), charged.sums(name)
    rows = clusters.rows(name, "reservation")
    kept = sum(
        row.unallocated.unallocated_gpu_hours for row in rows if row.unallocated and row.keys["reservation"]
    )
    for one, shared in ((clusters, 0.0), (charged, kept * H / 2)):
        held = {key: value + shared for key, value in expected.items() if value or shared}
        assert one.held(name, "namespace") == pytest.approx(held, abs=0.01)
    capacity = pytest.approx(sums["capacity_gpu_hours"], abs=1e-6)
    assert sums["allocated_gpu_hours"] + sums["unallocated_gpu_hours"] == capacity
    assert sums["node_cost"] / 3.6 == capacity and paid["node_cost"] == sums["node_cost"]
    assert sums["over_allocated_gpu_hours"] == 0
    for totals in (sums, paid):
        assert totals["cost"] + totals["unallocated_cost"] == pytest.approx(totals["node_cost"], abs=1e-9)
