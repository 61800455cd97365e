"""A second calculation of the bill from the scrapes, in plain Python and exact fractions, by the rules of the design."""

from tests.oracle.calculation import Bill, Figures, calculate
from tests.oracle.exact.prices import read_book

__all__ = ["Bill", "Figures", "calculate", "read_book"]
