"""Energy of GPUs and of parts of a host, split among runs."""
