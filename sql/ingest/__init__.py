"""Samples, targets and software metrics on their way in."""
