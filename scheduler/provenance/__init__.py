"""The record of a run: packages, source code, hardware."""
