"""Manifests of runs: content, removal of secrets, and later changes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.environments.containers import Container
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.job import Job, job_from_command, job_from_row
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.provenance.hardware import hardware
from hypergauge.scheduler.provenance.manifest import DIFF, LOCK, MANIFEST, ManifestWriter, differences, read_manifest
from hypergauge.scheduler.provenance.packages import packages_of
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.scheduler.provenance.sources import MOST_CHARACTERS, Sources
from hypergauge.sql.runs.runs import KnownRun
from tests.support.fakes import docker as fake_docker
from tests.support.waiting import HUNG_SECONDS

GIT = ["git", "-c", "user.name=me", "-c", "user.email=me@here"]
LISTENERS = dict.fromkeys(("host", "process"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository with one commit, and make it the working directory."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text("lr = 0.1\n")
    (folder / ".env").write_text("A=1\n")
    for words in (["init", "--quiet", "--initial-branch", "trunk"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        subprocess.run([*GIT, *words], check=True)
    return folder


def head() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


# --- packages ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def python(tmp_path: Path) -> tuple[str, Path]:
    """Return the interpreter of an empty virtual environment, and its folder of packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    [packages] = (tmp_path / "env").glob("lib/python*/site-packages")
    return str(tmp_path / "env" / "bin" / "python"), packages


def install(packages: Path, name: str, version: str, origin: object = None) -> None:
    folder = packages / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if origin:
        (folder / "direct_url.json").write_text(json.dumps(origin))


def test_packages_are_listed_anew_when_some_were_installed(python: tuple[str, Path], tmp_path: Path) -> None:
    interpreter, packages = python
    install(packages, "torch", "2.5.1")
    cache = tmp_path / "cache"
    assert packages_of([interpreter], cache, {}).lines == ("torch==2.5.1",)
    [kept] = cache.iterdir()
    kept.write_text(kept.read_text().replace("torch", "KEPT"))
    assert packages_of([interpreter], cache, {}).lines == ("KEPT==2.5.1",)  # from the cache
    origin = {"url": "https://x/y.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    install(packages, "apex", "0.1", origin)
    found = packages_of([interpreter], cache, {})
    version = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    assert found.lock("python") == f"# python, Python {version}\napex @ git+https://x/y.git@abc\ntorch==2.5.1\n"


def test_an_interpreter_without_an_answer(tmp_path: Path) -> None:
    found = packages_of(["false"], tmp_path, dict(os.environ))
    assert found.lock("false") == "# false: its packages cannot be listed: exit status 1\n"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Container]:
    """Yield a container of an image, with Docker on ``PATH``."""
    program = fake_docker.install(tmp_path / "bin", "torch:1")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with fake_docker.daemon(program):
        yield Container(str(program), "torch:1")


def test_packages_of_an_image_are_listed_in_it(docker: Container, tmp_path: Path) -> None:
    # The entry point of an image may print a greeting.
    greeting = "import os, sys; print('== PyTorch ==', flush=True); os.execvp(sys.argv[1], sys.argv[1:])"
    start = docker.query_command(["python", "-c", greeting, sys.executable], "a")
    found = packages_of(start, tmp_path / "cache", {}, image=fake_docker.IMAGE_ID)
    assert any(line.startswith("pytest==") for line in found.lines)
    assert packages_of(start, tmp_path / "cache", {}, image=fake_docker.IMAGE_ID) == found


