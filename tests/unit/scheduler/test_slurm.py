"""Slurm's options, output and commands, with stand-ins for Slurm's programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Gpu, inventory
from hypergauge.scheduler.executors.base import Account, ExecutorAway, JobState, Request, RunExit, Submission
from hypergauge.scheduler.executors.slurm import SlurmExecutor, output_parser
from hypergauge.scheduler.executors.slurm.commands import SlurmRefused, run_command
from hypergauge.scheduler.executors.slurm.options import SlurmOptions, row_options
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile

RUN = "0123456789abcdef0123456789abcdef"
HEADER = "Experiment,Workload,Name,Devices,Collocation,Slurm,File\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that replaces one of Slurm's commands by a shell script."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def lay(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return lay


def rows(tmp_path: Path, *lines: str) -> ExperimentFile:
    path = tmp_path / "e.csv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return ExperimentFile.read(path)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("7|PENDING||N/A|Resources", JobState("pending", "Resources")),
        ("7|PENDING||N/A|ReqNodeNotAvail, UnavailableNodes:n1", JobState("pending", "ReqNodeNotAvail, UnavailableNodes:n1")),
        ("7|REQUEUED|n1|N/A|None", JobState("pending")),
        ("7|RUNNING|n1|1700000000|None", JobState("running", host="n1")),
        ("7|COMPLETING|n1|1700000000|None", JobState("running", host="n1")),
        ("7|COMPLETED|n1|1700000000|None", JobState("ended", None, "n1", 1.7e9)),
        ("7|FAILED|n1|1700000000|JobLaunchFailure", JobState("ended", "Slurm: JobLaunchFailure", "n1", 1.7e9)),
    ],
)  # fmt: skip
def test_a_line_of_the_queue(line: str, state: JobState) -> None:
    assert output_parser.queue_line(line) == state


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ("TIMEOUT", "timeout", "Slurm: the time limit was reached"),
        ("DEADLINE", "timeout", "Slurm: the deadline was reached"),
        ("OUT_OF_MEMORY", "failed", "Slurm: out of memory"),
        ("NODE_FAIL", "failed", "Slurm: node n1 failed"),
        ("PREEMPTED", "stopped", "Slurm: preempted"),
        ("CANCELLED", "stopped", "Slurm: cancelled"),
        ("CANCELLED+", "stopped", "Slurm: cancelled"),
        ("CANCELLED by 0", "stopped", "Slurm: cancelled by user root"),
        ("CANCELLED by 4294967290", "stopped", "Slurm: cancelled by user 4294967290"),
    ],
)
def test_slurms_states_become_ours(state: str, status: str, reason: str) -> None:
    assert output_parser.run_exit(state, "n1") == RunExit(status, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_what_ended_by_itself_has_no_requester(state: str) -> None:
    assert output_parser.run_exit(state) is None


def test_lines_of_the_accounting() -> None:
    text = (
        "7|20/1 e|CANCELLED by 0|61|01:02.500||\n"
        "7.batch|batch|CANCELLED|61|00:01.500|412000K|0\n"
        f"7.0|{RUN}|OUT_OF_MEMORY|60|1-02:03:04|1.50G|1234\n"
    )
    job, _, step = output_parser.steps(text)
    assert (job.is_job, step.is_job) == (True, False)
    assert job.account.cpu_seconds == 62.5
    assert step.account == Account("7.0", "OUT_OF_MEMORY", 60.0, 93784.0, 1.5 * 2**30, 1234.0)
    assert output_parser.by_run([job, step]) == {RUN: step}


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("slurmstepd-n1: error: StepId=43.0 exceeded memory limit (2 > 1), being killed", "Slurm: out of memory"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=16.0.", "Slurm: out of memory"),
        ("srun: error: n1: task 0: Out Of Memory", "Slurm: out of memory"),
        ("srun: error: Node failure on n1", "Slurm: node n1 failed"),
        ("srun: forcing job termination", None),
    ],
)
def test_why_a_step_has_ended(log: str, reason: str | None) -> None:
    assert output_parser.why_lost(f"something\n{log}\n") == reason


def test_options_of_the_file_come_before_those_of_a_row(tmp_path: Path) -> None:
    executor = SlurmExecutor(
        {"partition": "gpu", "time": "1:00", "options": ["--mem=8G"], "gres": "gpu:a100:{count}"}, None
    )
    file = rows(tmp_path, "20,1,a,0,,partition=big -t 2:00,t.py", "20,1,b,0+3,,partition=big -t 2:00,t.py")
    assert list(executor.problems(file.rows)) == []
    request = executor.request(file.rows)
    assert request == Request(2, {}, ("--partition=big", "-t", "2:00"))
    assert executor._words(request) == [
        "--partition=gpu", "--time=1:00", "--mem=8G", "--partition=big", "-t", "2:00", "--nodes=1", "--ntasks=1",
        "--gres=gpu:a100:2",
    ]  # fmt: skip


def test_mig_instances_are_requested_by_profile(tmp_path: Path) -> None:
    file = rows(tmp_path, "20,1,a,0,3g.20gb,,t.py", "20,1,b,0,3g.20gb,,t.py", "20,1,c,1,1g.5gb,,t.py")
    executor = SlurmExecutor({}, None)
    assert executor._words(executor.request(file.rows))[-1] == "--gres=gpu:1g.5gb:1,gpu:3g.20gb:2"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["20,1,a,GPU-1,,,t.py"], "Devices: GPU-1 is one GPU of one host"),
        (["20,1,a,,,-N 2,t.py"], "Slurm: --nodes is reserved"),
        (["20,1,a,,,gres=gpu:2,t.py"], "Slurm: --gres is reserved"),
        (["20,1,a,,,'open,t.py"], "Slurm: the parameters cannot be split"),
        (["20,1,a,,,time=1,t.py", "20,1,b,,,time=2,t.py"], "Slurm: the rows of a workload share one job"),
    ],
)
def test_rows_that_slurm_cannot_have(tmp_path: Path, lines: list[str], complaint: str) -> None:
    [(_, column, message)] = SlurmExecutor({}, None).problems(rows(tmp_path, *lines).rows)
    assert f"{column}: {message}".startswith(complaint)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"partion": "gpu"}, "unknown setting 'partion' (did you mean 'partition'?)"),
        ({"time": 30}, "time must be a string"),
        ({"options": "--mem=8G"}, "options must be a list of strings"),
        ({"options": ["--array=1-3"]}, "--array is reserved"),
        ({"gres": "gpu:{number}"}, "its replacement fields are {count}"),
    ],
)
def test_a_section_that_is_wrong_is_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        SlurmOptions.read(section, Path("bench.toml"))
    assert "bench.toml: [slurm]: " in str(caught.value)
    assert message in str(caught.value)


def test_short_words_of_a_row_are_sbatchs() -> None:
    assert row_options("partition=gpu --mem 4G -p x") == ("--partition=gpu", "--mem", "4G", "-p", "x")
    assert row_options("-") == ()


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1", ExecutorAway,
         "Slurm's controller does not answer"),
        ("echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1", ExecutorAway, "Socket timed out"),
        ("echo 'sbatch: fatal: Could not establish a configuration source' >&2; exit 1", BadRequest, "not configured"),
        ("echo 'allocation failure: Invalid feature specification' >&2; exit 1", SlurmRefused, "Invalid feature specification"),
        ("exit 3", SlurmRefused, "sbatch ended with status 3"),
    ],
)  # fmt: skip
def test_what_a_command_complains_about(
    program: Callable[[str, str], None], script: str, error: type[Exception], message: str
) -> None:
    program("sbatch", script)
    with pytest.raises(error, match=message):
        run_command("sbatch")


def test_there_is_no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadRequest, match="there is no sbatch on PATH"):
        SlurmExecutor({}, None).check(Request(), Path("/"))


def test_a_partition_that_does_not_exist_has_a_near_one(program: Callable[[str, str], None]) -> None:
    program("sbatch", "echo 'sbatch: error: invalid partition specified: gup' >&2; exit 1")
    program("sinfo", "echo 'gpu|idle'; echo 'cpu|idle'")
    why = SlurmExecutor({"partition": "gup"}, None).check(Request(), Path("/"))
    assert why == "Slurm has no partition 'gup' (did you mean 'gpu'?)"


@pytest.mark.parametrize(("state", "refused"), [("idle", True), ("drained", False), ("idle*", False)])
def test_what_a_node_that_is_down_may_have_is_not_refused(
    program: Callable[[str, str], None], state: str, refused: bool
) -> None:
    program("sbatch", "echo 'allocation failure: Requested node configuration is not available' >&2; exit 1")
    program("sinfo", f"echo 'gpu|{state}'")
    why = SlurmExecutor({}, None).check(Request(gpus=8), Path("/"))
    assert (why is not None) is refused
    assert why is None or "--gres=gpu:8" in why


def test_a_job_is_handed_in_without_a_secret_on_its_command_line(
    program: Callable[[str, str], None], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    program(
        "sbatch", f'printf "%s\\n" "$@" > {seen}; cat >> {seen}; echo "$BENCH_DSN" > {seen}.dsn; echo "4711;cluster"'
    )
    job = Submission("hypergauge-1", "20/1 e", Request(), "script\n", {"BENCH_DSN": "secret"}, tmp_path)
    assert SlurmExecutor({}, None).submit(job) == "4711"
    assert "--comment=hypergauge-1\n" in seen.read_text()
    assert seen.read_text().endswith("script\n")
    assert "secret" not in seen.read_text()
    assert Path(f"{seen}.dsn").read_text() == "secret\n"


def test_a_job_is_found_by_its_comment(program: Callable[[str, str], None]) -> None:
    program("squeue", "echo '1|(null)'; echo '2|hypergauge-1'")
    executor = SlurmExecutor({}, None)
    assert (executor.find("hypergauge-1"), executor.find("hypergauge-2")) == ("2", None)


def test_a_job_that_the_queue_has_forgotten_is_in_the_accounting(program: Callable[[str, str], None]) -> None:
    program("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    program("sacct", f"echo '7|20/1 e|TIMEOUT|61|00:01||'; echo '7.0|{RUN}|CANCELLED|60|00:01||'")
    executor = SlurmExecutor({}, None)
    over = RunExit("timeout", "Slurm: the time limit was reached")
    assert executor.look("7") == JobState("ended", over.reason, None, None, over, {RUN: over})
    program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert executor.look("7") is None
    assert executor.accounts("7") is None


def test_a_job_has_the_gpus_that_slurm_names(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = inventory("3xA100:2x3g.20gb").gpus
    executor = SlurmExecutor({}, None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    whole, _ = executor.visible(gpus)
    assert [gpu.index for gpu in whole] == [2, 0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus[1].mig[1].uuid)
    assert executor.visible(gpus) == ([gpus[1]], [gpus[1].mig[1].uuid])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert executor.visible(gpus) == ([], [])
    amd = [Gpu(n, f"GPU-{n}", "MI300X", 0, vendor="amd", runtime_id=f"GPU-{n}f444a2fb30adeb0") for n in range(2)]
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1")
    assert executor.visible([*gpus, *amd]) == ([amd[1]], [])


def test_the_section_is_no_setting_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bench.toml").write_text('executor = "slurm"\n[slurm]\npartition = "gpu"\n')
    monkeypatch.chdir(tmp_path)
    settings = Settings.load({"BENCH_HOME": str(tmp_path)})
    assert settings.executor == "slurm"
    assert Settings.received(json.loads(json.dumps(settings.carried()))) == settings
