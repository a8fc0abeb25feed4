"""prometheus.yml as a targets file: the semantics of Prometheus, and errors with their position."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.collector.discovery.config_file import read_config
from hypergauge.collector.discovery.discovery import read_targets
from hypergauge.collector.discovery.scrape_config import Announced, Limits, ScrapeConfig, Web
from hypergauge.core.errors import BadRequest


def read(tmp_path: Path, text: str) -> tuple[ScrapeConfig, ...]:
    path = tmp_path / "prometheus.yml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, default_interval=2.0)


def job(text: str) -> str:
    """Return a configuration with one job, which starts at line 2, column 5; `text` starts at line 3."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f"scrape_configs:\n  - job_name: x\n{lines}"


def test_a_jobs_settings(tmp_path: Path) -> None:
    text = """\
global:
  scrape_interval: 10s
  scrape_timeout: 8s
  sample_limit: 1000
scrape_configs:
  - job_name: all
    scrape_interval: 5s
    honor_labels: true
    honor_timestamps: false
    body_size_limit: 10MB
    label_limit: 30
    label_name_length_limit: 40
    label_value_length_limit: 200
    basic_auth: {username: me, password_file: secret.txt}
    tls_config: {ca_file: /ca.pem, server_name: n1, insecure_skip_verify: true}
    follow_redirects: false
    file_sd_configs: [{files: [nodes/*.json], refresh_interval: 1m}]
    http_sd_configs: [{url: "https://sd/targets", authorization: {type: Token, credentials: abc}}]
    announced_sd_configs: [{}]
  - job_name: bare
"""
    one, bare = read(tmp_path, text)
    assert (one.interval, one.timeout) == (5.0, 5.0)
    assert (bare.interval, bare.timeout) == (10.0, 8.0)
    scraping = one.scraping
    assert (scraping.honor_labels, scraping.honor_timestamps) == (True, False)
    assert scraping.limits == Limits(10 << 20, 1000, 30, 40, 200)
    assert bare.scraping.limits == Limits(sample_limit=1000)
    access = scraping.access
    assert access.password is not None
    assert access.password.file == tmp_path / "secret.txt"
    assert access.tls is not None
    assert (access.tls.server_name, access.tls.insecure_skip_verify, access.follow_redirects) == ("n1", True, False)
    assert (one.files[0].patterns, one.files[0].refresh_interval) == (("nodes/*.json",), 60.0)
    web, *others = one.services
    assert others == [Announced()]
    assert isinstance(web, Web)
    assert web.access.headers() == {"Authorization": "Token abc"}
    assert (bare.metrics_path, bare.scheme, bare.scraping.honor_labels) == ("/metrics", "http", False)


def test_the_default_interval_is_the_collectors(tmp_path: Path) -> None:
    [one] = read(tmp_path, job(""))
    assert (one.interval, one.timeout) == (2.0, None)


def test_other_sections_are_ignored(tmp_path: Path) -> None:
    text = "global: {evaluation_interval: 1m, external_labels: {a: b}}\nrule_files: [x]\nremote_write: [{url: 'http://x'}]\n"
    assert len(read(tmp_path, text + job(""))) == 1


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    text = job(
        "basic_auth: {username: me, password: hunter2}\nhttp_sd_configs: [{url: 'http://sd', bearer_token: hunter2}]\n"
        "tls_config: {cert: hunter2, key: hunter2, ca: hunter2}\nstatic_configs: [{targets: ['n1:1']}]"
    )
    configs = read(tmp_path, text)
    [target] = read_targets(tmp_path / "prometheus.yml", 1.0)
    assert "hunter2" not in f"{configs!r} {target!r} {target.public()!r} {target.scraping!r}"
    tls = target.scraping.access.tls
    assert tls is not None
    with pytest.raises(Exception, match="what tls_config holds is not what TLS needs") as refused:
        tls.context()
    assert "hunter2" not in str(refused.value)


PROMETHEUS = Path(__file__).parents[2] / "data" / "prometheus"


