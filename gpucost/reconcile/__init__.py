"""Where each billed GPU dollar went: the bill beside what was attributed."""

from gpucost.reconcile.build import reconcile
from gpucost.reconcile.view import DIMENSIONS, Reconciliation

__all__ = ["DIMENSIONS", "Reconciliation", "reconcile"]
