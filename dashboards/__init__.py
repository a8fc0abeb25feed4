"""Everything that people look at: terminal views, Grafana, plots and reports."""