def test_an_image_that_does_not_answer_leaves_no_container(
    docker: Container, writer: ManifestWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypergauge.scheduler.provenance.packages._LIST_SECONDS", 3.0)
    deaf = tmp_path / "deaf"
    deaf.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    deaf.chmod(0o755)
    command = Command(("python",), tmp_path, {}, python=str(deaf), container=docker)
    job = replace(job_from_command(["python"], name=None, devices=None), command=command)
    assert "packages cannot be listed" in writer.begin([job]).files(job)[LOCK]
    pid = int((tmp_path / "pid").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(HUNG_SECONDS)


# --- sources ----------------------------------------------------------------------------------------------------------


def test_the_commit_and_what_differs_from_it(repository: Path) -> None:
    clean = Sources.of((repository,))
    assert clean == Sources(str(repository), head(), "trunk")
    (repository / "train.py").write_text("lr = 0.2\n")
    (repository / ".env").write_text("A=secret\n")
    (repository / "untracked.py").write_text("b = 1\n")
    found = Sources.of((repository.parent, repository))
    assert found is not None
    assert [line for line in found.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-lr = 0.1",
        "+lr = 0.2",
    ]
    assert found.digest is not None


def test_where_there_is_no_commit(tmp_path: Path) -> None:
    assert Sources.of((tmp_path,)) is None
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert Sources.of((tmp_path,)) == Sources(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('api_key = "hunter2"', 'api_key = "***"'),
        ("API_TOKEN: str = 'hunter2'", "API_TOKEN: str = '***'"),
        ('{"password": "hunter2", "lr": "0.1"}', '{"password": "***", "lr": "0.1"}'),
        ('os.environ["HF_TOKEN"] = "hunter2"', 'os.environ["HF_TOKEN"] = "***"'),
        ("export AWS_SECRET_ACCESS_KEY=hunter2", "export AWS_SECRET_ACCESS_KEY=***"),
        ("  password: hunter2  # mine", "  password: ***  # mine"),
        ("python train.py --auth-token hunter2 --lr 0.1", "python train.py --auth-token *** --lr 0.1"),
        ("uri = 'postgresql://me:hunter2@host/db'", "uri = 'postgresql://me:***@host/db'"),
        ('password = """hunter2"""', 'password = """***"""'),
        ("login(token='hunter2', add=True)", "login(token='***', add=True)"),
        ("num_tokens = 4096", "num_tokens = 4096"),
        ('tokenizer = "gpt2"', 'tokenizer = "gpt2"'),
        ("tokens = tokenizer(text)", "tokens = tokenizer(text)"),
        ("lr = 0.3", "lr = 0.3"),
    ],
)
def test_what_looks_secret_is_hidden_in_a_diff(repository: Path, line: str, kept: str) -> None:
    (repository / "train.py").write_text(f"{line}\n")
    found = Sources.of((repository,))
    assert found is not None
    assert [one for one in found.diff.splitlines() if one.startswith("+") and not one.startswith("+++")] == [f"+{kept}"]


def test_a_long_diff_is_cut(repository: Path) -> None:
    (repository / "train.py").write_text("token" * MOST_CHARACTERS)  # one line, without a boundary for the cut
    found = Sources.of((repository,))
    assert found is not None
    assert (len(found.diff), found.whole) == (MOST_CHARACTERS + len("\n(cut here)\n"), False)


# --- hardware ---------------------------------------------------------------------------------------------------------


def test_what_a_host_is(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD EPYC 7742 64-Core Processor\n")
    (tmp_path / "etc/os-release").write_text('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    found = hardware(inventory("1xH100"), tmp_path)
    assert (found["cpu"], found["system"]) == ("AMD EPYC 7742 64-Core Processor", "Debian GNU/Linux 12 (bookworm)")
    assert (found["driver"], found["cuda"], found["gpus"][0]["name"]) == ("575.57.08", "12.9", "NVIDIA H100 80GB HBM3")
    assert "driver" not in hardware(Inventory(reason="Driver Not Loaded"), tmp_path)


# --- the manifest -----------------------------------------------------------------------------------------------------

Earlier = Callable[[Job], RepeatedRun]


@pytest.fixture
def writer(tmp_path: Path) -> ManifestWriter:
    return ManifestWriter(tmp_path / "home", inventory("1xT4"))


@pytest.fixture
def earlier(tmp_path: Path, writer: ManifestWriter) -> Earlier:
    """Return a function that writes a job's manifest and reads it back."""

    def write(job: Job) -> RepeatedRun:
        folder = RunFolder(tmp_path / "runs" / "a")
        folder.create({})
        writer.begin([job]).write(folder, job)
        assert {path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {0o600}
        return RepeatedRun.read("1/1/1", folder, "here")

    return write


PREVIOUS = KnownRun("a" * 32, None, 1, 3, 2, "fingerprint", "finished")


def row_job(repository: Path, row: str) -> Job:
    path = repository / "e.csv"
    path.write_text(f"Experiment,Workload,Status,Notes,Devices,File,Params\n{row}\n")
    file = ExperimentFile.read(path)
    return job_from_row(file, file.rows[0], inventory("1xT4"), position=3, attempt=2, previous=None)


def test_a_run_is_repeated_from_its_manifest(repository: Path, earlier: Earlier) -> None:
    job = row_job(repository, '1,1,finished,"a, ""b""",0,train.py,lr=0.1 note=\'a b\'')
    run = earlier(job)
    assert run.content["git"]["commit"] == head()
    assert run.content["devices"] == [inventory("1xT4").gpus[0].uuid]
    assert f"pytest=={pytest.__version__}" in run.files[LOCK].splitlines()
    assert run.directory == repository
    (repository / "e.csv").unlink()  # the manifest is sufficient
    again = run.job(inventory("1xT4"), LISTENERS, PREVIOUS, 4)
    same = replace(job, attempt=4, previous=PREVIOUS, line=None, fingerprint="fingerprint")
    assert replace(again, request={}) == replace(same, request={})


def test_a_command_is_repeated_from_its_manifest(repository: Path, earlier: Earlier) -> None:
    job = job_from_command([sys.executable, "train.py", "--lr", "0.1"], name="mine", devices=None)
    again = earlier(job).job(Inventory(), LISTENERS, PREVIOUS, 4)
    assert (again.command, again.name, again.devices, again.attempt) == (job.command, "mine", None, 4)


@pytest.mark.parametrize(
    ("row", "inventories", "expected"),
    [
        (
            "1,1,,,,train.py,--api-key x",
            "1xT4",
            "had a parameter that looks secret, which is not in its manifest: repeat it from",
        ),
        ("1,1,,,0,train.py,", None, "does not exist: this host has no GPU"),
        ("1,1,,,,gone.py,", "1xT4", "run 1/1/1 cannot be repeated: File: the script 'gone.py' does not exist in"),
    ],
)
def test_what_cannot_be_repeated(
    repository: Path, earlier: Earlier, row: str, inventories: str | None, expected: str
) -> None:
    (repository / "gone.py").touch()
    run = earlier(row_job(repository, row))
    (repository / "gone.py").unlink()
    with pytest.raises(BadRequest) as caught:
        run.job(inventory(inventories) if inventories else Inventory(), LISTENERS, PREVIOUS, 3)
    assert expected in str(caught.value)


def test_no_secret_is_recorded(repository: Path, earlier: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter2")
    (repository / "train.py").write_text("token = 'hunter2'\n")
    run = earlier(row_job(repository, "1,1,,,,train.py,--api-key hunter2"))
    assert sorted(run.files) == [DIFF, MANIFEST, LOCK]
    assert "hunter2" not in "".join(run.files.values())


def test_no_column_that_looks_secret_is_recorded(repository: Path, earlier: Earlier) -> None:
    path = repository / "e.csv"
    path.write_text("Experiment,Workload,My Token,Notes,File\n1,1,hunter2,mine,train.py\n")
    file = ExperimentFile.read(path)
    run = earlier(job_from_row(file, file.rows[0], Inventory(), position=1, attempt=1, previous=None))
    assert "hunter2" not in "".join(run.files.values())
    assert run.job(Inventory(), LISTENERS, PREVIOUS, 2).command.words[1:] == (str(repository / "train.py"),)


def test_a_run_without_a_manifest(tmp_path: Path) -> None:
    assert read_manifest(RunFolder(tmp_path)) is None
    with pytest.raises(BadRequest, match="run 1/2/3 has no manifest on this host; it ran on n1"):
        RepeatedRun.read("1/2/3", RunFolder(tmp_path), "n1")


def test_what_has_changed_since(repository: Path, writer: ManifestWriter) -> None:
    job = row_job(repository, "1,1,,,,train.py,")
    then = writer.begin([job]).files(job)
    assert differences(then, writer.begin([job]).files(job)) == []
    before = head()
    (repository / "train.py").write_text("lr = 0.2\n")
    subprocess.run([*GIT, "commit", "--quiet", "-am", "y"], check=True)
    (repository / "train.py").write_text("lr = 0.3\n")
    now = writer.begin([job]).files(job)
    now[LOCK] = now[LOCK].replace(f"pytest=={pytest.__version__}\n", "pytest==0.1\nnew @ file:///x\n")
    assert differences(then, now) == [
        f"the commit was {before[:10]} and is {head()[:10]}",
        "the uncommitted changes of the repository are different",
        "package new was not installed and is file:///x",
        f"package pytest was {pytest.__version__} and is 0.1",
    ]
    now[LOCK] = "# nothing\n"
    assert differences(then, now)[-1].endswith("more packages differ")
