"""Where each billed dollar went: the bill beside what was attributed."""

from gpucost.reconcile.build import reconcile
from gpucost.reconcile.view import CENT, DIMENSIONS, Reconciliation, class_words, in_cents

__all__ = ["CENT", "DIMENSIONS", "Reconciliation", "class_words", "in_cents", "reconcile"]
