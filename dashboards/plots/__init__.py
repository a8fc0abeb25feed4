"""Pictures of charts that need no server: figures for papers and slides, and pages that people can zoom into."""
