"""Slurm's accounting: jobs, nodes, what happened to nodes, accounts and their shares."""
