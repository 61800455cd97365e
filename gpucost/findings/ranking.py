"""From candidates to findings: each GPU-hour's waste goes to one of them, small ones are left out, the dearest stand first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpucost.findings.kinds import BY_NAME, KINDS
from gpucost.findings.view import Answered, Candidate, Claim, Finding, Findings, Question

_ORDER = {kind.name: place for place, kind in enumerate(KINDS)}
_EVERY = "*"


def ranked(
    candidates: Iterable[Candidate],
    answers: Mapping[Question, Answered],
    *,
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Findings:
    """Findings of `minimum` or more a month; `months` is how many the period stands for, `period` the words that name it.

    Candidates are taken by kind, in the order of KINDS, then by saving. One that lays claim to what an earlier one has is
    dropped; one under the minimum leaves its claims to others.
    """
    chosen = sorted(((one, _best(one, answers)) for one in candidates), key=lambda pair: _first_to_claim(*pair))
    taken: set[Claim] = set()
    kept: list[tuple[Candidate, Answered | None, Decimal]] = []
    passed_over = 0
    for one, answer in chosen:
        saving = answer.saving if answer else Decimal(0) if one.questions else one.waste_cost
        if _meets(one.claims, taken):
            continue
        if saving <= 0 or saving / months < minimum:
            passed_over += saving > 0
            continue
        taken |= one.claims
        kept.append((one, answer, saving))
    kept.sort(key=lambda item: (-item[2], _ORDER[item[0].kind], item[0].cluster, item[0].namespace or "", item[0].subject))
    return Findings(tuple(_finding(rank, *item, months, period) for rank, item in enumerate(kept, start=1)), minimum, passed_over)


def _best(candidate: Candidate, answers: Mapping[Question, Answered]) -> Answered | None:
    found = [answers[question] for question in candidate.questions if question in answers]
    return max(found, key=lambda answer: answer.saving, default=None)


def _first_to_claim(one: Candidate, answer: Answered | None) -> tuple[int, Decimal, str, str, str]:
    saving = answer.saving if answer else one.waste_cost
    return _ORDER[one.kind], -saving, one.cluster, one.namespace or "", one.subject


def _meets(claims: frozenset[Claim], taken: set[Claim]) -> bool:
    whole = {claim[:3] for claim in taken if claim[3] == _EVERY}
    parts = {claim[:3] for claim in taken}
    return any(claim in taken or claim[:3] in (parts if claim[3] == _EVERY else whole) for claim in claims)


def _finding(
    rank: int, one: Candidate, answer: Answered | None, saving: Decimal, months: Decimal, period: tuple[str, ...]
) -> Finding:
    kind = BY_NAME[one.kind]
    return Finding(
        rank=rank,
        kind=one.kind,
        title=kind.title,
        cluster=one.cluster,
        namespace=one.namespace,
        team=one.team,
        subject=one.subject,
        evidence=one.evidence,
        begins=one.begins,
        ends=one.ends,
        gpu_hours=one.gpu_hours,
        waste_gpu_hours=one.waste_gpu_hours,
        utilization=one.utilization,
        cost=answer.cost if answer else one.cost,
        saving=saving,
        saving_per_month=round(saving / months, 9),
        is_bound=answer is None,
        command=answer.question.words(period) if answer else None,
        advice=kind.advice,
    )
