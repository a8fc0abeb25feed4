"""Rewritten experiment files: only status and run change."""

from __future__ import annotations

import csv
import io
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypergauge.cli.running.progress import show
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal.progress import Progress
from hypergauge.scheduler.experiment.csv_text import scan
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.plan.file_plan import writer
from tests.support.waiting import HUNG_SECONDS

DATA = Path(__file__).parents[2] / "data" / "experiments"
RUN = "4f1c9a" + "0" * 26

WRITER = """
import sys
from pathlib import Path
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from tests.support.fakes.mps import installed_mps

file = ExperimentFile.read(Path(sys.argv[1]))
for row in file.rows[int(sys.argv[2]) :: 4]:
    file.update({row.line: ("finished", f"r{row.line}")})
"""

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes ``experiments.csv``."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "experiments.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Experiment,Workload,Status,Run,File\n1,1,,,a\n", f"Experiment,Workload,Status,Run,File\n1,1,running,{RUN},a\n"),
        ("File,Status,Workload,Experiment\r\na,,1,1", f"File,Status,Workload,Experiment,Run\r\na,running,1,1,{RUN}"),
        ("Experiment,Workload,File\n1,1,a\n\n1,2,b\n", f"Experiment,Workload,File,Status,Run\n1,1,a,running,{RUN}\n\n1,2,b,,\n"),
        # One column is the last one and empty, the other is missing.
        ("Experiment,Workload,File,Run\n1,1,a,\n", f"Experiment,Workload,File,Run,Status\n1,1,a,{RUN},running\n"),
        ("Experiment,Workload,File,Status\n1,1,a,", f"Experiment,Workload,File,Status,Run\n1,1,a,running,{RUN}"),
        ('Experiment,Workload,File,Status,Run\n1,1,a,"failed", ""\n', f'Experiment,Workload,File,Status,Run\n1,1,a,"running", "{RUN}"\n'),
        # Right-aligned, left-aligned, and an empty cell aligned like the column's heading.
        ("Experiment,Workload,File,    Status,Run\n1,1,a,    failed,\n", f"Experiment,Workload,File,    Status,Run\n1,1,a,   running,{RUN}\n"),
        ("Experiment,Workload,File,Status  ,Run\n1,1,a,failed  ,\n", f"Experiment,Workload,File,Status  ,Run\n1,1,a,running ,{RUN}\n"),
        ("Experiment,Workload,File, Status   ,Run\n1,1,a,          ,\n", f"Experiment,Workload,File, Status   ,Run\n1,1,a, running  ,{RUN}\n"),
        ("Experiment, Workload, File, Status, Run\n1, 1, a, failed, \n", f"Experiment, Workload, File, Status, Run\n1, 1, a, running, {RUN}\n"),
        ("Experiment,Workload,File,Status,Run\n1,1,a,  ,\n", f"Experiment,Workload,File,Status,Run\n1,1,a,running,{RUN}\n"),
    ],
)  # fmt: skip
def test_only_status_and_run_change(write: Write, before: str, after: str) -> None:
    path = write(before)
    file = ExperimentFile.read(path)
    assert file.update({2: ("running", RUN)}) == frozenset()
    assert path.read_bytes().decode() == after
    assert {entry.name for entry in path.parent.iterdir()} == {"experiments.csv"}


def test_a_spreadsheet_keeps_its_form(write: Write) -> None:
    path = write((DATA / "spreadsheet.csv").read_bytes())
    before = path.read_bytes()
    ExperimentFile.read(path).update({2: ("finished", RUN), 6: ("failed", "")})
    after = path.read_bytes()
    assert after == (
        before.replace(b"Remarks,Status\r\n", b"Remarks,Status,Run\r\n")
        .replace(b'then yes",\r\n', b'then yes",finished,' + RUN.encode() + b"\r\n")
        .replace(b'"failed"\r\n', b'"failed",\r\n')
    )
    assert [row.status for row in ExperimentFile.read(path).rows] == ["finished", "failed"]


def test_edits_of_the_user_stay(write: Write) -> None:
    path = write("Experiment,Workload,Status,Run,File,Notes\n1,1,,,a,\n1,1,,,a,\n1,2,,,b,\n1,3,,,c,\n")
    file = ExperimentFile.read(path)
    file.update({2: ("running", "r1"), 3: ("running", "r2")})
    # A row is inserted, the columns are reordered, one row is deleted, and a running one has other parameters.
    path.write_text(
        "Workload,Experiment,File,Notes,Run,Status\n0,1,new,,,\n1,1,a2,mine,r2,running\n1,1,a,,r1,running\n3,1,c,ok,,\n"
    )
    missing = file.update({2: ("finished", "r1"), 3: ("failed", "r2"), 4: ("running", "r3"), 5: ("running", "r4")})
    assert missing == {4}
    assert path.read_text() == (
        "Workload,Experiment,File,Notes,Run,Status\n"
        "0,1,new,,,\n1,1,a2,mine,r2,failed\n1,1,a,,r1,finished\n3,1,c,ok,r4,running\n"
    )


def test_a_copied_row_does_not_take_the_status_of_its_original(write: Write) -> None:
    path = write("Experiment,Workload,Status,Run,File\n1,1,,,a\n")
    file = ExperimentFile.read(path)
    file.update({2: ("running", "r1")})
    path.write_text("Experiment,Workload,Status,Run,File\n1,2,running,r1,a\n1,1,running,r1,a\n")
    file.update({2: ("finished", "r1")})
    assert path.read_text().splitlines()[1:] == ["1,2,running,r1,a", "1,1,finished,r1,a"]


