"""The registry of exporters, their HTTP server and the text format."""
