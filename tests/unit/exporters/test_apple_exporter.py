"""Apple silicon: output of versions of `macmon pipe`, and its failures."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hypergauge.exporters.apple import AppleExporter, parse_line
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.server import ExporterServer
from tests.support.exporters.golden import check_golden, promtool_findings

UUID = f"APPLE-{platform.node()}"
OPTIONS = ExporterOptions(home=Path("/nowhere"))
FORMS = dict(
    zip(
        ("0.7", "0.8", "later"),
        (Path(__file__).parents[2] / "data/tools/macmon.jsonl").read_text().splitlines(),
        strict=True,
    )
)


def others(labels: Mapping[str, str]) -> list[str]:
    """Return the labels except the GPU's identity, which is this host's."""
    assert labels.get("UUID", UUID) == UUID
    return [value for name, value in labels.items() if name != "UUID"]


def samples(line: str) -> dict[str, float]:
    """Return existing values by name and labels."""
    return {
        " ".join([name.removeprefix("bench_"), *others(labels)]): value
        for name, labels, value in parse_line(line)
        if value is not None
    }


def macmon(tmp_path: Path, line: str) -> tuple[str, ...]:
    tool = tmp_path / "macmon"
    tool.write_text(f"#!/bin/sh\nwhile :; do\n  echo '{line}'\n  sleep 0.1\ndone\n")
    tool.chmod(0o755)
    return (str(tool), "pipe", "--interval")


def test_all_metrics_of_an_m1_max() -> None:
    assert samples(FORMS["0.8"]) == {
        "gpu_utilization_ratio 0": 0.6921621561050415,
        "gpu_clock_hertz 0 sm": 388e6,
        "gpu_power_watts 0": 1.1298161745071411,
        "gpu_temperature_celsius 0": 52.1805419921875,
        "apple_power_watts cpu": 1.3708608150482178,
        "apple_power_watts ane": 0.0,
        "apple_power_watts memory": 1.7497817277908325,
        "apple_power_watts gpu_memory": 0.040669530630111694,
        "apple_power_watts package": 2.5006771087646484,
        "apple_power_watts system": 18.952476501464844,
        "apple_cpu_utilization_ratio efficiency": 0.2199309766292572,
        "apple_cpu_clock_hertz efficiency": 1408e6,
        "apple_cpu_utilization_ratio performance": 0.18293659389019012,
        "apple_cpu_clock_hertz performance": 1829e6,
        "apple_cpu_temperature_celsius": 55.03165054321289,
        "apple_memory_used_bytes": 28706603008,
        "apple_memory_total_bytes": 68719476736,
        "apple_swap_used_bytes": 5701894144,
        "apple_swap_total_bytes": 7516192768,
        "apple_fan_speed_hertz fan0": 2311 / 60,
        "apple_fan_speed_hertz fan1": 2514 / 60,
    }


@pytest.mark.parametrize(
    ("form", "name", "value"),
    [
        ("0.7", "gpu_utilization_ratio 0", 0.013633215799927711),
        ("0.7", "gpu_clock_hertz 0 sm", 503e6),
        ("0.7", "apple_cpu_clock_hertz performance", 1248e6),
        ("0.7", "apple_fan_speed_hertz fan0", None),
        ("0.7", "apple_swap_total_bytes", 0),
        ("later", "gpu_utilization_ratio 0", 0.09),
        ("later", "apple_cpu_utilization_ratio efficiency", 0.18),
        ("later", "apple_cpu_clock_hertz efficiency", 1100e6),
        ("later", "apple_power_watts package", 0.22231553),
    ],
)
def test_formats_of_versions(form: str, name: str, value: float | None) -> None:
    assert samples(FORMS[form]).get(name) == value


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"temp": {"cpu_temp_avg": 0.0, "gpu_temp_avg": 0.0}}, "gpu_temperature_celsius 0"),  # no known sensor
        ({"temp": None}, "apple_cpu_temperature_celsius"),
        ({"sys_power": None}, "apple_power_watts system"),
        ({"gpu_active_ratio": None}, "gpu_utilization_ratio 0"),
        ({"memory": {}}, "apple_memory_used_bytes"),
        ({"fans": []}, "apple_fan_speed_hertz fan0"),
    ],
)
def test_missing_metrics_are_left_out(change: dict[str, Any], name: str) -> None:
    line = json.dumps({**json.loads(FORMS["later"]), **change})
    assert name in samples(FORMS["later"])
    assert name not in samples(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("thread 'main' panicked at src/sources.rs", "Expecting value: line 1 column 1"),
        ('{"cpu_power": 1', "Expecting ',' delimiter"),
        ("[1]\n", "'[1]"),
    ],
)
def test_other_output_raises(line: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        samples(line)
    assert message in str(caught.value)


@pytest.mark.parametrize(("form", "name"), [("0.7", "apple-macmon-0.7"), ("0.8", "apple-m1-max"), ("later", "apple")])
def test_the_exposition_is_golden(form: str, name: str, tmp_path: Path) -> None:
    exporter = AppleExporter(OPTIONS, macmon(tmp_path, FORMS[form]))
    assert exporter.check() is None
    with ExporterServer(exporter):
        check_golden(name, exporter.collect())


@pytest.mark.parametrize("name", ["apple-macmon-0.7", "apple-m1-max", "apple"])
def test_promtool_has_no_findings(name: str) -> None:
    assert promtool_findings(name) == []


def test_check_names_a_missing_tool() -> None:
    reason = AppleExporter(OPTIONS, ("no-such-macmon", "pipe")).check()
    assert reason is not None
    assert "`brew install macmon`" in reason
