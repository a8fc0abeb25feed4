"""Experiment files: good ones, errors of bad ones, and rewritten ones."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row, fingerprint
from hypergauge.scheduler.launch.commands import command_of
from hypergauge.scheduler.plan.checks import Reactions, check, load
from tests.support.fakes.mps import installed_mps

DATA = Path(__file__).parents[2] / "data" / "experiments"
HEADER = "Experiment,Workload,Status,Run,Devices,Collocation,Environment,File,Listeners,Params\n"
EXPORTERS = {"host": None, "process": None, "nvml": "Driver Not Loaded", "weather": None}
RUN = "4f1c9a" + "0" * 26

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes ``experiments.csv`` next to a ``train.py``, outside the working directory."""
    folder, elsewhere = tmp_path / "files", tmp_path / "work"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (folder / "train.py").touch()

    def write(content: str | bytes) -> Path:
        path = folder / "experiments.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def sample(write: Write, name: str) -> Path:
    return write((DATA / name).read_bytes())


def only_row(write: Write, **cells: str) -> Row:
    cells = {"Experiment": "1", "Workload": "1", "File": "train.py"} | cells
    text = io.StringIO()
    csv.writer(text).writerows([cells.keys(), cells.values()])
    (row,) = ExperimentFile.read(write(text.getvalue())).rows
    return row


# --- good files -------------------------------------------------------------------------------------------------------


def test_reads_a_file_written_for_radt(write: Write) -> None:
    rows = ExperimentFile.read(sample(write, "radt.csv")).rows
    assert [(row.line, row.experiment, row.workload, row.status) for row in rows] == [
        (2, 1, 1, "finished"),
        (3, 1, 2, ""),
        (4, 1, 2, ""),
        (5, 1, 3, "failed"),
        (6, 1, 4, ""),
    ]
    assert rows[0].run == "2f3c5d0a9b8e4c6d8f1a2b3c4d5e6f70"
    assert rows[0].params == ["--batch-size", "128"]
    assert (rows[0].script, rows[0].model, rows[0].name) == ("train.py", None, "train")
    assert rows[0].listeners == dict.fromkeys(["nvml", "host", "process"])
    assert rows[3].listeners == dict.fromkeys(["nvml", "host", "process", "dcgm"])
    assert [row.devices for row in rows[2:]] == [("0",), ("0",), ("1", "2")]
    assert [str(row.collocation) for row in rows[2:]] == ["-", "MPS", "3g.20gb"]
    assert rows[0].environment == Environment()


def test_reads_a_file_in_the_form_of_the_paper(write: Write) -> None:
    path = sample(write, "deem23.csv")
    with pytest.raises(
        BadExperimentFile, match=r":5:10: Collocation: unknown collocation 'PPS' \(did you mean 'MPS'\?\)$"
    ):
        ExperimentFile.read(path)
    path.write_text(path.read_text().replace("PPS", "MPS"))
    rows = ExperimentFile.read(path).rows
    assert [(row.workload, row.model, row.script, row.data) for row in rows] == [
        (workload, "resnet50", None, "/data/imagenet") for workload in (1, 2, 2, 3)
    ]
    assert rows[0].name == "resnet50"
    assert rows[0].environment == Environment("named", "pytorch")
    assert rows[2].params == ["--batch-size=128", "--epochs=5"]
    assert [str(row.collocation) for row in rows] == ["-", "3g.20gb", "3g.20gb", "MPS"]


