"""What to do about waste, ranked by money a month: who, why, what it saves, and the command that shows it (docs/findings.md)."""

from gpucost.findings.build import candidates
from gpucost.findings.kinds import KINDS
from gpucost.findings.ranking import ranked
from gpucost.findings.view import Answered, Candidate, Finding, Findings, Kind, Question

__all__ = ["KINDS", "Answered", "Candidate", "Finding", "Findings", "Kind", "Question", "candidates", "ranked"]
