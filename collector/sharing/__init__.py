"""Distribution of targets among several collectors."""
