"""Queries for charts, summaries, reports and traces."""
