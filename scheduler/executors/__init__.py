"""Where workloads run that do not run on this host: executors, and what is ours on both of their sides."""
