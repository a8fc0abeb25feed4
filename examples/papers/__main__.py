"""Run what this host can run of a paper, and show the results beside the published ones.

    python -m examples.papers collocation

Run it in the repository's root, with the Python of hypergauge.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from examples.papers import paper as papers
from examples.papers.results import BENCH, Results, bench
from examples.papers.rows import Choices, Host, Selection, select
from examples.papers.table import show
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.gpu import inventory
from hypergauge.stack.services.local_stack import availability

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _options(words)
    try:
        return _run(options)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadRequest) else 1
    except KeyboardInterrupt:
        # The schedule has got the signal too, and has ended its runs.
        return 130


def _run(options: argparse.Namespace) -> int:
    paper = papers.read(options.paper)
    host = _host()
    small = options.size == "small" or (options.size is None and not host.gpus.gpus)
    choices = Choices(
        options.python.absolute(), small, options.experiment, options.gpu, options.mig_gpu, options.params,
        options.workload or (),
    )  # fmt: skip
    if options.repeat < 1:
        raise BadRequest(f"--repeat: {options.repeat} is less than 1")
    if not options.show:
        _check_python(options.python, runs=not options.dry_run)
    with tempfile.TemporaryDirectory() as scratch:
        selection = select(paper, choices, host, Path(scratch))
    if not selection.rows:
        raise BadRequest(f"this host can run no row of {paper.name}:\n{_reasons(selection)}")
    status = 0
    if not options.show:
        path = options.folder / f"{paper.name}-here.csv"
        selection.write(path, paper)
        # Its words go to the terminal as they come.
        plan = ["--dry-run"] if options.dry_run else ["--repeat", str(options.repeat)]
        done = subprocess.run([*BENCH, "schedule", str(path), *plan], env={**os.environ, "BENCH_SIMULATE": ""})
        status = done.returncode
        if options.dry_run or status == 2:
            return status
    experiment = int(selection.rows[0]["Experiment"])
    if options.show and bench("list", str(experiment), "--json").returncode:
        raise BadRequest(f"{paper.name} has not run here as experiment {experiment}; leave out --show")
    results = Results(experiment, selection.workloads)
    show(paper, results, selection, has_gpu=bool(host.gpus.gpus), small=small)
    return status


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m examples.papers", description=__doc__.partition("\n")[0])
    parser.add_argument("paper", help=", ".join(papers.names()))
    parser.add_argument("--python", type=Path, default=Path(os.environ.get("TORCH_PYTHON", sys.executable)),
                        help="Python of a virtual environment with PyTorch; by default TORCH_PYTHON, else this one")  # fmt: skip
    parser.add_argument("--size", choices=["small", "paper"],
                        help="sizes of models and data; by default the paper's where there is a GPU")  # fmt: skip
    parser.add_argument("--params", default="", help="further parameters of each training, such as '--epochs 1'")
    parser.add_argument(
        "--workload", type=int, action="append", metavar="N", help="only this workload; can be repeated"
    )
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="repetitions of each workload; by default 2")
    parser.add_argument("--gpu", default="0", help="GPU of runs without MIG; by default 0, as in the papers")
    parser.add_argument("--mig-gpu", default="2", help="GPU in MIG mode; by default 2, as in the papers")
    parser.add_argument("--experiment", type=int, metavar="N", help="number of the experiment; by default the file's")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the experiment file of this host is written")
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    parser.add_argument("--show", action="store_true", help="only show the table, of runs made before")
    return parser.parse_args(words)


def _host() -> Host:
    settings = replace(Settings.load(), simulate=None)
    return Host(inventory(None, settings.home), availability(settings))


def _check_python(python: Path, *, runs: bool) -> None:
    """Refuse a Python that does not exist and, if it `runs` the trainings, one without PyTorch."""
    if not runs and python.is_file():
        return
    try:
        found = subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0
    except OSError as error:
        raise BadRequest(f"--python: {python} cannot be run: {error.strerror}") from error
    if not found:
        raise BadRequest(
            f"{python} has no PyTorch, which the trainings need. Install it with `{python} -m pip install torch`, "
            "or name the Python of a virtual environment that has it: --python VENV/bin/python"
        )


def _reasons(selection: Selection) -> str:
    return "\n".join(reason for _, reason in selection.excluded)


if __name__ == "__main__":
    raise SystemExit(main())