def test_reads_what_a_spreadsheet_writes(write: Write) -> None:
    rows = ExperimentFile.read(sample(write, "spreadsheet.csv")).rows
    assert [(row.line, row.name, row.status) for row in rows] == [(2, "wide, two\nlines", ""), (6, "narrow", "failed")]
    assert rows[0].params == ["--label", "a b", "--epochs", "5"]
    assert rows[0].cells["Remarks"].text == 'said "maybe",\r\nthen yes'
    assert (rows[0].cells["Remarks"].line, rows[0].cells["Remarks"].column) == (3, 50)
    assert (rows[0].devices, rows[0].collocation, rows[0].listeners) == ((), Collocation(), None)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("", []),
        ("--batch-size 128", ["--batch-size", "128"]),
        ("batch-size=128", ["--batch-size=128"]),
        ("--epochs 3 batch-size=128", ["--epochs", "3", "--batch-size=128"]),
        ("--define batch-size=128", ["--define", "batch-size=128"]),
        ("--lr=0.1 batch-size=128", ["--lr=0.1", "--batch-size=128"]),
        ("'a b' https://x/?y=z /tmp/a=b", ["a b", "https://x/?y=z", "/tmp/a=b"]),
    ],
)
def test_params(write: Write, text: str, params: list[str]) -> None:
    assert only_row(write, Params=text).params == params


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", ""),
        ("finished", "finished"),
        ("FINISHED sly-ox (a)", "finished"),
        ("RUNNING sly-ox (a)", "running"),
        ("KILLED x (a)", "stopped"),
        ("Timeout", "timeout"),
    ],
)
def test_status_is_read_by_its_first_word(write: Write, text: str, status: str) -> None:
    assert only_row(write, Status=text).status == status


@pytest.mark.parametrize(
    ("text", "collocation"),
    [
        ("", Collocation()),
        ("-", Collocation()),
        ("MPS", Collocation("mps")),
        ("mps:40", Collocation("mps", percentage=40)),
        ("3g.20gb", Collocation("mig", profile="3g.20gb")),
    ],
)
def test_collocation(write: Write, text: str, collocation: Collocation) -> None:
    assert only_row(write, Collocation=text).collocation == collocation


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("-", Environment()),
        ("torch", Environment("named", "torch")),
        ("conda:torch", Environment("conda", "torch")),
        ("venv:../env", Environment("venv", "../env")),
        ("docker:nvcr.io/nvidia/pytorch:25.01-py3", Environment("docker", "nvcr.io/nvidia/pytorch:25.01-py3")),
    ],
)
def test_environment(write: Write, text: str, environment: Environment) -> None:
    row = only_row(write, Environment=text)
    assert row.environment == environment
    assert str(row.environment) == text


def test_profilers_are_kept_apart_from_exporters(write: Write) -> None:
    row = only_row(write, Listeners="free + nsys+ps+perf+weather")
    assert row.listeners == dict.fromkeys(["host", "process", "weather"])
    assert row.wrappers == ("nsys", "perf")


