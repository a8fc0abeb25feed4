"""Energy of parts of a host, split among its runs by their CPU time."""
