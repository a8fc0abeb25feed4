"""Every SQL statement of the product, the schema in its two flavours, the connection and the embedded server."""

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us
