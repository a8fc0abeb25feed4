"""Fields of a prometheus.yml that the collector ignores or refuses."""

from __future__ import annotations

__all__ = [
    "GLOBAL_IGNORED",
    "IGNORED",
    "JOB_IGNORED",
    "JOB_UNSUPPORTED",
    "TLS_UNSUPPORTED",
    "UNSUPPORTED",
    "WEB_IGNORED",
    "WEB_UNSUPPORTED",
]

# As of prometheus/prometheus at d15adb9ad7e5 (August 2026), docs/configuration/configuration.md, with the names of
# older releases. Ignored fields change neither the scraped data nor the access to a target.
IGNORED = (
    "alerting", "otlp", "remote_read", "remote_write", "rule_files", "runtime", "storage", "tracing",
)  # fmt: skip
UNSUPPORTED = ("scrape_config_files",)

# Formats of responses and of histograms: the collector reads the text formats.
_FORMATS = (
    "scrape_protocols", "fallback_scrape_protocol", "scrape_native_histograms", "always_scrape_classic_histograms",
    "scrape_classic_histograms", "convert_classic_histograms_to_nhcb", "native_histogram_bucket_limit",
    "native_histogram_min_bucket_factor", "metric_name_validation_scheme", "metric_name_escaping_scheme",
)  # fmt: skip
_BOOKKEEPING = ("scrape_failure_log_file", "keep_dropped_targets", "extra_scrape_metrics", "target_limit")
GLOBAL_IGNORED = (
    *_FORMATS, *_BOOKKEEPING, "evaluation_interval", "rule_query_offset", "external_labels", "query_log_file",
)  # fmt: skip

WEB_IGNORED = ("enable_http2",)
WEB_UNSUPPORTED = ("oauth2", "proxy_url", "no_proxy", "proxy_from_environment", "proxy_connect_header", "http_headers")
JOB_IGNORED = (*_FORMATS, *_BOOKKEEPING, *WEB_IGNORED, "enable_compression", "track_timestamps_staleness")
JOB_UNSUPPORTED = (
    *WEB_UNSUPPORTED,
    *(
        f"{kind}_sd_configs"
        for kind in (
            "aws", "azure", "consul", "digitalocean", "dns", "docker", "dockerswarm", "ec2", "eureka", "gce", "hetzner",
            "ionos", "kubernetes", "kuma", "lightsail", "linode", "marathon", "nerve", "nomad", "oci", "openstack",
            "outscale", "ovhcloud", "puppetdb", "scaleway", "serverset", "stackit", "triton", "uyuni", "vultr",
        )
    ),
)  # fmt: skip
TLS_UNSUPPORTED = ("min_version", "max_version", "ca_ref", "cert_ref", "key_ref")
