"""Local stack: the services of one BENCH_HOME, and the processes of its exporters and rules."""
