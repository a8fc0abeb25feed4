"""The scrape loop and its targets."""
