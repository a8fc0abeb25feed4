"""Targets files in Prometheus's formats, and errors with their position."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path

import pytest

from hypergauge.collector.discovery.discovery import check_targets, read_targets
from hypergauge.collector.discovery.targets import Target, aligned, crowded, offset, slot_after
from hypergauge.core.errors import BadRequest


def read(tmp_path: Path, text: str, name: str = "nodes.yml") -> list[Target]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_targets(path, default_interval=2.0)


def test_a_file_of_prometheus(tmp_path: Path) -> None:
    text = """\
- targets: ['n1:9100', n2:9101]
  labels:
    job: node
    rack: 7
    __scheme__: https
    __metrics_path__: /stats/metrics
    __scrape_interval__: 5s
    __param_collect: cpu & disk
    __meta_datacenter: x
- targets:
  - 10.0.0.3:9400
"""
    first, second, third = read(tmp_path, text)
    assert first == Target(
        url="https://n1:9100/stats/metrics?collect=cpu+%26+disk",
        host="n1",
        listener="node",
        instance="n1:9100",
        labels={"job": "node", "rack": "7", "instance": "n1:9100"},
        interval=5.0,
    )
    assert (second.host, second.instance) == ("n2", "n2:9101")
    labels = {"job": "nodes", "instance": "10.0.0.3:9400"}
    assert third == Target("http://10.0.0.3:9400/metrics", "10.0.0.3", "nodes", "10.0.0.3:9400", labels, 2.0)


def test_json_with_tabs_and_a_label_in_any_script(tmp_path: Path) -> None:
    groups = [{"targets": ["n1:9100"], "labels": {"job": "nöde"}}]
    [target] = read(tmp_path, json.dumps(groups, indent="\t"), "nodes.json")
    assert target.listener == "nöde"


@pytest.mark.parametrize("text", ["[]", "- targets: []\n", "- targets: []\n  labels: {}\n"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


@pytest.mark.parametrize(
    ("address", "labels", "host", "url"),
    [
        ("n1:9100", "{}", "n1", "http://n1:9100/metrics"),
        ("n1.lab.example:9100", "{}", "n1.lab.example", "http://n1.lab.example:9100/metrics"),
        ("n1", "{}", "n1", "http://n1:80/metrics"),
        ("n1", "{__scheme__: https}", "n1", "https://n1:443/metrics"),
        ("'[2001:db8::1]:9100'", "{}", "2001:db8::1", "http://[2001:db8::1]:9100/metrics"),
        ("proxy:9100", "{host: n7}", "n7", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'n8:9100'}", "n8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: n8}", "n8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: n8, host: n9}", "n9", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: the one upstairs}", "proxy", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'https://n8:9400/metrics'}", "n8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'https://n8.lab.example'}", "n8.lab.example", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'http://me:secret@N8:9400/?x=1'}", "N8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'n8:9400/metrics'}", "n8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'n8/metrics'}", "n8", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'https://[2001:db8::1]:9400/metrics'}", "2001:db8::1", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: '[2001:db8::1]:9400'}", "2001:db8::1", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: '2001:db8::1'}", "2001:db8::1", "http://proxy:9100/metrics"),
        (
            "proxy:9100",
            "{instance: 'https://localhost:9400/metrics'}",
            socket.gethostname(),
            "http://proxy:9100/metrics",
        ),
        ("proxy:9100", "{instance: '[::1]:9100'}", socket.gethostname(), "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'https:///metrics'}", "proxy", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'gpu:of:the:first'}", "proxy", "http://proxy:9100/metrics"),
        ("proxy:9100", "{instance: 'unix:///run/x.sock'}", "proxy", "http://proxy:9100/metrics"),
        ("localhost:9100", "{}", socket.gethostname(), "http://localhost:9100/metrics"),
        ("127.0.0.1:9100", "{}", socket.gethostname(), "http://127.0.0.1:9100/metrics"),
        ("'[::1]:9100'", "{}", socket.gethostname(), "http://[::1]:9100/metrics"),
    ],
)
def test_the_host_of_a_target(tmp_path: Path, address: str, labels: str, host: str, url: str) -> None:
    [target] = read(tmp_path, f"- targets: [{address}]\n  labels: {labels}\n")
    assert (target.host, target.url) == (host, url)


@pytest.mark.parametrize(
    ("text", "seconds"), [("100ms", 0.1), ("1s", 1), ("1s500ms", 1.5), ("1m", 60), ("60s", 60), ("0m30s", 30)]
)
def test_intervals_are_prometheus_durations(tmp_path: Path, text: str, seconds: float) -> None:
    [target] = read(tmp_path, f"- targets: [a:1]\n  labels: {{__scrape_interval__: {text}}}\n")
    assert target.interval == seconds


BAD = [
    ("", "", "holds no list of targets"),
    ("# nothing\n", "", "holds no list of targets"),
    ("targets: [a:1]\n", "1:1", "expected a list of groups, each with targets and labels"),
    ("just words\n", "1:1", "expected a list of groups"),
    ("- a:1\n", "1:3", "expected a group, with targets and labels"),
    ("- labels: {job: x}\n", "1:3", "targets is missing"),
    ("- target: [a:1]\n", "1:3", "unknown key 'target' (did you mean 'targets'?)"),
    ("- targets: [a:1]\n  label: {}\n", "2:3", "unknown key 'label' (did you mean 'labels'?)"),
    ("- targets: [a:1]\n  targets: [b:1]\n", "2:3", "'targets' stands here twice"),
    ("- targets: a:1\n", "1:12", "expected a list of targets, each as host:port"),
    ("- targets:\n  - [a:1]\n", "2:5", "expected a string"),
    (
        "- targets: ['http://a:1/m']\n",
        "1:13",
        "'http://a:1/m' has a scheme: write 'a:1', and https as the label __scheme__",
    ),
    ("- targets: ['a:1/m']\n", "1:13", "'a:1/m' has a path: write 'a:1', and the path as the label __metrics_path__"),
    ("- targets: [a:b]\n", "1:13", "the port of 'a:b' is not a number from 1 to 65535"),
    ("- targets: ['a:']\n", "1:13", "the port of 'a:' is not a number from 1 to 65535"),
    ("- targets: [a:1, a:65536]\n", "1:18", "the port of 'a:65536' is not a number from 1 to 65535"),
    ("- targets: ['::1:9100']\n", "1:13", "'::1:9100' is not a target: write host:port, or [address]:port for IPv6"),
    ("- targets: ['a b:1']\n", "1:13", "'a b:1' is not a target"),
    ("- targets: ['']\n", "1:13", "'' is not a target"),
    ("- targets: [a:1]\n- targets:\n  - b:1\n  - a:1\n", "4:5", "target 'a:1' stands already in line 1"),
    ("- targets: [a:1]\n  labels: [job]\n", "2:11", "expected labels, each as name: value"),
    ("- targets: [a:1]\n  labels: {on: [1]}\n", "2:16", "expected a string"),
    ('- targets: [a:1]\n  labels: {rack: "a\\0b"}\n', "2:18", r"'a\x00b' cannot be a label's value"),
    ('- targets: [a:1]\n  labels: {rack: "a\\ud800"}\n', "2:18", r"'a\ud800' cannot be a label's value"),
    ("- targets: [a:1]\n  labels: {'': x}\n", "2:12", "'' cannot be a label's name"),
    ("- targets: [a:1]\n  labels: {a: x, a: y}\n", "2:18", "'a' stands here twice"),
    (
        "- targets: [a:1]\n  labels: {__scheme__: htps}\n",
        "2:24",
        "unknown scheme 'htps' (did you mean 'http",
    ),
    ("- targets: [a:1]\n  labels: {__metrics_path__: metrics}\n", "2:30", "'metrics' is not a path"),
    (
        "- targets: [a:1]\n  labels: {__metrics_path__: '/m?x=1'}\n",
        "2:30",
        "its parameters are labels __param_NAME",
    ),
    ("- targets: [a:1]\n  labels: {__scrape_interval__: soon}\n", "2:33", "'soon' is not an interval: write 500ms"),
    ("- targets: [a:1]\n  labels: {__scrape_interval__: 0.5s}\n", "2:33", "'0.5s' is not an interval"),
    ("- targets: [a:1]\n  labels: {__scrape_interval__: '5'}\n", "2:33", "'5' is not an interval"),
    ("- targets: [a:1]\n  labels: {__scrape_interval__: 99ms}\n", "2:33", "must lie between 100ms and 1m"),
    ("- targets: [a:1]\n  labels: {__scrape_interval__: 2m}\n", "2:33", "the interval is 2m, but must lie"),
    ("- targets: ['a:1\n", "2:1", "not valid YAML: found unexpected end of stream"),
    ("- targets: [a:1]\n   labels: {}\n", "2:4", "not valid YAML"),
    ("[]\n---\n[]\n", "2:1", "not valid YAML"),
    ("- targets: [a:1\x07]\n", "", "not valid YAML"),
]


@pytest.mark.parametrize(("text", "where", "message"), BAD)
def test_errors_of_a_file_have_their_position(tmp_path: Path, text: str, where: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path / 'nodes.yml'}:{where}")
    assert message in str(refused.value)
    assert refused.value.exit_status == 2


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    for name, message in [("absent.yml", "No such file"), ("binary.yml", "UTF-8"), (".", "Is a directory")]:
        with pytest.raises(BadRequest, match=message):
            check_targets(tmp_path / name)


@pytest.mark.parametrize("together", [True, False])
def test_offsets_are_constant_and_spread_over_the_interval(together: bool) -> None:
    targets = [_node_exporter(f"n{number}", 9100, 5.0) for number in range(1000)]
    offsets = sorted(offset(target, together=together) for target in targets)
    assert offsets == sorted(offset(target, together=together) for target in targets)
    assert offsets[0] >= 0
    assert offsets[-1] < 5
    assert max(later - earlier for earlier, later in itertools.pairwise(offsets)) < 0.1


def test_targets_of_a_host_are_scraped_together_whatever_their_intervals() -> None:
    every_second = offset(_node_exporter("n1", 9100, 1.0))
    for interval in (0.5, 1.0, 5.0, 60.0):
        other = offset(_node_exporter("n1", 9400, interval))
        assert other % min(interval, 1.0) == pytest.approx(every_second % min(interval, 1.0))
    assert offset(_node_exporter("n1", 9400, 1.0), together=False) != pytest.approx(every_second)


def test_a_host_is_crowded_from_17_targets_on() -> None:
    some = [_node_exporter("n1", 9100 + number, 1.0) for number in range(16)]
    assert crowded([*some, _node_exporter("n2", 9100, 1.0)]) == set()
    assert crowded([*some, _node_exporter("n1", 9200, 1.0)]) == {"n1"}


def _node_exporter(host: str, port: int, interval: float) -> Target:
    return Target(f"http://{host}:{port}/metrics", host, "node", f"{host}:{port}", {}, interval)


@pytest.mark.parametrize(
    ("actual", "interval", "time"),
    [
        (100.0, 1.0, 100.0),
        (100.009, 1.0, 100.0),
        (99.991, 1.0, 100.0),
        (100.011, 1.0, 100.011),
        (100.0009, 0.1, 100.0),
        (100.002, 0.1, 100.002),
        (100.011, 60.0, 100.011),
    ],
)
def test_a_scrape_near_its_schedule_has_the_scheduled_time(actual: float, interval: float, time: float) -> None:
    assert aligned(100.0, actual, interval) == time


@pytest.mark.parametrize(
    ("by_now", "following"),
    [
        (7.1, 8),  # early enough
        (8.0, 8),
        (8.49, 8),  # started late
        (8.51, 9),  # skipped
        (12.6, 13),
    ],
)
def test_a_slightly_late_scrape_is_not_skipped(by_now: float, following: int) -> None:
    assert slot_after(7, by_now) == following
