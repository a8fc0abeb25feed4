"""Data frames, sample files and traces."""
