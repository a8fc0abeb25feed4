"""Cost and benefit of collocation."""
