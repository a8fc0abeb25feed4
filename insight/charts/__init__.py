"""Data of charts, and the views that select it."""
