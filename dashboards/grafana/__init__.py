"""Grafana dashboards as Python functions that return what Grafana's JSON model asks for."""
