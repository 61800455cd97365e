"""`python -m gpucost`."""

from gpucost.cli.main import main

main()
