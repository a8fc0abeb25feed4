"""Durable queue of scraped samples on disk."""
