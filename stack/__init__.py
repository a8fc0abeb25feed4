"""The local stack: services that a host runs for its BENCH_HOME, and the processes of its exporters and rules."""
