"""Services of the local stack: their processes, their start, upkeep and stop."""
