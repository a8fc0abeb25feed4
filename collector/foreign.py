"""Prometheus's fields that we do not have: those that do not concern scraping, and those that are refused."""

from __future__ import annotations

__all__ = ["GLOBAL", "GLOBAL_PASSED_OVER", "JOB", "PASSED_OVER", "SECTIONS", "TLS", "WEB"]

# Of others' concern: rules, alerts, storage and sending.
PASSED_OVER = (
    "alerting", "otlp", "remote_read", "remote_write", "rule_files", "storage", "tracing",
)  # fmt: skip
GLOBAL_PASSED_OVER = (
    "evaluation_interval", "external_labels", "query_log_file", "rule_query_offset", "scrape_failure_log_file",
    "keep_dropped_targets",
)  # fmt: skip
SECTIONS = ("scrape_config_files", "runtime")
_PROTOCOLS = (
    "scrape_protocols", "fallback_scrape_protocol", "scrape_classic_histograms", "always_scrape_classic_histograms",
    "scrape_native_histograms", "convert_classic_histograms_to_nhcb", "native_histogram_bucket_limit",
    "native_histogram_min_bucket_factor", "metric_name_validation_scheme", "metric_name_escaping_scheme",
    "extra_scrape_metrics", "target_limit",
)  # fmt: skip
GLOBAL = _PROTOCOLS
WEB = (
    "oauth2", "proxy_url", "no_proxy", "proxy_from_environment", "proxy_connect_header", "http_headers", "enable_http2",
)  # fmt: skip
JOB = (
    *_PROTOCOLS, *WEB, "enable_compression", "keep_dropped_targets", "scrape_failure_log_file",
    "track_timestamps_staleness",
    *(
        f"{kind}_sd_configs"
        for kind in (
            "aws", "azure", "consul", "digitalocean", "dns", "docker", "dockerswarm", "ec2", "eureka", "gce", "hetzner",
            "ionos", "kubernetes", "kuma", "lightsail", "linode", "marathon", "nerve", "nomad", "openstack",
            "ovhcloud", "puppetdb", "scaleway", "serverset", "stackit", "triton", "uyuni", "vultr",
        )
    ),
)  # fmt: skip
TLS = ("min_version", "max_version", "ca_ref", "cert_ref", "key_ref")
