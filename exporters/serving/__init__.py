"""Registry of exporters, their HTTP server and the exposition format."""
