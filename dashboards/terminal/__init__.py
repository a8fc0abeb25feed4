"""Tables and live views for the terminal."""