def test_a_file_in_the_middle_of_an_edit_is_left_alone(write: Write) -> None:
    path = write("Experiment,Workload,Status,Run,File\n1,1,,,a\n")
    file = ExperimentFile.read(path)
    path.write_text('Experiment,Workload,Status,Run,File\n1,1,,,"a\n')
    with pytest.raises(BadExperimentFile, match="never closed"):
        file.update({2: ("running", "r1")})
    assert path.read_text().endswith('"a\n')
    path.unlink()
    with pytest.raises(BadRequest, match="cannot be opened for writing"):
        file.update({2: ("running", "r1")})


def test_mode_and_link_stay(write: Write) -> None:
    path = write("Experiment,Workload,Status,Run,File\n1,1,,,a\n")
    path.chmod(0o664)
    link = path.with_name("link.csv")
    link.symlink_to(path.name)
    ExperimentFile.read(link).update({2: ("running", RUN)})
    assert link.is_symlink()
    assert "running" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_writers_at_the_same_time_lose_nothing(write: Write) -> None:
    count = 20
    path = write("Experiment,Workload,Status,Run,File\n" + "".join(f"1,{n},,,a\n" for n in range(count)))
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first)]) for first in range(4)]
    assert [writer.wait(HUNG_SECONDS) for writer in writers] == [0] * 4
    assert [row.run for row in ExperimentFile.read(path).rows] == [f"r{line}" for line in range(2, 2 + count)]


# --- properties -------------------------------------------------------------------------------------------------------

VALUE = st.text(st.sampled_from("ab ,\"\n\r\té€'="), max_size=6)
KNOWN = {"Experiment": "1", "Workload": "2", "File": "train.py"}


@st.composite
def files(draw: st.DrawFn) -> bytes:
    written_back = draw(st.sampled_from([(), ("Status",), ("Run",), ("Status", "Run"), ("run", "STATUS")]))
    columns = draw(st.permutations([*KNOWN, *written_back, "Notes", "Data"]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    values = KNOWN | {name: "failed" for name in written_back if name.lower() == "status"}
    rows = range(draw(st.integers(1, 4)))
    lines = [[values.get(name) or ("" if name.lower() == "run" else draw(VALUE)) for name in columns] for _ in rows]
    lines.insert(0, columns)

    def cell(value: str) -> str:
        if draw(st.booleans()) or value != value.strip() or any(c in value for c in ',"\r\n'):
            value = '"' + value.replace('"', '""') + '"'
        return draw(st.sampled_from(["", " ", "   "])) + value + draw(st.sampled_from(["", " ", "   "]))

    text = newline.join(",".join(map(cell, line)) + draw(st.sampled_from(["", newline])) for line in lines)
    return (draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", newline]))).encode()


def without_what_we_write(content: bytes, row: Row) -> str:
    text = content.decode()
    for cell in sorted((row.cells["Status"], row.cells["Run"]), key=lambda cell: -cell.start):
        text = text[: cell.start] + text[cell.end :]
    return text


@settings(max_examples=150, deadline=None)
@given(content=files(), data=st.data())
def test_writing_back_changes_nothing_else(content: bytes, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiments.csv"
        path.write_bytes(content)
        file = ExperimentFile.read(path)
        file.update({})
        assert path.read_bytes() == content

        changed = data.draw(st.sampled_from(file.rows))
        assert file.update({changed.line: ("finished", RUN)}) == frozenset()
        for before, after in zip(file.rows, ExperimentFile.read(path).rows, strict=True):
            expected = ("finished", RUN) if before is changed else (before.status, before.run)
            assert (after.status, after.run) == expected
            others = before.cells.keys() - {"Status", "Run"}
            assert {n: before.cells[n].raw for n in others} == {n: after.cells[n].raw for n in others}
            assert before is changed or before.cells.keys() < after.cells.keys() or before == after

        if {"Status", "Run"} <= changed.cells.keys():
            (written,) = (row for row in ExperimentFile.read(path).rows if row.line == changed.line)
            assert without_what_we_write(path.read_bytes(), written) == without_what_we_write(content, changed)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(VALUE, min_size=1, max_size=4), max_size=4), st.sampled_from(["\n", "\r\n", "\r"]))
def test_cells_are_those_of_the_standard_library(records: list[list[str]], newline: str) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=newline).writerows(records)
    ours = [[cell.text for cell in record] for record in scan(text.getvalue(), [])]
    theirs = csv.reader(io.StringIO(text.getvalue(), newline=""), skipinitialspace=True, strict=True)
    stripped = [[cell.strip() for cell in record] for record in theirs]
    assert ours == [record for record in stripped if any(record)]


def test_the_warning_on_a_removed_row_names_the_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("Experiment,Workload,File\n1,1,a\n1,1,b\n")
    file = ExperimentFile.read(path)
    path.write_text("Experiment,Workload,File\n1,1,a\n")
    with Progress() as progress:
        writer(file, lambda event: show(progress, event))({3: ("finished", RUN)})
    assert capsys.readouterr().err == "! the row of line 3 is no longer in experiments.csv\n"
    path.unlink()
    with Progress() as progress:
        writer(file, lambda event: show(progress, event))({2: ("finished", RUN)})
    assert capsys.readouterr().err.startswith("! statuses were not written back: ")
