"""A generator of sample fleets: metrics, Slurm's jobs and a bill of whole months.

Many tests use its fleets. `python -m tests.sample` writes ten weeks of one as the fixture that `gpucost demo` loads.
"""
