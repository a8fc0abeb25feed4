"""What one looks at: terminal views now, Grafana, plots and reports later."""
