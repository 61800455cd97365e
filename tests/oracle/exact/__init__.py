"""The bill of what was scraped, to the sample: by the rules of the design alone, in plain Python and exact fractions."""
