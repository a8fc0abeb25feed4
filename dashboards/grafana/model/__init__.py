"""Grafana's JSON model: panels, fields, variables, layout."""
