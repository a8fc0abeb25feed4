"""Requests of users besides a schedule: one command, a preview, a repetition, a stop."""
