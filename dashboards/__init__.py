"""Terminal views, Grafana dashboards, plots and reports."""