# --- bad files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the file is empty"),
        ("\n  \n,,\n", "the file is empty"),
        (HEADER, "1: there is a header, but no rows"),
        (b"Experiment,Work\0load\n", "1:16: this is not a text file in UTF-8: there is a NUL byte"),
        (b"\xff\xfeE\0x\0", "1:1: this is not a text file in UTF-8: byte 0xff is not UTF-8"),
        ("Experiment,Workload,File\n1,1,é".encode() + b"\xe9\n", "2:6: this is not a text file in UTF-8: byte 0xe9"),
        (
            "Experiment,Wrkload,File\n1,1,train.py\n",
            "1:12: the column 'Workload' is missing; the header has Experiment, Wrkload, File (rename 'Wrkload'?)",
        ),
        ("Experiment;Workload;File\n1;1;a\n", "1:1: the columns are separated by semicolons: separate them by commas"),
        ("Experiment\tworkload\tFile\n1\t1\ta\n", "1:1: the columns are separated by tabs: separate them by commas"),
        ("Experiment;Wrkload;File\n1;1;a\n", "1:1: the column 'Experiment' is missing; the header has Experiment;"),
        ("Experiment,Workload\n1,1\n", "1:1: a column 'File' or 'Model' is missing; the header has Experiment, Work"),
        ("Experiment,Workload,File,experiment\n1,1,a,1\n", "1:26: there is a column 'experiment' already"),
        (HEADER + '1,1,,,,,,train.py,,"--label a\n1,2,,,,,,train.py,,\n', "2:20: the quote that opens here is never"),
        (HEADER + '1,1,,,,,,train.py,,"a" b\n', "2:20: 'b' follows the closing quote"),
        (HEADER + "1,one,,,,,,train.py,,\n", "2:3: Workload: must be a whole number of at most 9 digits, not 'one'"),
        (HEADER + " , 1 ,,,,,,train.py,,\n", "2:1: Experiment: must be a whole number of at most 9 digits, not ''"),
        (HEADER + "1,-1,,,,,,train.py,,\n", "2:3: Workload: must be a whole number of at most 9 digits, not '-1'"),
        (HEADER + "1,1,,,,PPS,,train.py,,\n", "2:8: Collocation: unknown collocation 'PPS' (did you mean 'MPS'?)"),
        (HEADER + "1,1,,,,MPS:101,,train.py,,\n", "2:8: Collocation: the active thread percentage of MPS is 1 to 100"),
        (HEADER + "1,1,finishd,,,,,train.py,,\n", "2:5: Status: unknown status 'finishd' (did you mean 'finished'?)"),
        (HEADER + "1,1,,,0++1,,,train.py,,\n", "2:7: Devices: '' is not a device: write a GPU's index or UUID"),
        (HEADER + "1,1,,,0+0,,,train.py,,\n", "2:7: Devices: 0+0 names a device twice"),
        (
            HEADER + "1,1,,,,,cnda:x,train.py,,\n",
            "2:9: Environment: unknown kind of environment 'cnda' (did you mean 'c",
        ),
        (HEADER + "1,1,,,,,venv:,train.py,,\n", "2:9: Environment: environment 'venv:' has no value after the colon"),
        (HEADER + "1,1,,,,,,train.py,top+,\n", "2:19: Listeners: 'top+' has an empty exporter name"),
        (HEADER + "1,1,,,,,,train.py,,'a\n", "2:20: Params: the parameters cannot be split into words: no closing"),
        (HEADER + "1,1,,,,,,,,\n", "2:10: the row has neither a File nor a Model"),
        ("Experiment,Workload,File,Model\n1,1,a,b\n", "2:5: the row has both a File and a Model; leave one empty"),
        (HEADER + "1,1,,,,,,train.py,,--layers 1,2\n", "2:31: the row has 11 cells, but the header has 10; a cell wi"),
        (HEADER + "1,1,,,,,,train.py\n", "2:10: the row has 8 cells, but the header has 10"),
    ],
)
def test_bad_files(write: Write, content: str | bytes, problem: str) -> None:
    path = write(content)
    before = path.read_bytes()
    with pytest.raises(BadRequest) as caught:
        ExperimentFile.read(path)
    assert str(caught.value).startswith(f"{path}:{' ' if problem[0].isalpha() else ''}{problem}")
    assert caught.value.exit_status == 2
    assert path.read_bytes() == before


def test_reports_everything_at_once_in_order(write: Write) -> None:
    path = sample(write, "bad.csv")
    with pytest.raises(BadExperimentFile) as caught:
        load(path, Inventory(), EXPORTERS)
    positions = [line.removeprefix(f"{path}:").split(": ")[:2] for line in str(caught.value).splitlines()]
    assert positions == [
        ["2:3", "Workload"],
        ["2:10", "Collocation"],
        ["2:14", "Environment"],
        ["3:5", "Status"],
        ["3:10", "Devices"],
        ["3:15", "Collocation"],
        ["3:25", "the row has neither a File nor a Model to run"],
        ["3:26", "Listeners"],
        ["3:34", "Params"],
        ["4:9", "the row has 7 cells, but the header has 9"],
        ["5:30", "the row has 10 cells, but the header has 9; a cell with a comma in it has to stand in double quotes"],
        ["6:9", "File"],
        ["6:17", "Listeners"],
    ]
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_actions_are_pairs_of_a_rule_and_what_is_done(write: Write) -> None:
    file = ExperimentFile.read(
        write("Experiment,Workload,File,actions\n1,1,a,Idle : stop-run+Idle:mark+ Busy:x\n1,1,a,\n")
    )
    assert [row.actions for row in file.rows] == [(("Idle", "stop-run"), ("Idle", "mark"), ("Busy", "x")), ()]


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("Idle", "'Idle' is not an action: write RULE:ACTION, or several as RULE:ACTION+RULE:ACTION"),
        ("Idle:mark+", "'' is not an action: write RULE:ACTION"),
        ("Idel:mark", "there is no rule 'Idel' (did you mean 'Idle'?)"),
        ("Busy:mark", "the rule 'Busy' is switched off in bench.toml"),
        ("Idle:stop", "there is no action 'stop' (did you mean 'stop-run'?)"),
        ("Idle:http://a/b", "there is no action 'http://a/b' (one of: mark, stop-run)"),
    ],
)
def test_actions_that_there_are_not(write: Write, cell: str, problem: str) -> None:
    path = write(f"Experiment,Workload,File,Actions\n1,1,train.py,{cell}\n")
    path.with_name("train.py").touch()
    with pytest.raises(BadExperimentFile) as caught:
        load(path, Inventory(), EXPORTERS, Reactions(["Idle"], ["Busy"], ["mark", "stop-run"]))
    assert str(caught.value).startswith(f"{path}:2:14: Actions: {problem}")