@pytest.mark.parametrize(
    ("file", "targets", "ignored"),
    [
        ("example", 1, {"evaluation_interval", "alerting", "rule_files", "scrape_native_histograms"}),
        ("debian", 2, {"evaluation_interval", "external_labels", "alerting", "rule_files"}),
        (
            "conf",
            3,
            {
                "alerting", "otlp", "remote_read", "remote_write", "rule_files", "runtime", "storage", "tracing",
                "always_scrape_classic_histograms", "convert_classic_histograms_to_nhcb", "enable_compression",
                "enable_http2", "evaluation_interval", "external_labels", "extra_scrape_metrics",
                "fallback_scrape_protocol", "keep_dropped_targets", "metric_name_escaping_scheme",
                "metric_name_validation_scheme", "native_histogram_bucket_limit", "native_histogram_min_bucket_factor",
                "query_log_file", "rule_query_offset", "scrape_failure_log_file", "scrape_native_histograms",
                "scrape_protocols", "target_limit", "track_timestamps_staleness",
            },
        ),
    ],
)  # fmt: skip
def test_ignored_fields_give_one_notice(file: str, targets: int, ignored: set[str]) -> None:
    notices: list[str] = []
    found = read_targets(PROMETHEUS / f"{file}.good.yml", 1.0, notices.append)
    assert len(found) == targets
    [notice] = notices
    about, _, named = notice.partition(": ")
    assert about.startswith(f"{PROMETHEUS / file}.good.yml")
    assert set(named.split(", ")) == ignored


def test_without_ignored_fields_there_is_no_notice(tmp_path: Path) -> None:
    notices: list[str] = []
    path = tmp_path / "prometheus.yml"
    path.write_text(job("static_configs: [{targets: [a:1]}]"))
    assert len(read_targets(path, 1.0, notices.append)) == 1
    assert notices == []


def test_all_errors_are_reported_together() -> None:
    path = PROMETHEUS / "conf.bad.yml"
    with pytest.raises(BadRequest) as refused:
        read_targets(path, 1.0)
    problems = [line.removeprefix(f"{path}:").partition(": ") for line in str(refused.value).splitlines()]
    assert [(where, problem.partition(" (")[0]) for where, _, problem in problems] == [
        ("5:3", "unknown key 'nonexistent_field'"),
        ("7:1", "'scrape_config_files' is a field of Prometheus's that is not supported here"),
        ("13:5", "'http_headers' is a field of Prometheus's that is not supported here"),
        ("17:16", "not a regular expression of RE2: missing ): abc(def"),
        ("18:9", "hashmod needs a modulus above 0"),
        ("23:18", "'' cannot be a label's name: it is empty, or contains invalid UTF-8 or a NUL"),
        ("25:14", "job_name is missing"),
        ("29:21", "the timeout must lie above 0 and not above the interval, 5s"),
        ("30:5", "unknown key 'consult_sd_configs'"),
        ("32:5", "'consul_sd_configs' is a field of Prometheus's that is not supported here"),
        ("37:5", "there is a second way to log in"),
    ]


def test_all_errors_of_named_files_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text("- targets: [a/b, 'c:x', d:1]\n- targets: [e:1]\n  lables: {}\n")
    (tmp_path / "two.yml").write_text("[{target: [e]}]")
    path = tmp_path / "targets" / "prometheus.yml"
    path.parent.mkdir()
    text = job("static_configs: [{targets: [TARGETS]}]\nfile_sd_configs: [{files: ['../*.yml']}]")
    for targets, problems in (("f/g, h:1, 'http://i'", ["prometheus.yml:3:33", "prometheus.yml:3:43"]), ("h:1", None)):
        path.write_text(text.replace("TARGETS", targets))
        with pytest.raises(BadRequest) as refused:
            read_targets(path, 1.0)
        lines = [line.partition(": ")[0].rpartition("/")[2] for line in str(refused.value).splitlines()]
        assert lines == (problems or ["one.yml:1:13", "one.yml:1:18", "one.yml:3:3", "two.yml:1:3"])


