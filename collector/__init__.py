"""Scrapes targets, spools, tags and writes. Nothing else writes samples."""
