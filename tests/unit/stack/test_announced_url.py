"""Address of an exporter, as it announces it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hypergauge.collector.discovery.announced import labels, reachable
from hypergauge.collector.discovery.config_file import read_config
from hypergauge.collector.discovery.targets import populate
from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest.announcements import Announcement
from hypergauge.stack.services.announcer import announced_url

NAME = socket.gethostname()


@pytest.mark.parametrize(
    ("served", "given", "url"),
    [
        ("http://127.0.0.1:9701/metrics", None, "http://127.0.0.1:9701/metrics"),
        ("http://10.1.2.3:9701/metrics", None, "http://10.1.2.3:9701/metrics"),
        ("http://0.0.0.0:9701/metrics", None, f"http://{NAME}:9701/metrics"),
        ("https://[::]:9701/metrics", None, f"https://{NAME}:9701/metrics"),
        ("http://0.0.0.0:9701/metrics", "n7.lab", "http://n7.lab:9701/metrics"),
        ("http://0.0.0.0:9701/metrics", "n7.lab:80", "http://n7.lab:80/metrics"),
        ("http://0.0.0.0:9701/metrics", "[fd00::7]", "http://[fd00::7]:9701/metrics"),
        ("http://0.0.0.0:9701/metrics", "https://n7/host?x=1", "https://n7/host?x=1"),
    ],
)
def test_where_others_reach_it(served: str, given: str | None, url: str) -> None:
    assert announced_url(served, given) == url


@pytest.mark.parametrize(
    "given", ["", "n7/metrics", "ftp://n7", "http://", "http://n7:0", "http://n7:x", "a b", "fd00::7"]
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(BadRequest, match="write host, host:port or http://host:"):
        announced_url("http://0.0.0.0:9701/metrics", given)


def test_a_login_is_not_taken_and_not_shown() -> None:
    with pytest.raises(BadRequest, match="--announce") as refused:
        announced_url("http://0.0.0.0:9701/metrics", "http://me:hunter2@n7/metrics")
    assert "hunter2" not in str(refused.value)


def test_what_is_on_a_hosts_loopback_is_its_own_and_of_several_the_first_counts() -> None:
    own, others = (Announcement(host, "host", "http://127.0.0.1:9701/metrics") for host in (NAME, "n7"))
    addressed = Announcement("n7", "host", "http://n7:9701/metrics")
    later = Announcement("n7", "host", "http://n7:40001/metrics")
    gpus = Announcement("n7", "nvml", "http://n7:9703/metrics")
    assert list(reachable([own, others, addressed, later, gpus])) == [own, addressed, gpus]


def test_an_announced_exporter_is_a_target_of_its_own_job_and_host(tmp_path: Path) -> None:
    file = tmp_path / "targets.yml"
    file.write_text("scrape_configs: [{job_name: site, announced_sd_configs: [{}]}]")
    [config] = read_config(file, 1.0)
    target = populate(config, labels(Announcement("n7", "host", "https://10.0.0.7:9701/x?kind=a")))
    assert target is not None
    assert (target.key, target.url) == (("n7", "host", "10.0.0.7:9701"), "https://10.0.0.7:9701/x?kind=a")
