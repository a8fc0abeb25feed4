"""Queries for charts: axes, curves, styles, the ledger."""
