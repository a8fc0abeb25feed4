"""The collector scrapes targets, spools, tags and writes samples. Nothing else writes samples."""
