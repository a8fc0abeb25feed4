"""Provenance of a run: packages, source code, hardware."""
