"""Reports: one page per experiment."""
