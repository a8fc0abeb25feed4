"""Grafana dashboards as functions that return Grafana's JSON model."""
