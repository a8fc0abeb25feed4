"""Processes, their control groups, and time on this host."""
