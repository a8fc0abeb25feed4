"""PostgreSQL servers, including the embedded server, and connections to them."""
