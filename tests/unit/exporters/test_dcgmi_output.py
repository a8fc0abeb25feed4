"""Output of several versions of ``dcgmi``; see tests/data/dcgmi/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.exporters.dcgm.entities import Value
from hypergauge.exporters.dcgm.fields import known_fields
from hypergauge.exporters.dcgm.output import DcgmGpu, Instance, Rows, parse_hierarchy, parse_list

DCGMI = Path(__file__).parents[2] / "data" / "dcgmi"


def rows(text: str, *names: str) -> list[tuple[str, int, dict[int, Value]]]:
    parser = Rows([known_fields()[name] for name in names])
    return [row for line in text.splitlines(keepends=True) if (row := parser.read(line)) is not None]


def test_gpus() -> None:
    assert parse_list((DCGMI / "h100" / "discovery-l.txt").read_text()) == [
        DcgmGpu(0, "NVIDIA H100 80GB HBM3", "00000000:00:09.0", "GPU-927d7444-b45a-7c49-8402-5e686e46a026")
    ]
    assert [gpu.number for gpu in parse_list((DCGMI / "a100-mig" / "discovery-l.txt").read_text())] == [0, 1]


def test_switches_are_ignored_and_names_may_be_missing() -> None:
    """Rows of NVIDIA/DCGM issue 229, and a table of switches."""
    text = """\
4 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: <<<NULL>>>                                                     |
|        | PCI Bus ID: 00000000:4C:00.0                                         |
|        | Device UUID: GPU-d6a2c177-4cd8-8d01-0310-79f2720f37de                |
+--------+----------------------------------------------------------------------+
| 1      | Error: Cannot get device attributes for GPU.                         |
|        | Return: GPU was lost                                                 |
+--------+----------------------------------------------------------------------+
2 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
| 6         |
| 5         |
+-----------+
"""
    assert parse_list(text) == [DcgmGpu(0, "", "00000000:4C:00.0", "GPU-d6a2c177-4cd8-8d01-0310-79f2720f37de")]


@pytest.mark.parametrize("text", ["", "Error: something else\n", "0 GPUs found.\n"])
def test_no_gpus(text: str) -> None:
    assert parse_list(text) == []
    assert parse_hierarchy(text) == []


def test_instances_have_an_id_of_dcgm_and_one_of_nvml() -> None:
    found = parse_hierarchy((DCGMI / "a100-mig" / "discovery-c.txt").read_text())
    assert found == [Instance(3, 0, 1), Instance(2, 0, 5), Instance(0, 0, 13), Instance(1, 0, 14)]
    assert parse_hierarchy((DCGMI / "h100" / "discovery-c.txt").read_text()) == []


def test_rows_of_version_2_are_right_aligned() -> None:
    found = rows(
        (DCGMI / "docs" / "dmon.txt").read_text(), "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
    )
    assert found[3:6] == [
        ("GPU", 0, {1001: 0.457, 1004: 0.442}),
        ("GPU-I", 0, {1001: 0.534, 1004: 0.516}),
        ("GPU-I", 1, {1001: 0.533, 1004: 0.515}),
    ]  # fmt: skip
    assert len(found) == 9


def test_rows_of_version_4_2_with_alternating_fields() -> None:
    """NVIDIA/DCGM, issue 244."""
    text = """\
#Entity    GRACT        SMACT        SMOCC        TENSO        DRAMA        FP64A        FP32A        FP16A
ID
GPU 0      N/A          N/A          N/A          N/A          N/A          N/A          N/A          N/A
GPU 0      0.888        N/A          N/A          0.178        N/A          N/A          N/A          0.001
GPU 1      N/A          0.777        N/A          N/A          N/A          0.000        0.046        N/A
"""
    pipes = ("PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "PIPE_FP64_ACTIVE", "PIPE_FP32_ACTIVE", "PIPE_FP16_ACTIVE")
    names = [f"DCGM_FI_PROF_{name}" for name in ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "SM_OCCUPANCY", *pipes)]
    assert rows(text, *names) == [
        ("GPU", 0, {}),
        ("GPU", 0, {1001: 0.888, 1004: 0.178, 1008: 0.001}),
        ("GPU", 1, {1002: 0.777, 1006: 0.0, 1007: 0.046}),
    ]


def test_rows_of_version_4_6_are_blank_for_unsupported_fields() -> None:
    text = """\
#Entity         POWER             FBUSD             SMACT        TOTEC
ID               W                                               mJ
GPU 0           65.317            87                0.131        20714331055
GPU-I 3                           25                0.000
GPU-CI 3                                            0.000
"""
    names = ("DEV_POWER_USAGE", "DEV_FB_USED", "PROF_SM_ACTIVE", "DEV_TOTAL_ENERGY_CONSUMPTION")
    assert rows(text, *(f"DCGM_FI_{name}" for name in names)) == [
        ("GPU", 0, {155: 65.317, 252: 87, 1002: 0.131, 156: 20714331055}),
        ("GPU-I", 3, {252: 25, 1002: 0.0}),
        ("GPU-CI", 3, {1002: 0.0}),
    ]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("GPU 0           65.317            123456789012...   0.131", {155: 65.317, 1002: 0.131}),
        ("GPU 0           65.317            12345678901234567890123456", {}),  # runs into the next column
        (f"{'GPU 0':<52}0.131", {1002: 0.131}),
        ("GPU 0", {}),
        ("GPU 0           a                 b                 c", {}),
    ],
)
def test_ambiguous_values_are_left_out(line: str, values: dict[int, Value]) -> None:
    text = f"#Entity         POWER             FBUSD             SMACT\nID\n{line}\n"
    assert rows(text, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE") == [
        ("GPU", 0, values)
    ]


@pytest.mark.parametrize("line", ["", "ID", "Error setting watches.", "dmon was stopped due to receiving a signal"])
def test_other_lines_are_no_rows(line: str) -> None:
    assert rows(line + "\n", "DCGM_FI_DEV_POWER_USAGE") == []
