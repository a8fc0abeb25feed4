"""Sweeps: the experiment files of specifications, and errors."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment import sweep
from hypergauge.scheduler.experiment.draws import draw
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.experiment.sweep_file import SweepFile
from tests.support.waiting import HUNG_SECONDS

ROOT = Path(__file__).parents[3]
BASE = '[experiment]\nid = 30\nfile = "train.py"\n'
COMMAND = [sys.executable, "-P", "-m", "hypergauge.cli", "sweep"]

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a specification."""

    def write(content: str) -> Path:
        path = tmp_path / "sweep.toml"
        path.write_text(content)
        return path

    return write


def params(path: Path) -> list[str]:
    return [row["Params"] for row in sweep.rows(SweepFile.read(path))]


def column(path: Path, *names: str) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in names) for row in sweep.rows(SweepFile.read(path))]


def test_a_grid_has_each_value_with_each(write: Write) -> None:
    assert params(write(BASE + 'params = "--epochs 3"\n[grid]\nlr = [0.1, 1e-5]\nhidden = [32, 64]\n')) == [
        "--epochs 3 --lr=0.1 --hidden=32",
        "--epochs 3 --lr=0.1 --hidden=64",
        "--epochs 3 --lr=1e-05 --hidden=32",
        "--epochs 3 --lr=1e-05 --hidden=64",
    ]


def test_values_are_written_as_a_command_line_has_them(write: Write) -> None:
    text = """[grid]\nx = [-1, 0.5, "two words", "it's", "", "a,b", "-v", true, false]\n"model.lr" = [1]\n"""
    words = [shlex.split(line) for line in params(write(BASE + text))]
    assert [line[:-1] for line in words] == [
        ["--x=-1"], ["--x=0.5"], ["--x=two words"], ["--x=it's"], ["--x="], ["--x=a,b"], ["--x=-v"], ["--x"], [],
    ]  # fmt: skip
    assert {line[-1] for line in words} == {"--model.lr=1"}


def test_rows_share_workloads_and_the_same_point_has_one_name(write: Write) -> None:
    text = 'name = "n"\ntogether = [1, 2]\ncollocation = ["-", "MPS:50"]\ndevices = [0, "1+2"]\nworkload = 5\n'
    path = write(BASE + text + "[grid]\nx = [1, 2, 3]\n")
    assert column(path, "Workload", "Name", "Devices", "Collocation") == [
        ("5", "n-1", "0", "-"), ("6", "n-2", "0", "-"), ("7", "n-3", "0", "-"),
        ("8", "n-1", "0", "MPS:50"), ("9", "n-2", "0", "MPS:50"), ("10", "n-3", "0", "MPS:50"),
        ("11", "n-1", "0", "-"), ("11", "n-2", "1+2", "-"), ("12", "n-3", "0", "-"),
        ("13", "n-1", "0", "MPS:50"), ("13", "n-2", "1+2", "MPS:50"), ("14", "n-3", "0", "MPS:50"),
    ]  # fmt: skip


def test_each_point_runs_beside_each_other_and_itself(write: Write) -> None:
    """After it has run alone, as `bench interference` needs it."""
    path = write(BASE + 'name = "n"\ndevices = "0"\n[grid]\nx = [1, 2]\n[pairs]\n')
    assert column(path, "Workload", "Name", "Devices") == [
        ("1", "n-1", "0"), ("2", "n-2", "0"),
        ("3", "n-1", "0"), ("3", "n-1", "0"), ("4", "n-1", "0"), ("4", "n-2", "0"), ("5", "n-2", "0"), ("5", "n-2", "0"),
    ]  # fmt: skip


