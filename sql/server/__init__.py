"""PostgreSQL servers, the embedded one too, and connections to them."""
