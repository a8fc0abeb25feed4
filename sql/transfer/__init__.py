"""Backups and capsules: files that carry data between databases."""
