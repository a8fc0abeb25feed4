"""Every SQL statement of the product, the schema in its two flavours, the connection and the embedded server."""
