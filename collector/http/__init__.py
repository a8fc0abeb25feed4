"""HTTP requests to targets, with credentials and TLS."""
