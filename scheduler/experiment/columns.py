"""Columns of experiment files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["COLUMNS", "REQUIRED", "WRITTEN_BACK", "Column"]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of experiment files. The texts are those of the reference.

    Attributes
    ----------
    meaning
        Meaning of its cells.
    empty
        Meaning of an empty cell, and of a file without the column.
    """

    meaning: str
    empty: str


# By spelling, in the order of the reference.
COLUMNS: Mapping[str, Column] = {
    "Experiment": Column("Number of the experiment.", "required"),
    "Workload": Column("Number of the workload. Its rows run at the same time.", "required"),
    "Name": Column("Name for people.", "the model, or the script without its suffix"),
    "Status": Column("Status of the run, written back.", "still to do"),
    "Run": Column("Id of the run, written back.", "no run yet"),
    "Devices": Column("GPUs of the run: `0`, `0+1`, `amd:0`, or UUIDs.", "none: GPUs are hidden from the run"),
    "Collocation": Column("`-` for direct use, `MPS`, `MPS:NN`, or a MIG profile such as `3g.20gb`.", "`-`"),
    "Environment": Column(
        "`-` for the interpreter of `bench`, `venv:PATH`, `conda:NAME`, `docker:IMAGE`, or the name of a section.",
        "`-`",
    ),
    "File": Column("Script, or the folder of an MLflow project.", "required without a `Model`"),
    "Model": Column(
        "Model for the entry point of the environment, in the place of a `File`.", "required without a `File`"
    ),
    "Data": Column("Data for the entry point of a `Model`.", "no data"),
    "Listeners": Column(
        "Exporters that measure the run, each with an interval if wanted, and profilers of the run, joined by `+`; or `none`.",
        "all exporters that work on the host, and no profiler",
    ),
    "Params": Column("Parameters: `--batch-size 128`, or `batch-size=128` for `--batch-size=128`.", "none"),
    "Slurm": Column("Options for Slurm, as for `sbatch`: `partition=gpu time=00:30:00`.", "those of `bench.toml`"),
    "Actions": Column(
        "Actions when a rule fires: `IdleDevice:stop-run+CpuSaturated:tell-us`.", "those of `bench.toml`"
    ),
}
REQUIRED = ("Experiment", "Workload")
WRITTEN_BACK = ("Status", "Run")
