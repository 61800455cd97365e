"""What the program answers and what its engine makes of fleets, held as it is: no change of the code may move it unseen.

The world in which it answers stands still: the clock, the program's version and the price catalog are this package's own.
"""
