"""NVIDIA's Nsight Systems (``nsys``) and Nsight Compute (``ncu``)."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from hypergauge.core.calls import Call
from hypergauge.core.pages import Page
from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.kernels import SOURCE
from hypergauge.scheduler.profilers.reports.nsight_compute import read_raw_page
from hypergauge.scheduler.profilers.reports.nsight_systems import read_calls, read_export
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport

__all__ = ["Ncu", "Nsys"]

_ALLOW_COUNTERS = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf "
    "&& sudo update-initramfs -u && sudo reboot"
)
# Each of these lets a process read a GPU's counters: CAP_SYS_ADMIN, and since driver R565 CAP_PERFMON.
_CAPABILITIES = 1 << 21 | 1 << 38
_CONVERSION_SECONDS = 600.0
_SYSTEM_FOLDERS = tuple(map(Path, ("/", "/usr", "/usr/local")))
# Options unless a row gives others.
_NSYS = {"trace": "cuda,nvtx,osrt", "sample": "none", "cpuctxsw": "none"}


class _Nsight(Profiler):
    """Program of NVIDIA's that an installer puts into a folder of its own, with all that it needs."""

    def container_problem(self) -> str | None:
        """See `Profiler.container_problem`; its folder is mounted, so it must not be the system's."""
        if (missing := self.problem("")) is not None:
            return missing
        [folder] = self.files()
        if folder in _SYSTEM_FOLDERS:
            return f"{self.name} is in {folder}: a container sees it only where it is installed in a folder of its own"
        return None

    def files(self) -> list[Path]:
        """Return the folder of its installation, with the folder of its program in it."""
        return [Path(self.program).parents[1]]


class Nsys(_Nsight):
    """Nsight Systems: a timeline of CUDA calls, kernels, NVTX ranges and system calls.

    CPU sampling is off by default, because it needs extra permissions and slows the run.
    """

    name = "nsys"
    report = "nsys.nsys-rep"
    install = "sudo apt-get install nsight-systems"
    options: ClassVar[Mapping[str, str]] = {
        "trace": r"[a-z0-9,-]+",
        "sample": "none|process-tree|system-wide",
        "cpuctxsw": "none|process-tree|system-wide",
    }

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``nsys profile``, which adds the suffix of the report.

        It does not wait for processes that the command leaves behind.
        """
        return [
            self.program, "profile", f"--output={(folder / self.report).with_suffix('')}", "--force-overwrite=true",
            *(f"--{name}={value}" for name, value in {**_NSYS, **options}.items()), "--wait=primary", *words,
        ]  # fmt: skip

    def read(self, report: Path, phases: Phases) -> Recording:
        """See `Profiler.read`; ``nsys`` exports the report to SQLite first."""
        with self._exported(report) as export:
            return read_export(export, phases)

    def calls(self, report: Path) -> list[Call]:
        """See `Profiler.calls`."""
        with self._exported(report) as export:
            return read_calls(export)

    @contextlib.contextmanager
    def _exported(self, report: Path) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            export = Path(folder) / "nsys.sqlite"
            _output(
                self.program, "export", "--type=sqlite", "--force-overwrite=true", f"--output={export}", str(report)
            )
            yield export


class Ncu(_Nsight):
    """Nsight Compute: counters of single kernels, each of which it replays several times.

    Parameters
    ----------
    root
        Root of the file system; ``proc`` has the driver's permissions for counters.
    """

    name = "ncu"
    report = "ncu.ncu-rep"
    install = "sudo apt-get install nsight-compute"
    options: ClassVar[Mapping[str, str]] = {
        "set": "[a-z]+", "launch-skip": r"\d+", "launch-count": r"[1-9]\d*", "kernel-name": r"\S+", "replay-mode": "[a-z-]+",
        SOURCE: r"[0-9A-Fa-f/@]+",
    }  # fmt: skip

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def problem(self, python: str) -> str | None:
        """See `Profiler.problem`; also check whether the driver restricts counters to administrators."""
        missing = super().problem(python)
        if missing is not None or not self._is_restricted():
            return missing
        return Page.PROFILERS.after(
            "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM), which the driver reserves for administrators: "
            + _ALLOW_COUNTERS
        )

    def option_problem(self, options: Mapping[str, str]) -> str | None:
        """See `Profiler.option_problem`."""
        if SOURCE in options and "kernel-name" in options:
            return f"the options {SOURCE} and kernel-name of ncu exclude each other"
        return super().option_problem(options)

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``ncu`` for the command and its children; ``ncu`` adds the report's suffix."""
        return [
            self.program, "--target-processes", "all", "--force-overwrite",
            "--export", str((folder / self.report).with_suffix("")),
            *(part for name, value in options.items() for part in (f"--{name}", value)), *words,
        ]  # fmt: skip

    def read(self, report: Path, phases: Phases) -> Recording:
        """See `Profiler.read`; ``ncu`` prints the report as CSV first. It has no times of launches, so no phases."""
        del phases
        page = _output(self.program, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base")
        return read_raw_page(io.StringIO(page))

    def _is_restricted(self) -> bool:
        if _field(self._root / "proc/driver/nvidia/params", "RmProfilingAdminOnly") != "1":
            return False
        return not int(_field(self._root / "proc/self/status", "CapEff") or "0", 16) & _CAPABILITIES


def _output(*words: str) -> str:
    """Return what a program prints, with a point in numbers.

    Raises
    ------
    UnreadableReport
        The program refuses the report.
    """
    try:
        done = subprocess.run(
            words, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_CONVERSION_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UnreadableReport(
            f"{Path(words[0]).name} takes more than {_CONVERSION_SECONDS:g} s to convert it"
        ) from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnreadableReport(f"{Path(words[0]).name} cannot convert it: {lines[-1]}")
    return done.stdout


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), None)
