"""What our servers of metrics share: HTTP, and TLS and logins as Prometheus's own exporters have them."""
