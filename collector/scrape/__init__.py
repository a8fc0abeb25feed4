"""The scrape loop, HTTP requests and the parser of responses."""
