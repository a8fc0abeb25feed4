"""Settings, from flags, the environment and ``bench.toml``."""
