"""Commands that serve: the local stack, exporters, collector."""
