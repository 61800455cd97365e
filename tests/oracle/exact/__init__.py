"""The bill of what was scraped, to the sample: by the rules of the design alone, in plain Python and exact fractions.

The calculation beside it (tests/oracle) works from a fleet's description, and tells the physical truth within what scraping can
know; this one knows only the samples, and nothing of it may be off.
"""

from tests.oracle.exact.bill import Bill, Rules, exact_bill

__all__ = ["Bill", "Rules", "exact_bill"]
