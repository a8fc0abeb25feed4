"""Listeners: each a pure reading of one source into metric families, and the one HTTP server that they share."""
