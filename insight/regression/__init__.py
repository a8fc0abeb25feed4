"""Regression tests of runs against earlier ones, over repetitions."""
