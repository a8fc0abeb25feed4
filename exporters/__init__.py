"""Exporters: each reads one source into metric families, and all share one HTTP server."""
