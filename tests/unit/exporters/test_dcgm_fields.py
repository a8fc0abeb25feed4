"""Lists of DCGM's fields in dcgm-exporter's format, valid and invalid."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.exporters.dcgm.fields import default_list, known_fields, read_list


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "counters.csv"


def test_the_default_list_has_what_dcgm_exporter_has_and_the_profiling_ratios() -> None:
    names = {counter.field.name: counter.type for counter in default_list()}
    assert len(names) == len(default_list()) == 31
    assert {name for name, kind in names.items() if kind == "counter"} == {
        f"DCGM_FI_DEV_{name}"
        for name in (
            "TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "NVLINK_BANDWIDTH_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS",
            "CORRECTABLE_REMAPPED_ROWS",
        )
    }  # fmt: skip
    assert [name for name, kind in names.items() if kind == "label"] == ["DCGM_FI_DRIVER_VERSION"]
    assert sum(name.startswith("DCGM_FI_PROF_") for name in names) == 10


@pytest.mark.parametrize(
    ("name", "number", "kind", "per_instance"),
    [
        ("DCGM_FI_DRIVER_VERSION", 1, "str", False),
        ("DCGM_FI_DEV_SM_CLOCK", 100, "int", False),
        ("DCGM_FI_DEV_POWER_USAGE", 155, "float", False),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", 155, "float", False),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 156, "int", False),
        ("DCGM_FI_DEV_GPU_UTIL", 203, "int", False),
        ("DCGM_FI_DEV_XID_ERRORS", 230, "int", True),
        ("DCGM_FI_DEV_FB_USED", 252, "int", True),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 395, "int", False),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 449, "int", False),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1001, "float", True),
        ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", 1008, "float", True),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 1010, "int", False),
    ],
)
def test_fields_have_dcgms_numbers(name: str, number: int, kind: str, per_instance: bool) -> None:
    field = known_fields()[name]
    assert (field.number, field.kind, field.per_instance) == (number, kind, per_instance)


def test_cells_comments_and_quotes(path: Path) -> None:
    path.write_text(
        "\ufeff# Clocks\n"
        "\n"
        "DCGM_FI_DEV_SM_CLOCK,  gauge, SM clock (in MHz).\r\n"
        "DCGM_FI_DEV_DEC_UTIL ,gauge,\n"
        'DCGM_FI_DEV_POWER_USAGE, gauge, "Power, as ""drawn"" now."\n'
        "DCGM_FI_DEV_SERIAL, label, Serial\n"
    )
    found = [(counter.field.name, counter.type, counter.help) for counter in read_list(path)]
    assert found == [
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock (in MHz)."),
        ("DCGM_FI_DEV_DEC_UTIL", "gauge", ""),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", 'Power, as "drawn" now.'),
        ("DCGM_FI_DEV_SERIAL", "label", "Serial"),
    ]


@pytest.mark.parametrize(
    "name", ["DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "DCGM_FI_DEV_CPU_UTIL_TOTAL"]
)
def test_fields_of_other_entities_are_left_out(path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(f"{name}, gauge, Help\nDCGM_FI_DEV_SM_CLOCK, gauge, Help\n")
    with caplog.at_level(logging.WARNING):
        assert [counter.field.name for counter in read_list(path)] == ["DCGM_FI_DEV_SM_CLOCK"]
    assert f"counters.csv:1: {name} is left out" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DCGM_FI_DEV_SM_CLOK, gauge, Help", "2:1: there is no DCGM field 'DCGM_FI_DEV_SM_CLOK' (did you mean 'DCGM_FI_DEV_SM_CLOCK'?)"),
        ("  DCGM_FI_PROF_SM_ACTIV, gauge, Help", "2:3: there is no DCGM field 'DCGM_FI_PROF_SM_ACTIV' (did you mean 'DCGM_FI_PROF_SM_ACTIVE'?)"),
        ("dcgm_fi_dev_gpu_util, gauge, Help", "2:1: there is no DCGM field 'dcgm_fi_dev_gpu_util' (did you mean 'DCGM_FI_DEV_GPU_UTIL'?)"),
        ("dcgm_sm_clock, gauge, Help", "2:1: there is no DCGM field 'dcgm_sm_clock' (they begin with DCGM_FI_)"),
        ("DCGM_FI_DEV_SM_CLOCK, gague, Help", "2:23: 'gague' is not a type (did you mean 'gauge'?)"),
        ("DCGM_FI_DEV_SM_CLOCK,, Help", "2:22: '' is not a type (one of: gauge, counter, label)"),
        ("DCGM_FI_DEV_SM_CLOCK, histogram, Help", "2:23: 'histogram' is not a type (one of: gauge, counter, label)"),
        ("DCGM_EXP_P2P_STATUS, gague, Help", "2:22: 'gague' is not a type (did you mean 'gauge'?)"),
        ("DCGM_FI_DEV_SERIAL, gauge, Help", "2:21: DCGM_FI_DEV_SERIAL is text, which can only be a label"),
        ("DCGM_FI_DEV_SM_CLOCK, gauge", "2:1: expected a DCGM field, gauge, counter or label, and a help text: 3 cells, found 2"),
        ("DCGM_FI_DEV_SM_CLOCK, gauge, SM, clock", "2:1: expected a DCGM field, gauge, counter or label, and a help text: 3 cells, found 4"),
        ('DCGM_FI_DEV_SM_CLOCK, gauge, "SM" clock', "2:1: expected a DCGM field, gauge, counter or label, and a help text: a quotation mark inside a cell"),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS, gauge, Help", "2:1: DCGM_FI_DEV_GPU_TEMP_CELSIUS is already on line 1"),
        ("DCGM_FI_DEV_GPU_TEMP, label, Help", "2:1: DCGM_FI_DEV_GPU_TEMP is already on line 1"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_with_its_position(path: Path, line: str, message: str) -> None:
    path.write_text(f"DCGM_FI_DEV_GPU_TEMP, gauge, Help\n{line}\n")
    with pytest.raises(BadRequest) as caught:
        read_list(path)
    assert str(caught.value) == f"{path}:{message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the list of DCGM fields holds no gauge or counter of a GPU"),
        (b"# DCGM_FI_DEV_SM_CLOCK, gauge, Help\n", "the list of DCGM fields holds no gauge or counter of a GPU"),
        (b"DCGM_FI_DRIVER_VERSION, label, Help\n", "the list of DCGM fields holds no gauge or counter of a GPU"),
        (b"DCGM_FI_DEV_SM_CLOCK, gauge, \xff\n", "the list of DCGM fields is not UTF-8: invalid start byte"),
    ],
)
def test_a_list_without_counters_is_refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(BadRequest, match=re.escape(f"{path}: {message}")):
        read_list(path)
