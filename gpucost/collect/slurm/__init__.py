"""Slurm's accounting: jobs, nodes, node events, accounts and their shares."""
