"""The report: one page per experiment."""
