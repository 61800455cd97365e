"""`python -m gpucost`."""

from gpucost.cli.app import main

main()
