"""Commands that query the database."""
