"""Plan of a schedule: runs to start, their order, retries and checks."""
