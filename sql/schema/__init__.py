"""Database schema in two flavours: migrations and functions."""
