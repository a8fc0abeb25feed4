"""Ingest of samples, targets and software metrics."""
