"""The exact bill of the scrapes by the rules of the design, in plain Python and exact fractions."""
