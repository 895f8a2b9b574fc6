"""`python -m cli`: the same program as the console script `deletion-sync`."""

from cli.main import main

main()