def test_a_share_of_the_pairs_is_drawn_and_stays_with_more_points(write: Write) -> None:
    def pairs(points: int, share: float, seed: int = 3) -> list[tuple[str, ...]]:
        text = BASE + f'name = "n"\n[grid]\nx = {list(range(points))}\n[pairs]\nshare = {share}\nseed = {seed}\n'
        found = sweep.rows_of(write(text))[points:]
        names = [row["Name"].partition("-")[2].lstrip("0") for row in found]
        assert [one["Workload"] for one in found[::2]] == [str(points + n) for n in range(1, len(found) // 2 + 1)]
        return list(zip(names[::2], names[1::2], strict=True))

    assert len(pairs(6, 0.25)) == round(0.25 * 21)
    assert pairs(6, 0.25) == pairs(6, 0.25) != pairs(6, 0.25, seed=4)
    assert set(pairs(6, 0.25)) <= set(pairs(6, 0.5))
    assert len(pairs(3, 0.001)) == 1
    order = pairs(8, 0.999)
    assert [pair for pair in order if set(pair) <= set("123456")] == pairs(6, 1.0)


def test_too_many_pairs_are_refused(write: Write) -> None:
    with pytest.raises(BadRequest, match=r"the sweep has 50,005,000 pairs to draw from, but at most 1,000,000"):
        sweep.rows_of(write(BASE + f"[grid]\nx = {list(range(10_000))}\n[pairs]\nshare = 1e-6\n"))


def test_names_sort_as_their_numbers(write: Write) -> None:
    names = column(write(BASE + f"[grid]\nx = {list(range(12))}\n"), "Name")
    assert (names[0], names[-1], names) == (("train-01",), ("train-12",), sorted(names))


def test_one_point_has_the_name_alone(write: Write) -> None:
    text = '[experiment]\nid = 0\nmodel = "resnet"\ndata = "cifar"\nlisteners = ["host", "process"]\n[grid]\nx = [1]\n'
    assert column(write(text), "Name", "Model", "Data", "Listeners") == [("resnet", "resnet", "cifar", "host+process")]


SEARCH = """[random]
count = 3
seed = 7
uniform = { dropout = [0, 0.5] }
loguniform = { lr = [1e-5, 1e-1] }
int = { hidden = [32, 512] }
choice = { optimizer = ["adam", "sgd"] }
"""
EXPECTED = [
    "--dropout=0.128411 --lr=0.00280962 --hidden=60 --optimizer=adam",
    "--dropout=0.0889625 --lr=1.06534e-05 --hidden=258 --optimizer=adam",
    "--dropout=0.492423 --lr=0.0121798 --hidden=276 --optimizer=sgd",
]


def test_a_search_is_the_same_for_a_seed_everywhere(write: Write) -> None:
    assert params(write(BASE + SEARCH)) == EXPECTED
    assert params(write(BASE + SEARCH.replace("seed = 7", "seed = 8"))) != EXPECTED


def test_draws_of_one_parameter_do_not_depend_on_others(write: Write) -> None:
    fewer = "".join(line for line in SEARCH.splitlines(keepends=True) if not line.startswith(("uniform", "choice")))
    assert params(write(BASE + fewer.replace("count = 3", "count = 5")))[:3] == [
        " ".join(line.split()[1:3]) for line in EXPECTED
    ]


def test_each_draw_meets_each_point_of_the_grid(write: Write) -> None:
    lines = params(write(BASE + SEARCH + "[grid]\nbatch = [1, 2]\n"))
    assert lines == [f"{drawn} --batch={batch}" for drawn in EXPECTED for batch in (1, 2)]


@given(
    st.sampled_from(["uniform", "loguniform", "int"]),
    st.integers(1, 10**18),
    st.integers(1, 10**18),
    st.integers(0, 2**63 - 1),
)
def test_what_is_drawn_lies_in_its_range(distribution: str, low: int, more: int, seed: int) -> None:
    ends = (low, low + more) if distribution == "int" else (low / 1e9, low / 1e9 + more / 1e9 + low)
    for value in draw(distribution, ends, name="x", seed=seed, count=20):
        assert ends[0] <= value <= ends[1]  # type: ignore[operator]
        assert isinstance(value, int) == (distribution == "int")


def test_all_of_a_small_range_is_drawn() -> None:
    assert set(draw("int", [1, 3], name="x", seed=0, count=100)) == {1, 2, 3}
    assert set(draw("int", [2**53, 2**53 + 1], name="x", seed=0, count=100)) == {2**53, 2**53 + 1}
    assert set(draw("choice", ["a", True], name="x", seed=0, count=100)) == {"a", True}


def test_half_of_a_logarithmic_range_is_below_its_middle() -> None:
    values = draw("loguniform", [1e-4, 1.0], name="x", seed=0, count=1000)
    assert 450 < sum(float(value) < 1e-2 for value in values) < 550


text = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=12)
value = st.one_of(st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), text)


