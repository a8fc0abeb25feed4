"""Hostile ``bench.toml``: each is read, or refused with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.core.config.rule_sections import read_rules
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from tests.support.fuzzing import damaged_bytes, fuzzed, mutated, refusal

DOCUMENT = {
    "dsn": "postgresql://bench@db/bench",
    "home": "~/bench",
    "artifacts": "s3://bucket/runs",
    "interval": 0.5,
    "lease": 30,
    "grace": 5.0,
    "peak_flops": 1e15,
    "quiet_cores": 0.5,
    "output_limit": "1.5 GB",
    "simulate": "2xH100",
    "profilers": {"torch": "steps=10"},
    "environments": {"a": {"docker": "img", "mounts": ["/data:ro"], "python": "python3", "variables": {"A": "1"}}},
    "rules": {"preset": "strict", "every": "10 s", "idle_device": {"actions": ["page"], "enabled": True, "share": 0.1}},
    "actions": {"page": {"webhook": "https://h/x"}, "stop": {"command": ["true", "{run}"]}},
}


def toml(value: Any) -> str:
    """Return a value of TOML, inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if value is None:
        return "1979-05-27T07:32:00Z"
    return text(value) if isinstance(value, str) else repr(value)


def text(value: str) -> str:
    return '"' + "".join(one if one.isalnum() and one.isascii() else f"\\U{ord(one):08x}" for one in value) + '"'


def read(folder: Path, content: bytes) -> None:
    """Read a file as commands do; a refusal is an error of ours that names it."""
    path = folder / "bench.toml"
    path.write_bytes(content)
    for call in (lambda: Settings.load({"HOME": str(folder)}, folder), lambda: read_rules(path)):
        message = refusal(call, BadRequest)
        assert message is None or "bench.toml" in message or "must" in message, message


def document(content: Any) -> bytes:
    if not isinstance(content, dict):
        return toml(content).encode()
    return "\n".join(f"{text(key)} = {toml(value)}" for key, value in content.items()).encode()


@fuzzed(150)
@given(mutated(DOCUMENT))
def test_hostile_values_are_refused(tmp_path: Path, content: Any) -> None:
    read(tmp_path, document(content))


@fuzzed(150)
@given(st.one_of(damaged_bytes(document(DOCUMENT)), st.binary(max_size=60)))
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    read(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        b"a = " + b"[" * 5000,
        b"lease = " + b"9" * 5000,
        b"lease = " + b"9" * 400,
        b'output_limit = "' + b"9" * 400 + b'"',
        b'home = "~nobody-here/x"',
        b'home = "a\\u0000b"',
        b"interval = nan",
    ],
)
def test_a_value_that_nothing_can_hold_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bench.toml").write_bytes(content)
    with pytest.raises(BadRequest, match=r"bench\.toml|must") as refused:
        Settings.load({}, tmp_path)
    assert len(str(refused.value)) < 600


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_bytes(b"")
    (tmp_path / "bench.toml").chmod(0)
    message = refusal(lambda: Settings.load({}, tmp_path), BadRequest)
    assert message is None or "bench.toml" in message  # root reads any file
