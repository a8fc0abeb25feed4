"""Questions to the database: charts, summaries, traces."""
