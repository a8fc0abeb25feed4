"""What one looks at: terminal views now, Grafana, plots and reports later."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
