"""The schema in its two flavours: migrations, functions, aggregates."""
