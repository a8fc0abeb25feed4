"""NVIDIA's Nsight Systems (``nsys``) and Nsight Compute (``ncu``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypergauge.core.pages import Page
from hypergauge.scheduler.profilers.base import Profiler

__all__ = ["Ncu", "Nsys"]

_ALLOW_COUNTERS = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf "
    "&& sudo update-initramfs -u && sudo reboot"
)
# Each of these lets a process read a GPU's counters: CAP_SYS_ADMIN, and since driver R565 CAP_PERFMON.
_CAPABILITIES = 1 << 21 | 1 << 38


class Nsys(Profiler):
    """Nsight Systems: a timeline of CUDA calls, kernels, NVTX ranges and system calls.

    CPU sampling is off, because it needs extra permissions and slows the run.
    """

    name = "nsys"
    report = "nsys.nsys-rep"
    install = "sudo apt-get install nsight-systems"

    def wrap(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return the command line of ``nsys profile``, which adds the suffix of the report.

        It does not wait for processes that the command leaves behind.
        """
        return [
            self.program, "profile", f"--output={(folder / self.report).with_suffix('')}", "--force-overwrite=true",
            "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--wait=primary", *words,
        ]  # fmt: skip


class Ncu(Profiler):
    """Nsight Compute: counters of single kernels, each of which it replays several times.

    Parameters
    ----------
    root
        Root of the file system; ``proc`` has the driver's permissions for counters.
    """

    name = "ncu"
    report = "ncu.ncu-rep"
    install = "sudo apt-get install nsight-compute"

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

    def wrap(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return the command line of ``ncu`` for the command and its children; ``ncu`` adds the report's suffix."""
        return [
            self.program, "--target-processes", "all", "--force-overwrite",
            "--export", str((folder / self.report).with_suffix("")), *words,
        ]  # fmt: skip

    def _is_restricted(self) -> bool:
        if _field(self._root / "proc/driver/nvidia/params", "RmProfilingAdminOnly") != "1":
            return False
        return not int(_field(self._root / "proc/self/status", "CapEff") or "0", 16) & _CAPABILITIES


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), None)
