"""``python -m bench.cli``: the same command without an entry point, for the services of the stack."""

from bench.cli import main

main()
