"""Targets files and service discovery, with Prometheus's fields and defaults."""
