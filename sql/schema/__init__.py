"""The schema in its two flavours: migrations and functions."""
