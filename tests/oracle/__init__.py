"""A second calculation of the bill, in plain Python and exact fractions: what was scraped, by the rules of the design alone."""

from tests.oracle.calculation import Bill, Figures, calculate
from tests.oracle.exact.prices import read_book

__all__ = ["Bill", "Figures", "calculate", "read_book"]