def test_a_file_that_is_none(write: Write) -> None:
    path = write(HEADER)
    with pytest.raises(BadRequest, match=r"the file does not exist \(did you mean 'experiments.csv'\?\)$"):
        ExperimentFile.read(path.with_name("experiment.csv"))
    with pytest.raises(BadRequest, match=r"this is a folder, not a file$"):
        ExperimentFile.read(path.parent)
    os.mkfifo(path.with_name("pipe"))
    with pytest.raises(BadRequest, match=r"this is not a regular file$"):
        ExperimentFile.read(path.with_name("pipe"))


@pytest.mark.parametrize(("mode", "message"), [(0o444, "is not writable"), (0o000, "may not be read")])
def test_a_file_that_its_owner_has_closed(write: Write, mode: int, message: str) -> None:
    path = write(HEADER + "1,1,,,,,,train.py,,\n")
    path.chmod(mode)
    with pytest.raises(BadRequest, match=message):
        ExperimentFile.read(path)


# --- abilities of the host --------------------------------------------------------------------------------------------


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
def test_what_cannot_be_done_here(write: Write, row: str, message: str) -> None:
    gpus = inventory("2xA100,1xT4,1xA100:mig")
    path = write("")
    names = {"files": path.parent, "work": Path.cwd(), "uuid": gpus.gpus[0].uuid, "mig": gpus.gpus[3].uuid}
    path.write_text(HEADER + row.format(**names) + "\n")
    file = ExperimentFile.read(path)
    with pytest.raises(BadExperimentFile) as caught:
        check(file, gpus, EXPORTERS)
    assert message.format(**names) in str(caught.value)
    assert len(caught.value.problems) == 1


def test_what_can_be_done_here(write: Write) -> None:
    path = write(
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
def test_gpus_that_can_be_shared_so(write: Write, rows: list[str]) -> None:
    file = load(write(HEADER + "\n".join(rows) + "\n"), inventory("1xA100,1xA100:mig"), EXPORTERS)
    assert len(file.rows) == len(rows)


def test_mps_on_real_gpus_needs_nvidias_program(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Inventory(tuple(replace(gpu, simulated=False) for gpu in inventory("1xT4").gpus))
    path = write(HEADER + "1,1,,,0,MPS,,train.py,,\n")
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(
        BadExperimentFile, match="2:9: Collocation: MPS needs nvidia-cuda-mps-control on PATH, which co"
    ):
        load(path, gpus, EXPORTERS)
    installed_mps(path.parent)
    load(path, gpus, EXPORTERS)


def test_the_working_directory_comes_first(write: Write) -> None:
    file = ExperimentFile.read(write(HEADER + "1,1,,,,,,train.py,,\n"))
    Path("train.py").touch()
    assert file.script(file.rows[0]) == Path.cwd() / "train.py"


# --- repetition of a row ----------------------------------------------------------------------------------------------


def test_fingerprint_is_of_what_is_run_and_where(write: Write) -> None:
    row = only_row(write, Params="--lr 0.1", Devices="0", Name="n", Listeners="top")
    same = [
        replace(row, name="other", listeners=None, status="failed", run=RUN, line=9, workload=7),
        only_row(write, Params="  --lr  0.1", Devices="0", Collocation="-", Environment="-"),
    ]
    other = [
        replace(row, params=["--lr", "0.2"]),
        replace(row, params=["--lr 0.1"]),
        replace(row, devices=("1",)),
        replace(row, script="b.py"),
        replace(row, data="/d"),
        replace(row, environment=Environment("conda", "x")),
        replace(row, collocation=Collocation("mps", percentage=50)),
    ]
    assert len(fingerprint(row)) == 64
    assert {fingerprint(each) for each in same} == {fingerprint(row)}
    assert len({fingerprint(each) for each in [row, *other]}) == 8
