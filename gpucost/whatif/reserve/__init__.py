"""Commitments: how many nodes are worth paying for around the clock, of which kind, and what if usage falls."""

from gpucost.whatif.reserve.answer import answer
from gpucost.whatif.reserve.choice import Choice
from gpucost.whatif.reserve.covered import Commitment, Existing, read_commitments
from gpucost.whatif.reserve.families import Family, Use, families_of, family_name
from gpucost.whatif.reserve.offers import Offer, Terms, committed_price, parse_terms

__all__ = [
    "Choice",
    "Commitment",
    "Existing",
    "Family",
    "Offer",
    "Terms",
    "Use",
    "answer",
    "committed_price",
    "families_of",
    "family_name",
    "parse_terms",
    "read_commitments",
]
