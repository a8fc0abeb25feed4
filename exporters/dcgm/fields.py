"""DCGM's fields and lists of them in dcgm-exporter's form: ``FIELD, gauge|counter|label, help``."""

from __future__ import annotations

import functools
import logging
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["PROFILING", "Counter", "Field", "default_list", "known_fields", "read_list"]

# Field numbers of DCGM's profiling module.
PROFILING = range(1001, 1100)

_TYPES = ("gauge", "counter", "label")
# Fields of dcgm-exporter for other entities than GPUs: its own counts, switches, CPUs, network cards.
_OTHER_ENTITIES = re.compile(r"DCGM_EXP_\w+|DCGM_FI_DEV_(NVSWITCH|CPU|CONNECTX|VGPU|SYSIO|MODULE|SXID)_\w+")
# A quoted cell may hold commas; white space around a cell does not belong to it.
_CELL = re.compile(r'\s*+(?:"((?:[^"]|"")*)"|(?!")([^,]*?))\s*(?:,|$)')

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Field:
    """Field of DCGM.

    Attributes
    ----------
    number
        DCGM's number, from ``dcgm_fields.h``.
    kind
        ``int``, ``float`` or ``str``.
    per_instance
        Whether a MIG instance has its own value, instead of its GPU's.
    """

    name: str
    number: int
    kind: str
    per_instance: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """Field to export: `type` is ``gauge`` or ``counter``, or ``label`` for a label of all others."""

    field: Field
    type: str
    help: str


@functools.cache
def known_fields() -> dict[str, Field]:
    """Return the fields of GPUs and MIG instances by name."""
    fields: dict[str, Field] = {}
    text = files(__package__).joinpath("fields.csv").read_text(encoding="utf-8")
    for line in text.splitlines()[2:]:  # a comment and the headings
        number, of, kind, names = line.split(",")
        fields |= {name: Field(name, int(number), kind, of == "instance") for name in names.split()}
    return fields


def default_list() -> tuple[Counter, ...]:
    """Return the default list."""
    name = "default-counters.csv"
    return _parse(files(__package__).joinpath(name).read_text(encoding="utf-8"), name)


def read_list(path: Path) -> tuple[Counter, ...]:
    """Return the counters of a list, without fields of other entities than GPUs.

    Raises
    ------
    BadRequest
        The file cannot be read or has an invalid line; the error names its position and the nearest valid choice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRequest(f"the list of DCGM fields cannot be read: {error.strerror}", file=path) from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"the list of DCGM fields is not UTF-8: {error.reason}", file=path) from error
    return _parse(text, path)


def _parse(text: str, path: Path | str) -> tuple[Counter, ...]:
    counters: dict[int, Counter] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        counter = _counter(line, path, number)
        if counter is None:
            continue
        field = counter.field
        if field.number in counters:
            message = f"{field.name} is already on line {lines[field.number]}"
            raise BadRequest(message, file=path, line=number, column=1)
        counters[field.number], lines[field.number] = counter, number
    if all(counter.type == "label" for counter in counters.values()):
        raise BadRequest("the list of DCGM fields holds no gauge or counter of a GPU", file=path)
    return tuple(counters.values())


def _counter(line: str, path: Path | str, number: int) -> Counter | None:
    cells = _cells(line)
    if len(cells) != 3:
        expected = "expected a DCGM field, gauge, counter or label, and a help text"
        found = f"3 cells, found {len(cells)}" if cells else "a quotation mark inside a cell"
        raise BadRequest(f"{expected}: {found}", file=path, line=number, column=1)
    (name, name_column), (kind, kind_column), (help_text, _) = cells
    field = known_fields().get(name)
    if field is None and not _OTHER_ENTITIES.fullmatch(name):
        message = f"there is no DCGM field {name!r}{_nearest(name)}"
        raise BadRequest(message, file=path, line=number, column=name_column)
    if kind not in _TYPES:
        message = f"{kind!r} is not a type{did_you_mean(kind, _TYPES)}"
        raise BadRequest(message, file=path, line=number, column=kind_column)
    if field is None:
        _log.warning("%s:%d: %s is left out: it is not a field of a GPU", path, number, name)
        return None
    if field.kind == "str" and kind != "label":
        message = f"{name} is text, which can only be a label"
        raise BadRequest(message, file=path, line=number, column=kind_column)
    return Counter(field, kind, help_text)


def _cells(line: str) -> list[tuple[str, int]]:
    """Return the cells of a line, each with its first column."""
    cells, at = [], 0
    while True:
        match = _CELL.match(line, at)
        if match is None:  # text after a closing quotation mark
            return []
        which = 1 if match[1] is not None else 2
        cells.append((match[which].replace('""', '"') if which == 1 else match[which], match.start(which) + 1))
        at = match.end()
        if not match[0].endswith(","):
            return cells


def _nearest(name: str) -> str:
    return did_you_mean(name, known_fields()) if name.upper().startswith("DCGM_FI") else " (they begin with DCGM_FI_)"
