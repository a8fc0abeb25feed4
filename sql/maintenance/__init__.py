"""Maintenance of the database: aggregates, retention, background jobs, settings."""
