"""Command lines and environments of runs."""
