"""Bad input: exit status 2, the place of the error, nothing started or changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.home import SCRIPTS, Home

HEADER = "Experiment,Workload,Devices,File,Listeners,Params\n"
SCRIPT = SCRIPTS / "clocked.py"


@pytest.fixture
def nowhere(home: Home, tmp_path: Path) -> Home:
    """A home in which nothing has ever been started."""
    return Home(tmp_path / "home", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            f"Experiment,File\n1,{SCRIPT}\n".encode(),
            ":1:1: the column 'Workload' is missing; the header has Experiment, File",
            id="a missing column",
        ),
        pytest.param(
            f"{HEADER}1,one,,{SCRIPT},,\n".encode(),
            ":2:3: Workload: must be a whole number of at most 9 digits, not 'one'",
            id="a workload that is not a number",
        ),
        pytest.param(
            f"{HEADER}1,1,,{SCRIPT},,\n1,1,,{SCRIPT},proces,\n".encode(),
            "there is no exporter 'proces' (did you mean 'process'?)",
            id="an unknown listener",
        ),
        pytest.param(f"{HEADER}1,1,7,{SCRIPT},,\n".encode(), ":2:5: Devices: ", id="a device that does not exist"),
        pytest.param(
            f"{HEADER}1,1,,{SCRIPTS}/clock.py,,\n".encode(),
            f":2:6: File: the script '{SCRIPTS}/clock.py' does not exist in {SCRIPTS} (did you mean 'clocked.py'?)",
            id="a script that does not exist",
        ),
        pytest.param(f'{HEADER}1,1,,{SCRIPT},,"--seconds 1\n'.encode(), ":2:", id="an unclosed quote"),
        pytest.param(b"", ": the file is empty", id="an empty file"),
        pytest.param(
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ":1:1: this is not a text file in UTF-8: byte 0x89", id="a binary file"
        ),
    ],
)
def test_a_bad_file_is_refused(nowhere: Home, content: bytes, message: str) -> None:
    file = nowhere.folder / "experiments.csv"
    file.write_bytes(content)
    printed = nowhere.bench("schedule", file, status=2)
    assert printed.startswith(f"error: {file}:")
    assert message in printed
    assert file.read_bytes() == content
    assert not nowhere.path.exists()


def test_a_file_that_may_not_be_written_is_refused(nowhere: Home) -> None:
    file = nowhere.folder / "experiments.csv"
    file.write_text(f"{HEADER}1,1,,{SCRIPT},,\n")
    file.chmod(0o444)
    printed = nowhere.bench("schedule", file, status=2)
    assert printed.startswith(f"error: {file}: the file is not writable")
    assert (file.read_text(), file.stat().st_mode & 0o777) == (f"{HEADER}1,1,,{SCRIPT},,\n", 0o444)
    assert not nowhere.path.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "999999"], "999999 names no run"),
        (["compare", "nonsense"], "'nonsense' selects nothing: write EXPERIMENT"),
        (["list", "999999/1"], "999999/1 names no run"),
        (["logs", "abcdef"], "no run's id begins with abcdef"),
        (["stop", "999999/1/1"], "999999/1/1 names no run"),
        (["compare", "0", "--by", "nonsense"], "--by is 'run', 'row' or 'workload', not 'nonsense'"),
        (["compare", "0", "--scope", "hots"], "there is no scope 'hots' (did you mean 'host'?)"),
        (["compare", "0", "--align", "stepp"], "runs cannot be aligned by 'stepp' (did you mean 'step'?)"),
        (["schedule", "experiments.csv", "--rerun", "some"], "--rerun is 'failed' or 'all', not 'some'"),
        (["schedule", "experiment.csv"], "experiment.csv: the file does not exist"),
        (["run", "--devices", "7", "--", "true"], "7"),
    ],
    ids=" ".join,
)
def test_a_bad_request_is_refused(home: Home, words: list[str], message: str) -> None:
    before = home.query("select count(*) as runs from runs")
    assert message in home.bench(*words, status=2)
    assert home.query("select count(*) as runs from runs") == before
