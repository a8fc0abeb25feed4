"""The writer: samples are tagged and written to the database."""
