"""Supervisor process of a run."""