@given(st.lists(value, min_size=1, max_size=6, unique_by=lambda one: (type(one), one)), text)
def test_an_experiment_file_reads_what_a_sweep_has_written(values: list[Any], name: str) -> None:
    made = SweepFile(
        experiment=3, workload=1, name=name.strip() or "n", script="train.py", model="", data="", environment="-",
        listeners="host+process", params="--epochs 3", devices=("0",), collocations=("-",), together=(2,),
        grid={"x": values}, draws={},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiments.csv"
        sweep.write(path, sweep.rows(made))
        rows = ExperimentFile.read(path).rows
    assert [row.workload for row in rows] == [1 + place // 2 for place in range(len(values))]
    expected = [[f"--x={one}"] if not isinstance(one, bool) else ["--x"] if one else [] for one in values]
    assert [row.params for row in rows] == [["--epochs", "3", *words] for words in expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "experiment is missing"),
        ("x = \n", ":1:5: not valid TOML: Invalid value"),
        ("[experimant]\nid = 1\n", "experimant: unknown key 'experimant' (did you mean 'experiment'?)"),
        ("experiment = 3\n", "experiment: expected a mapping"),
        (BASE + 'model = "m"\n', "experiment: there is both a file and a model; leave one out"),
        (BASE + "colocation = 1\n", "experiment.colocation: unknown key 'colocation' (did you mean 'collocation'?)"),
        (
            BASE + 'data = "d"\n',
            "experiment.data: data is for a model's entry point, but this is a script: use params",
        ),
        (BASE, "nothing to vary: add a parameter to [grid] or [random]"),
        ('[experiment]\nfile = "a.py"\n[grid]\nx = [1]\n', "experiment: id is missing"),
        (
            '[experiment]\nfile = "a.py"\nid = "1"\n[grid]\nx = [1]\n',
            "experiment.id: expected a whole number from 0 to 999999999",
        ),
        (BASE + "name = 3\n[grid]\nx = [1]\n", "experiment.name: expected a text in quotes"),
        (BASE + 'name = "a\\nb"\n[grid]\nx = [1]\n', "experiment.name: must be one line"),
        (
            BASE + 'environment = "conde:x"\n[grid]\nx = [1]\n',
            "experiment.environment: unknown kind of environment 'conde' (did you mean 'conda'?)",
        ),
        (
            BASE + 'collocation = ["-", "MSP"]\n[grid]\nx = [1]\n',
            "experiment.collocation: unknown collocation 'MSP' (did you mean 'MPS'?)",
        ),
        (
            BASE + 'devices = ["0", "x"]\n[grid]\nx = [1]\n',
            "experiment.devices: 'x' is not a device: write a GPU's index or UUID, or several as 0+1",
        ),
        (
            BASE + "devices = [0.5]\n[grid]\nx = [1]\n",
            "experiment.devices: must be a text in quotes or a list of texts, not 0.5",
        ),
        (
            BASE + "[grid]\nx = [1]\n[pairs]\nshare = 0\n",
            "pairs.share: expected a number above 0, at most 1",
        ),
        (
            BASE + "[grid]\nx = [1]\n[pairs]\nshares = 0.5\n",
            "pairs.shares: unknown key 'shares' (did you mean 'share'?)",
        ),
        (BASE + 'listeners = "host++"\n[grid]\nx = [1]\n', "experiment.listeners: 'host++' has an empty exporter name"),
        (
            BASE + "together = 0\n[grid]\nx = [1]\n",
            "experiment.together: must be the number of rows that share a workload, 1 to 1000, not 0",
        ),
        (
            BASE + "together = []\n[grid]\nx = [1]\n",
            "experiment.together: must be the number of rows that share a workload, 1 to 1000, not []",
        ),
        (
            BASE + 'params = "--a \'"\n[grid]\nx = [1]\n',
            "experiment.params: the parameters cannot be split into words: no closing quotation",
        ),
        (BASE + 'params = "x=1"\n[grid]\nx = [1]\n', "experiment: params: 'x' is fixed here, and varied as well"),
        (BASE + "[grid]\nx = 1\n", "grid.x: must be a list of values, not 1"),
        (BASE + "[grid]\nx = []\n", "grid.x: must be a list of values, not []"),
        (BASE + "[grid]\nx = [1, 1]\n", "grid.x: a value occurs twice"),
        (BASE + "[grid]\nx = [[1]]\n", "grid.x: a value must be a number, a text, true or false, not [1]"),
        (BASE + "[grid]\nx = [inf]\n", "grid.x: inf is not a finite number"),
        (BASE + '[grid]\nx = ["a\\nb"]\n', "grid.x: 'a\\nb' is not one line"),
        (
            BASE + "[grid]\nmodel.lr = [1]\n",
            "grid.model: must be a list of values; quote a name that contains a dot",
        ),
        (
            BASE + '[grid]\n"--x" = [1]\n',
            "grid.--x: not a parameter's name: write it without leading dashes",
        ),
        (BASE + "[random]\nseed = 1\n", "random: count is missing"),
        (BASE + "[random]\ncount = 1\n", "random: seed is missing"),
        (
            BASE + "[random]\ncount = 1\nseed = -1\n",
            "random.seed: expected a whole number from 0 to 9223372036854775807",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\n",
            "random: nothing to draw: give a parameter to one of uniform, loguniform, int, choice",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nloguni = {x = [1, 2]}\n",
            "random.loguni: unknown key 'loguni' (did you mean 'loguniform'?)",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nuniform = {x = [1]}\n",
            "random.uniform: x: a range must be two numbers, [low, high]",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nuniform = {x = [2, 1]}\n",
            "random.uniform: x: the range ends at 1, which is not above its start 2",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nloguniform = {x = [0, 1]}\n",
            "random.loguniform: x: a loguniform range must begin above 0, not at 0",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nint = {x = [0, 1.5]}\n",
            "random.int: x: both ends must be whole numbers, not 0 and 1.5",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nint = {x = [0, 1]}\nchoice = {x = [1]}\n",
            "random.choice: x is drawn from another distribution as well",
        ),
        (
            BASE + "[random]\ncount = 1\nseed = 1\nint = {x = [0, 1]}\n[grid]\nx = [1]\n",
            "grid: x is drawn at random as well",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(write: Write, content: str, expected: str) -> None:
    path = write(content)
    with pytest.raises(BadRequest) as refused:
        SweepFile.read(path)
    assert str(refused.value) == (f"{path}{expected}" if expected.startswith(":") else f"{path}: {expected}")


def test_too_many_rows_are_refused(write: Write) -> None:
    values = list(range(400))
    read = SweepFile.read(write(BASE + f"[grid]\nx = {values}\ny = {values}\n"))
    with pytest.raises(BadRequest, match="the sweep has 160,000 rows; an experiment file has at most 100,000"):
        sweep.rows(read)


def test_a_file_that_is_not_there_is_named_with_the_nearest(write: Write) -> None:
    path = write(BASE)
    with pytest.raises(BadRequest, match=r"does not exist \(did you mean 'sweep.toml'\?\)"):
        SweepFile.read(path.with_name("swep.toml"))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=environment, check=False, timeout=HUNG_SECONDS
    )


def test_the_command_writes_a_new_file_and_replaces_none(write: Write, tmp_path: Path) -> None:
    path, output = write(BASE + "together = 2\n[grid]\nx = [1, 2, 3]\n"), tmp_path / "experiments.csv"
    shown = run(path, "--dry-run")
    assert "--x=3" in shown.stdout
    assert "3 rows in 2 workloads" in shown.stdout
    assert not output.exists()
    done = run(path, "-o", output)
    assert done.returncode == 0, done.stderr
    assert "Wrote 3 rows in 2 workloads" in done.stdout
    before = output.read_bytes()
    assert len(ExperimentFile.read(output).rows) == 3
    again = run(path, "-o", output)
    assert (again.returncode, output.read_bytes()) == (2, before)
    assert "the file already exists; `bench sweep` never replaces a file" in again.stderr
    assert run(path).returncode == 2
