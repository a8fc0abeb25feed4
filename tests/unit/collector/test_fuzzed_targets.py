"""Hostile targets files and responses of discovery: each is read, or refused with its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hypergauge.collector.discovery.config_file import read_config
from hypergauge.collector.discovery.discovery import read_targets
from hypergauge.core.errors import BadRequest
from tests.support.fuzzing import damaged_bytes, fuzzed, mutated, refusal

GROUPS = [
    {"targets": ["node1:9100", "[2001:db8::1]:9400"], "labels": {"job": "node", "host": "node1", "__scrape_interval__": "500ms"}},
    {"targets": ["127.0.0.1:9400"], "labels": {"__metrics_path__": "/m", "__param_a": "b", "__scheme__": "https"}},
]  # fmt: skip
CONFIG = {
    "global": {"scrape_interval": "10s", "scrape_timeout": "8s", "sample_limit": 1000},
    "scrape_configs": [{
        "job_name": "node", "scrape_interval": "1m30s", "metrics_path": "/m", "scheme": "https", "params": {"a": ["b"]},
        "honor_labels": True, "body_size_limit": "10MB", "label_limit": 30,
        "basic_auth": {"username": "me", "password": "x"}, "tls_config": {"insecure_skip_verify": True},
        "static_configs": GROUPS,
        "file_sd_configs": [{"files": ["nodes/*.json"], "refresh_interval": "1m"}],
        "http_sd_configs": [{"url": "https://sd/targets", "refresh_interval": "1m"}],
        "relabel_configs": [{"source_labels": ["__address__"], "regex": "(.*):9100", "target_label": "host", "replacement": "$1"}],
        "metric_relabel_configs": [{"source_labels": ["a"], "action": "hashmod", "modulus": 8, "target_label": "b"}],
    }],
}  # fmt: skip


def read(folder: Path, name: str, content: bytes) -> None:
    """Read a file as the collector does; a refusal is an error of ours that names it."""
    path = folder / name
    path.write_bytes(content)

    def targets() -> None:
        for target in read_targets(path, 1.0):
            assert 0.1 <= target.interval <= 60
            json.dumps(target.public(), allow_nan=False).encode()
            "".join((*target.key, *target.labels, *target.labels.values())).encode()

    for call in (targets, lambda: read_config(path, 1.0)):
        message = refusal(call, BadRequest)
        assert message is None or name in message


@fuzzed(150)
@given(st.one_of(mutated(GROUPS), mutated(CONFIG, 4)), st.sampled_from(["targets.json", "targets.yml"]))
def test_hostile_values_are_refused(tmp_path: Path, content: Any, name: str) -> None:
    read(tmp_path, name, json.dumps(content).encode())


@fuzzed(100)
@given(
    st.one_of(*(damaged_bytes(json.dumps(one).encode()) for one in (GROUPS, CONFIG)), st.binary(max_size=60)),
    st.sampled_from(["targets.json", "targets.yml"]),
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, name: str) -> None:
    read(tmp_path, name, content)
