"""Entry point ``python -m hypergauge.cli``, for the services of the stack."""

from hypergauge.cli import main

main()
