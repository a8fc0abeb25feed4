"""Checks of an experiment file against the abilities of the host."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile
from hypergauge.scheduler.launch.commands import command_of
from hypergauge.scheduler.plan.checks import check, load
from tests.support.experiment_files import EXPORTERS, HEADER, WriteCsv
from tests.support.fakes.mps import installed_mps


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,1,,,,,,trian.py,,", "'trian.py' does not exist in {work} or beside the experiment file in {files} (did you mean"),
        ("1,1,,,,,,{files}/trian.py,,", "2:10: File: the script '{files}/trian.py' does not exist in {files} (did you m"),
        ("1,1,,,,,,..,,", "2:10: File: the script '..' is a folder"),
        ("1,1,,,7,,,train.py,,", "2:7: Devices: device 7 does not exist: this host has GPUs 0, 1, 2, 3"),
        ("1,1,,,0+{uuid},,,train.py,,", "2:7: Devices: 0+{uuid} names a device twice"),
        ("1,1,,,0,3g.71gb,,train.py,,", "2:9: Collocation: GPU 0 (NVIDIA A100-SXM4-40GB) has no MIG profile '3g.71gb'"),
        ("1,1,,,0,1g.6gb,,train.py,,", "(did you mean '1g.5gb'?)"),
        ("1,1,,,2,1g.5gb,,train.py,,", "GPU 2 (Tesla T4) has no known MIG profiles"),
        ("1,1,,,0+1,3g.20gb,,train.py,,", "2:11: Collocation: the MIG profile 3g.20gb takes one device, but the row h"),
        ("1,1,,,,MPS,,train.py,,", "2:8: Collocation: MPS needs a device, but the row has none"),
        ("1,1,,,0,3g.20gb,,train.py,,", "2:9: Collocation: GPU 0 (NVIDIA A100-SXM4-40GB) is not in MIG mode; to enable it: sudo nvidia-smi -i 0 -mig 1"),
        ("1,1,,,3,,,train.py,,", "2:9: Collocation: GPU 3 (NVIDIA A100-SXM4-40GB) is in MIG mode, which allows no run on the whole GPU: name a profile (1g.5gb, 1g.10gb, "),
        ("1,1,,,3,MPS,,train.py,,", "or sudo nvidia-smi -i 3 -mig 0"),
        ("1,1,,,3,4g.20gb,,train.py,,\n1,1,,,{mig},4g.20gb,,train.py,,", "2:9: Collocation: 2 x 4g.20gb do not fit on GPU 3 (NVIDIA A100-SXM4-40GB); 4g.20gb + 3g.20gb, or 2 x 3g.20gb, or 4g.20gb + 2g.10gb would"),
        ("1,1,,,3,7g.40gb,,train.py,,\n1,1,,,3,1g.5gb,,train.py,,\n1,2,,,3,7g.40gb,,train.py,,", "2:9: Collocation: 7g.40gb + 1g.5gb do not fit on GPU 3"),
        ("1,1,,,,,venv:env,train.py,,", "2:9: Environment: there is no virtual environment in {work}/env or {files}/env"),
        ("1,1,,,,,,train.py,tpo,", "2:19: Listeners: there is no exporter 'tpo' (did you mean 'top'?)"),
        ("1,1,,,,,,train.py,wether,", "2:19: Listeners: there is no exporter 'wether' (did you mean 'weather'?)"),
        ("1,1,,,,,,train.py,smi,", "2:19: Listeners: the exporter 'nvml' cannot work here: Driver Not Loaded"),
        ("1,1,,,,,,train.py,dcgmi,", "2:19: Listeners: the exporter 'dcgm' is not installed here"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_here(write_csv: WriteCsv, row: str, message: str) -> None:
    gpus = inventory("2xA100,1xT4,1xA100:mig")
    path = write_csv("")
    names = {"files": path.parent, "work": Path.cwd(), "uuid": gpus.gpus[0].uuid, "mig": gpus.gpus[3].uuid}
    path.write_text(HEADER + row.format(**names) + "\n")
    file = ExperimentFile.read(path)
    with pytest.raises(BadExperimentFile) as caught:
        check(file, gpus, EXPORTERS)
    assert message.format(**names) in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "x" * 200_000,
            "2:10: Params: the argument 'xxxxxxxxxxxxxxxxxxxx'… has 200,000 bytes; the kernel passes at most",
        ),
        ("ü" * 70_000, "Params: the argument"),
        (" ".join(["y" * 100_000] * 40), "2:10: Params: the arguments have 4,000,040 bytes"),
    ],
)
def test_a_command_that_the_kernel_would_not_start_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "train.py").touch()
    path = tmp_path / "long.csv"
    path.write_text(f"Experiment,Workload,File,Params\n1,1,train.py,{text}\n".replace("1,1,", "1,1,", 1))
    with pytest.raises(BadExperimentFile) as refused:
        load(path, inventory(), EXPORTERS)
    assert words.partition(": ")[2] in str(refused.value)
    assert f"{path}:2:14: Params" in str(refused.value)
    path.write_text(f"Experiment,Workload,File,Params\n1,1,train.py,{'x' * 100_000}\n")
    load(path, inventory(), EXPORTERS)


def test_what_can_be_done_here(write_csv: WriteCsv) -> None:
    path = write_csv(
        HEADER + "1,1,,,0+1,-,-,train.py,top+weather,\n" + "1,1,,,0,,venv:env,train.py,,\n" + "2,1,,,,,,train.py,,\n"
    )
    python = path.parent / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    file = load(path, inventory("2xA100"), EXPORTERS)
    assert [file.script(row) for row in file.rows] == [path.parent / "train.py"] * 3
    assert [command_of(file, row).python for row in file.rows] == [sys.executable, str(python), sys.executable]


@pytest.mark.parametrize(
    "rows",
    [
        ["1,1,,,0,MPS,,train.py,,", "1,1,,,0,MPS:40,,train.py,,", "1,1,,,0,-,,train.py,,"],
        ["1,1,,,1,3g.20gb,,train.py,,", "1,1,,,1,3g.20gb,,train.py,,", "1,2,,,1,7g.40gb,,train.py,,"],
        ["1,1,finished,,1,7g.40gb,,train.py,,", "1,1,,,1,7g.40gb,,train.py,,"],
    ],
    ids=["MPS", "MIG", "what is done takes no room"],
)
def test_gpus_that_can_be_shared_so(write_csv: WriteCsv, rows: list[str]) -> None:
    file = load(write_csv(HEADER + "\n".join(rows) + "\n"), inventory("1xA100,1xA100:mig"), EXPORTERS)
    assert len(file.rows) == len(rows)


def test_mps_on_real_gpus_needs_nvidias_program(write_csv: WriteCsv, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Inventory(tuple(replace(gpu, simulated=False) for gpu in inventory("1xT4").gpus))
    path = write_csv(HEADER + "1,1,,,0,MPS,,train.py,,\n")
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(
        BadExperimentFile, match="2:9: Collocation: MPS needs nvidia-cuda-mps-control on PATH, which co"
    ):
        load(path, gpus, EXPORTERS)
    installed_mps(path.parent)
    load(path, gpus, EXPORTERS)


def test_the_working_directory_comes_first(write_csv: WriteCsv) -> None:
    file = ExperimentFile.read(write_csv(HEADER + "1,1,,,,,,train.py,,\n"))
    Path("train.py").touch()
    assert file.script(file.rows[0]) == Path.cwd() / "train.py"
