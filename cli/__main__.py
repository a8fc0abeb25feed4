"""``python -m hypergauge.cli``: the same command without an entry point, for the services of the stack."""

from hypergauge.cli import main

main()
