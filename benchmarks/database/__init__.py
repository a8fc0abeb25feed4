"""Benchmarks of the database: writing, querying, storing and moving samples."""
