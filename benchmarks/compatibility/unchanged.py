"""Scripts of other projects with and without hypergauge: the same output, exit status and saved files."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.errors import BadRequest

__all__ = ["Outcome", "Watch", "differences", "measure", "scripts"]

_FOLDER = Path(__file__).parent
_BENCH = [sys.executable, "-m", "hypergauge.cli"]
# One thread and one order of hashes: what a script computes is the same each time.
_REPEATABLE = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "KERAS_BACKEND": "torch",
    "MPLBACKEND": "Agg",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}
_LIMIT_SECONDS = 600.0
_MOST_PLAIN_RUNS = 5
# Folders above the copy of a repository: some scripts keep their data in a folder of its parents, such as ../../../.
_DEPTH = "a/b/c/d"


@dataclass(frozen=True, slots=True)
class Watch:
    """The one line, after the first line of `file` that contains `after`."""

    line: str
    after: str
    file: str | None = None

    def insert(self, script: Path) -> None:
        """Insert it, with the import, at the indentation of the line before.

        Raises
        ------
        BadRequest
            No line of the script contains `after`.
        """
        lines = script.read_text().splitlines()
        start = next((number for number, line in enumerate(lines) if self.after in line), None)
        if start is None:
            raise BadRequest(f"{script.name} has no line with {self.after!r}: another version of the script?")
        indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        # A call over several lines ends where its brackets do.
        end = start + 1
        while "".join(lines[start:end]).count("(") > "".join(lines[start:end]).count(")"):
            end += 1
        lines.insert(end, f"{indent}from hypergauge import track; {self.line}")
        script.write_text("\n".join(lines) + "\n")


@dataclass(frozen=True, slots=True)
class Script:
    """Entry of ``scripts.toml``, which describes the columns."""

    name: str
    repository: str
    folder: str
    command: str
    inside: str = "."
    data: tuple[str, ...] = ()
    watch: Watch | None = None
    files: tuple[str, ...] = ()

    def arguments(self, python: str) -> list[str]:
        """Return the command with this interpreter."""
        arguments = shlex.split(self.command)
        if arguments[0] == "sh":
            return [*arguments[:-1], arguments[-1].replace("exec python ", f"exec {shlex.quote(python)} ")]
        return [python, *arguments[1:]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a user sees of a script: exit status, lines of its output, saved files."""

    status: int
    lines: Counter[str]
    files: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def common(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Return what several runs of one script have in common."""
        first, *others = outcomes
        lines, files = Counter(first.lines), dict(first.files)
        for other in others:
            lines &= other.lines
            files = {name: data for name, data in files.items() if other.files.get(name) == data}
        return cls(first.status, lines, files)


def measure(checkouts: Path, only: str = "") -> dict[str, float | str]:
    """Return the number of scripts, of comparisons, and the differences by script.

    ``TORCH_PYTHON`` names the interpreter with PyTorch and the other frameworks.

    Parameters
    ----------
    checkouts
        Folder with a checkout of each repository, by its name.
    only
        Run the scripts whose names contain this.
    """
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    selected = [script for script in scripts() if only in script.name]
    results: dict[str, float | str] = {}
    different, runs, lines, files = 0, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        environment = {**os.environ, **_REPEATABLE, "BENCH_HOME": f"{home}/stack", "HF_HOME": f"{home}/models"}
        subprocess.run([*_BENCH, "up"], env=environment, check=True, capture_output=True)
        try:
            for script in selected:
                source = checkouts / script.repository / script.folder
                if not source.is_dir():
                    results[script.name] = "skipped: no checkout"
                    continue
                trial = Trial(script, source, Path(home) / "trial", python, environment)
                plain = [trial.run(), trial.run()]
                outcomes = {way: [trial.run(way)] for way in trial.ways()}
                # Two plain runs may print the same time, or the same step of a bar, by chance. What we change is changed each time.
                while (texts := _texts(plain, outcomes)) and len(plain) < _MOST_PLAIN_RUNS:
                    plain.append(trial.run())
                    for way, measured in outcomes.items():
                        if any(differences(plain, measured)):
                            measured.append(trial.run(way))
                runs += sum(map(len, outcomes.values()))
                stable = Outcome.common(plain)
                lines += sum(stable.lines.values())
                files += len(stable.files)
                different += bool(texts)
                results[script.name] = "; ".join(texts) or (
                    f"the same: exit status {stable.status}, {sum(stable.lines.values())} of"
                    f" {sum(plain[0].lines.values())} lines, {len(stable.files)} of {len(plain[0].files)} files"
                )
                print(f"{script.name}: {results[script.name]}", file=sys.stderr, flush=True)
        finally:
            subprocess.run([*_BENCH, "down"], env=environment, check=False, capture_output=True)
    totals: dict[str, float | str] = {
        "scripts": float(len(selected)),
        "measured_runs": float(runs),
        "lines": float(lines),
        "files": float(files),
        "different": float(different),
    }
    return {**results, **totals, **({"findings": float(different)} if different else {})}


@dataclass(frozen=True, slots=True)
class Trial:
    """Script in a fresh copy of its folder, at the same path for each run."""

    script: Script
    source: Path
    root: Path
    python: str
    environment: Mapping[str, str]

    def ways(self) -> Iterator[str]:
        """Yield the ways to run it by `bench run`."""
        yield "as it is"
        if self.script.watch:
            yield "watched"
            # PyTorch's profiler wraps a script, so neither `python -c` nor a shell.
            if self.script.command.split()[1].endswith(".py"):
                yield "watched and profiled"

    def run(self, way: str = "") -> Outcome:
        """Run the script, without hypergauge or in one of the `ways`."""
        folder = self._fresh()
        arguments = self.script.arguments(self.python)
        if way:
            profiler = ["--listeners", "process+torch"] if "profiled" in way else []
            arguments = [*_BENCH, "run", *profiler, "--", *arguments]
        if "watched" in way and self.script.watch:
            name = self.script.watch.file or next(word for word in self.script.command.split() if word.endswith(".py"))
            self.script.watch.insert(folder / name)
        done = subprocess.run(
            arguments, cwd=folder, env=self.environment, capture_output=True, timeout=_LIMIT_SECONDS, check=False
        )
        output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for pattern in self.script.files
            for path in sorted(folder.glob(pattern))
        }
        return Outcome(done.returncode, Counter(output.splitlines()), files)

    def _fresh(self) -> Path:
        """Return the script's folder in a new copy, with its data."""
        template = self.root / "template"
        copy = self.root / "copy"
        marker = self.root / "name"
        if not marker.exists() or marker.read_text() != self.script.name:
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.copytree(self.source, template / _DEPTH, ignore=shutil.ignore_patterns(".git"), symlinks=True)
            if self.script.data:
                subprocess.run(
                    [self.python, str(_FOLDER / "data.py"), *self.script.data],
                    cwd=template / _DEPTH / self.script.inside,
                    env=self.environment,
                    check=True,
                )
            marker.write_text(self.script.name)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(template, copy, symlinks=True)
        return copy / _DEPTH / self.script.inside


def _texts(plain: Sequence[Outcome], outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    return [f"{way}: {text}" for way, measured in outcomes.items() for text in differences(plain, measured)]


def differences(plain: Sequence[Outcome], measured: Sequence[Outcome]) -> Iterator[str]:
    """Yield how all measured runs differ in what is the same in all plain runs; an exit status of one of them counts."""
    expected = Outcome.common(plain)
    for status in sorted({outcome.status for outcome in measured} - {expected.status}):
        yield f"exit status {status} for {expected.status}"
    missing = expected.lines
    for outcome in measured:
        missing &= expected.lines - outcome.lines
    if missing:
        yield f"{sum(missing.values())} lines missing or different, such as {next(iter(missing))!r}"
    for name, data in expected.files.items():
        if all(outcome.files.get(name) != data for outcome in measured):
            yield f"{name} {'differs' if name in measured[-1].files else 'is missing'}"


def scripts() -> list[Script]:
    """Return the entries of ``scripts.toml``."""
    entries = tomllib.loads((_FOLDER / "scripts.toml").read_text())["script"]
    return [
        Script(
            **{
                **entry,
                "data": tuple(entry.get("data", ())),
                "files": tuple(entry.get("files", ())),
                "watch": Watch(**entry["watch"]) if "watch" in entry else None,
            }
        )
        for entry in entries
    ]