BAD = [
    ("scrape_config: []", "1:1", "unknown key 'scrape_config' (did you mean 'scrape_configs'?)"),
    ("global: {}", "1:1", "scrape_configs is missing"),
    ("scrape_config_files: [x]", "1:1", "'scrape_config_files' is a field of Prometheus's that is not supported here"),
    ("global: {scrape_intervall: 1s}\nscrape_configs: []", "1:10", "did you mean 'scrape_interval'?"),
    ("scrape_configs: {}", "1:17", "expected a list of scrape configurations"),
    ("scrape_configs:\n  - scrape_interval: 1s", "2:5", "job_name is missing"),
    ("scrape_configs:\n  - job_name: x\n  - job_name: x", "3:15", "there are two jobs 'x'"),
    (job("metric_path: /x"), "3:5", "unknown key 'metric_path' (did you mean 'metrics_path'?)"),
    (job("kubernetes_sd_configs: []"), "3:5", "'kubernetes_sd_configs' is a field of Prometheus's that is not supported"),
    (job("proxy_url: http://x"), "3:5", "is a field of Prometheus's that is not supported here"),
    (job("scheme: htps"), "3:13", "unknown 'htps' (did you mean 'http"),
    (job("metrics_path: metrics"), "3:19", "'metrics' is not a path"),
    (job("scrape_interval: soon"), "3:22", "'soon' is not a duration"),
    (job("scrape_interval: 5m"), "3:22", "the interval is 300s, but must lie between 100ms and 1m"),
    (job("scrape_timeout: 3s"), "3:21", "the timeout must lie above 0 and not above the interval, 2s"),
    (job("honor_labels: maybe"), "3:19", "expected true or false"),
    (job("sample_limit: -1"), "3:19", "'-1' is not a whole number, 0 or more"),
    (job("body_size_limit: lots"), "3:22", "'lots' is not a size"),
    (job("basic_auth: {user: x}"), "3:18", "unknown key 'user' (did you mean 'username'?)"),
    (job("basic_auth: {password: x, password_file: y}"), "3:31", "there are both password and password_file"),
    (job("basic_auth: {username: x}\nbearer_token: y"), "4:5", "there is a second way to log in"),
    (job("authorization: {type: Basic}"), "3:27", "for the type Basic there is basic_auth"),
    (job("authorization: {type: 'a b'}"), "3:27", "the type of an authorization is one word"),
    (job("tls_config: {cert_file: x}"), "3:17", "a certificate and its key go together"),
    (job("tls_config: {min_version: TLS12}"), "3:18", "is a field of Prometheus's that is not supported here"),
    (job("relabel_configs: [{action: replase}]"), "3:32", "unknown 'replase' (did you mean 'replace'?)"),
    (job("relabel_configs: [{regexp: x}]"), "3:24", "unknown key 'regexp' (did you mean 'regex'?)"),
    (job("relabel_configs: [{regex: '('}]"), "3:31", "not a regular expression of RE2"),
    (job("metric_relabel_configs: [{regex: x}]"), "3:30", "replace needs a target_label"),
    (job("relabel_configs: [{source_labels: a, target_label: b}]"), "3:39", "expected a list of labels' names"),
    (job("file_sd_configs: [{}]"), "3:23", "files is missing"),
    (job("file_sd_configs: [{files: [x.txt]}]"), "3:32", "'x.txt' does not end in .json, .yml or .yaml"),
    (job("file_sd_configs: [{files: ['*/x.yml']}]"), "3:32", "has a wildcard that is not in its last part"),
    (job("announced_sd_configs: [{refresh: 1s}]"), "3:29", "unknown key 'refresh' (did you mean 'refresh_interval'?)"),
    (job("http_sd_configs: [{url: ftp://x}]"), "3:29", "not an address of a service discovery"),
    (job("http_sd_configs: [{url: 'http://me:secret@x'}]"), "3:29", "log in by basic_auth"),
    (job("static_configs: [{targets: ['a/b']}]"), "3:33", "'a/b' has a path"),
    (job("static_configs: [{targets: [a:1, a:1]}]"), "3:38", "target 'a:1' stands already in line 3"),
    (job("static_configs: [{targets: [a:1]}]\nrelabel_configs: [{target_label: __address__, replacement: ''}]"), "3:33", "not a target"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "where", "message"), BAD)
def test_errors_have_their_position(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_targets(path, 2.0)
    assert str(refused.value).startswith(f"{path}:{where}: ")
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)
