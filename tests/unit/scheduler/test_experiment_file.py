"""Experiment files: good ones, errors of bad ones, and the fingerprint of a row."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row, fingerprint
from hypergauge.scheduler.plan.checks import Reactions, load
from tests.support.experiment_files import EXPORTERS, HEADER, WriteCsv

DATA = Path(__file__).parents[2] / "data" / "experiments"
RUN = "4f1c9a" + "0" * 26


def sample(write_csv: WriteCsv, name: str) -> Path:
    return write_csv((DATA / name).read_bytes())


def only_row(write_csv: WriteCsv, **cells: str) -> Row:
    cells = {"Experiment": "1", "Workload": "1", "File": "train.py"} | cells
    text = io.StringIO()
    csv.writer(text).writerows([cells.keys(), cells.values()])
    (row,) = ExperimentFile.read(write_csv(text.getvalue())).rows
    return row


# --- good files -------------------------------------------------------------------------------------------------------


def test_reads_a_file_written_for_radt(write_csv: WriteCsv) -> None:
    rows = ExperimentFile.read(sample(write_csv, "radt.csv")).rows
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


def test_reads_a_file_in_the_form_of_the_paper(write_csv: WriteCsv) -> None:
    path = sample(write_csv, "deem23.csv")
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


def test_reads_what_a_spreadsheet_writes(write_csv: WriteCsv) -> None:
    rows = ExperimentFile.read(sample(write_csv, "spreadsheet.csv")).rows
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
        ("größe=3 学习率=0.1", ["--größe=3", "--学习率=0.1"]),
        ("--epochs 3 batch-size=128", ["--epochs", "3", "--batch-size=128"]),
        ("--define batch-size=128", ["--define", "batch-size=128"]),
        ("--lr=0.1 batch-size=128", ["--lr=0.1", "--batch-size=128"]),
        ("'a b' https://x/?y=z /tmp/a=b", ["a b", "https://x/?y=z", "/tmp/a=b"]),
    ],
)
def test_params(write_csv: WriteCsv, text: str, params: list[str]) -> None:
    assert only_row(write_csv, Params=text).params == params


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
def test_status_is_read_by_its_first_word(write_csv: WriteCsv, text: str, status: str) -> None:
    assert only_row(write_csv, Status=text).status == status


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
def test_collocation(write_csv: WriteCsv, text: str, collocation: Collocation) -> None:
    assert only_row(write_csv, Collocation=text).collocation == collocation


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
def test_environment(write_csv: WriteCsv, text: str, environment: Environment) -> None:
    row = only_row(write_csv, Environment=text)
    assert row.environment == environment
    assert str(row.environment) == text


def test_profilers_are_kept_apart_from_exporters(write_csv: WriteCsv) -> None:
    row = only_row(write_csv, Listeners="free + nsys+ps+perf+weather")
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
def test_bad_files(write_csv: WriteCsv, content: str | bytes, problem: str) -> None:
    path = write_csv(content)
    before = path.read_bytes()
    with pytest.raises(BadRequest) as caught:
        ExperimentFile.read(path)
    assert str(caught.value).startswith(f"{path}:{' ' if problem[0].isalpha() else ''}{problem}")
    assert caught.value.exit_status == 2
    assert path.read_bytes() == before


def test_reports_everything_at_once_in_order(write_csv: WriteCsv) -> None:
    path = sample(write_csv, "bad.csv")
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


def test_actions_are_pairs_of_a_rule_and_what_is_done(write_csv: WriteCsv) -> None:
    file = ExperimentFile.read(
        write_csv("Experiment,Workload,File,actions\n1,1,a,Idle : stop-run+Idle:mark+ Busy:x\n1,1,a,\n")
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
def test_actions_that_there_are_not(write_csv: WriteCsv, cell: str, problem: str) -> None:
    path = write_csv(f"Experiment,Workload,File,Actions\n1,1,train.py,{cell}\n")
    path.with_name("train.py").touch()
    with pytest.raises(BadExperimentFile) as caught:
        load(path, Inventory(), EXPORTERS, Reactions(["Idle"], ["Busy"], ["mark", "stop-run"]))
    assert str(caught.value).startswith(f"{path}:2:14: Actions: {problem}")


def test_a_file_that_is_none(write_csv: WriteCsv) -> None:
    path = write_csv(HEADER)
    with pytest.raises(BadRequest, match=r"the file does not exist \(did you mean 'experiments.csv'\?\)$"):
        ExperimentFile.read(path.with_name("experiment.csv"))
    with pytest.raises(BadRequest, match=r"this is a folder, not a file$"):
        ExperimentFile.read(path.parent)
    os.mkfifo(path.with_name("pipe"))
    with pytest.raises(BadRequest, match=r"this is not a regular file$"):
        ExperimentFile.read(path.with_name("pipe"))


@pytest.mark.parametrize(("mode", "message"), [(0o444, "is not writable"), (0o000, "may not be read")])
def test_a_file_that_its_owner_has_closed(write_csv: WriteCsv, mode: int, message: str) -> None:
    path = write_csv(HEADER + "1,1,,,,,,train.py,,\n")
    path.chmod(mode)
    with pytest.raises(BadRequest, match=message):
        ExperimentFile.read(path)


# --- repetition of a row ----------------------------------------------------------------------------------------------


def test_fingerprint_is_of_what_is_run_and_where(write_csv: WriteCsv) -> None:
    row = only_row(write_csv, Params="--lr 0.1", Devices="0", Name="n", Listeners="top")
    same = [
        replace(row, name="other", listeners=None, status="failed", run=RUN, line=9, workload=7),
        only_row(write_csv, Params="  --lr  0.1", Devices="0", Collocation="-", Environment="-"),
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
