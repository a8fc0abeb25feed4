"""Formats of exported runs, by the name of the file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.insight.export.files import FORMS
from hypergauge.insight.part import Part
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.server.database import Connection

__all__ = ["Format", "check_quantities"]

_CAPSULE = ".capsule"
_TRACES = (".json", ".json.gz")


class Format(StrEnum):
    """Format of exported runs."""

    SAMPLES = "samples"
    TENSORS = "tensors"
    CAPSULE = "capsule"
    TRACE = "trace"

    @classmethod
    def of(
        cls, name: str, *, trace: bool = False, tensors: bool = False, metrics: Sequence[str] = (), part: Part | None = None
    ) -> Format:  # fmt: skip
        """Return the format of a file.

        Parameters
        ----------
        name
            Name of the file.
        trace
            Whether the user chose a trace.
        tensors
            Whether the user chose reductions of tensors.
        metrics
            Quantities that the user chose; by default all.
        part
            Part of the runs that the user chose; by default whole runs.

        Raises
        ------
        BadRequest
            The name has another suffix, or the format does not go with the other choices.
        """
        if tensors:
            if trace or metrics:
                raise BadRequest(f"--tensors does not go with {'--trace' if trace else '-m'}: give one of them")
            if not name.endswith(FORMS):
                raise BadRequest(
                    f"tensors are written to a {', '.join(FORMS[:-1])} or {FORMS[-1]} file, not to {name!r}"
                )
            return cls.TENSORS
        if trace:
            if not name.endswith(_TRACES):
                raise BadRequest(f"a trace is written to a .json or .json.gz file, not to {name!r}")
            return cls.TRACE
        if name.endswith(_TRACES):
            raise BadRequest(f"{name!r} is for a trace: add --trace")
        forms = (*FORMS, _CAPSULE)
        if not name.endswith(forms):
            raise BadRequest(
                f"the suffix of the file selects the format, and {name!r} has none of {', '.join(forms)}"
                + (did_you_mean(f".{name.rpartition('.')[2]}", forms, "") if "." in name else "")
            )
        if not name.endswith(_CAPSULE):
            return cls.SAMPLES
        if metrics or part:
            raise BadRequest("a capsule holds all of its runs: -m, --from, --to and --phase go with samples and traces")
        return cls.CAPSULE


def check_quantities(connection: Connection, run_ids: Sequence[str], names: Sequence[str]) -> None:
    """Check that runs have samples of quantities.

    Raises
    ------
    BadRequest
        The runs have no samples of a quantity.
    """
    known = [one.quantity for one in coverage(connection, run_ids)] if names else []
    for name in names:
        if name not in known:
            raise BadRequest(f"these runs have no samples of {name!r}{did_you_mean(name, known)}")
