"""The files that training scripts import. They need the standard library alone."""
