"""HTTP servers of metrics, with TLS and authentication as in Prometheus's own exporters."""
