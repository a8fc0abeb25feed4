"""Every SQL statement of the product: schema, servers, ingest, runs, queries, transfer."""
