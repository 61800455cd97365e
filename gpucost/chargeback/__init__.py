"""The month's bundle for finance and teams: reports, index, ledger and FOCUS file; see docs/chargeback.md."""

from gpucost.chargeback.build import Ask, Bundle, build
from gpucost.chargeback.write import write

__all__ = ["Ask", "Bundle", "build", "write"]
