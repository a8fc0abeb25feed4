"""Collector: scrapes targets, spools, tags and writes samples. No other component writes samples."""
