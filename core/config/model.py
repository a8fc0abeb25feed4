"""Validation of configuration files by pydantic, with errors that name file, line and nearest choice.

Only modules that read a file import this one, and late: the import of pydantic takes longer than a whole short command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from hypergauge.core.config.document import Scalar, duration
from hypergauge.core.errors import BadRequest, Problems, did_you_mean

__all__ = ["Count", "Flag", "Items", "Refused", "Seconds", "Section", "Size", "Source", "Tables", "validated"]

_Model = TypeVar("_Model")
_Item = TypeVar("_Item")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:([KMGTP])i?)?B?")
# Expectations for pydantic's own errors, for fields without a description.
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "is_instance_of": "a string",
    "string_type": "a string",
    "tuple_type": "a list",
}


class Refused(ValueError):
    """Contradiction between the fields of a mapping.

    Attributes
    ----------
    field
        The invalid field; ``None`` for the mapping.
    at_key
        Whether the error is about the key, not the value.
    """

    def __init__(self, field: str | None, message: str, *, at_key: bool = False) -> None:
        self.field, self.at_key = field, at_key
        super().__init__(message)


class Section(BaseModel):
    """Base of the models of mappings: frozen, without unknown keys. An empty value means the default.

    Attributes
    ----------
    ignored
        Keys that are omitted, and added to the context's list ``ignored``.
    unsupported
        Prometheus's keys that are refused.
    expected
        Description of the mapping, for documents with something else.
    others
        Model of sections under any other key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ignored: ClassVar[Collection[str]] = ()
    unsupported: ClassVar[Collection[str]] = ()
    expected: ClassVar[str] = "a mapping"
    others: ClassVar[type[Section] | None] = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Scalar) and value.kind == "null":
            return {}
        if not isinstance(value, dict):
            return value
        if info.context is not None and (met := [str(key) for key in value if key in cls.ignored]):
            found = info.context.setdefault("ignored", [])
            found += [key for key in met if key not in found]
        required = {key for key, field in _fields(cls).items() if field.is_required()}
        return {
            str(key): one
            for key, one in value.items()
            if key not in cls.ignored and (key in required or not (isinstance(one, Scalar) and one.kind == "null"))
        }


class Source(Protocol):
    """Parsed file, with the wording of its errors."""

    UNKNOWN: ClassVar[str]

    @property
    def content(self) -> Any:
        """The file's content."""

    def problem(self, where: Sequence[str | int], value: object, message: str, *, at_key: bool = False) -> BadRequest:
        """Return an error about the value at `where`, or about its key."""

    def expected(self, key: str, what: str) -> str:
        """Return the message for a value of another type."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Content of a TOML file; errors name its sections, since the parser keeps no lines."""

    UNKNOWN: ClassVar[str] = "unknown setting"

    path: Path
    content: Mapping[str, Any]

    def problem(self, where: Sequence[str | int], _: object, message: str, *, at_key: bool = False) -> BadRequest:
        """Return an error about the setting or the section at `where`."""
        del at_key
        found: Any = self.content
        section = []
        for part in where:
            found = found.get(part) if isinstance(found, Mapping) else None
            if not isinstance(found, Mapping):
                break
            section.append(str(part))
        return BadRequest(f"[{'.'.join(section)}]: {message}" if section else message, file=self.path)

    @staticmethod
    def expected(key: str, what: str) -> str:
        """Return the message for a value of another type, without the value: it may be a secret."""
        return f"{key} must be {what}"


def validated(model: type[_Model], source: Source, context: dict[str, Any] | None = None) -> _Model:
    """Return the content of `source` as `model`.

    Parameters
    ----------
    context
        Passed to the model's validators. Errors that these add to its ``problems`` are raised with the others.

    Raises
    ------
    BadRequest
        The content has errors; all of them are reported, each with its position.
    """
    context = {} if context is None else context
    problems: Problems = context.setdefault("problems", Problems())
    made: _Model | None = None
    try:
        made = TypeAdapter(model).validate_python(source.content, context=context)
    except ValidationError as error:
        lines = error.errors()
        misspelt = {line["loc"][:-1] for line in lines if line["type"] == "extra_forbidden"}
        found = [
            _problem(model, source, line)
            for line in lines
            if line["type"] != "missing" or line["loc"][:-1] not in misspelt  # else one mistake causes two errors
        ]
        problems.found += {str(one): one for one in found}.values()  # each job checks what it inherits
    problems.check()
    assert made is not None
    return made


def _problem(model: Any, source: Source, error: Mapping[str, Any]) -> BadRequest:
    """Return one of pydantic's errors as a BadRequest."""
    where, value, kind = error["loc"], error["input"], error["type"]
    key = str(where[-1]) if where else ""
    section = _section(model, where[:-1])
    field = _fields(section).get(key) if section is not None else None
    if section is not None and field is None and (kind == "extra_forbidden" or section.others is not None):
        return source.problem(where, value, _unknown(section, source, key), at_key=True)
    if kind == "value_error":
        cause = error["ctx"]["error"]
        if (inner := getattr(cause, "field", None)) is not None and inner in value:
            where, value = (*where, inner), value[inner]
        return source.problem(where, value, str(cause), at_key=getattr(cause, "at_key", False))
    if kind == "missing":
        return source.problem(where[:-1], None, f"{key} is missing")
    if kind == "literal_error" and field is not None:
        near = did_you_mean(str(value), get_args(field.annotation))
        return source.problem(where, value, f"unknown {str(value)!r}{near}")
    if kind == "model_type":
        inside = _section(model, where)
        what = inside.expected if inside is not None else "a mapping"
    else:
        what = (field.description if field is not None else None) or _EXPECTED.get(kind, error["msg"])
    return source.problem(where, value, source.expected(key, what))


def _unknown(section: type[Section], source: Source, key: str) -> str:
    if key in section.unsupported:
        return f"{key!r} is a field of Prometheus's that is not supported here"
    return f"{source.UNKNOWN} {key!r}{did_you_mean(key, sorted({*_fields(section), *section.ignored}))}"


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields by key."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _section(model: Any, where: Sequence[str | int]) -> type[Section] | None:
    """Return the section at `where`, or the section around it."""
    section = _inside(model)
    for part in where:
        if section is None:
            break
        if (field := _fields(section).get(str(part))) is not None:
            section = _inside(field.annotation) or section
        else:
            section = section.others or section
    return section


def _inside(annotation: Any) -> type[Section] | None:
    """Return the section in an annotation such as ``tuple[Section, ...]``."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if issubclass(annotation, Section) else None
    return next((found for one in get_args(annotation) if (found := _inside(one)) is not None), None)


def _none_as_empty(value: Any) -> Any:
    if isinstance(value, Scalar) and value.kind == "null":
        return ()
    return tuple(value) if isinstance(value, list) else value


def _flag(value: Any) -> Any:
    if isinstance(value, Scalar):
        return value.lower() in ("true", "yes", "on") if value.kind == "bool" else None
    return value


def _count(value: Any) -> Any:
    if isinstance(value, Scalar):
        if not re.fullmatch(r"[0-9]{1,18}", value):
            raise ValueError(f"{str(value)!r} is not a whole number, 0 or more")
        return int(value)
    return value


def _seconds(value: Any) -> Any:
    if isinstance(value, Scalar):
        if (seconds := duration(value)) is None:
            raise ValueError(f"{str(value)!r} is not a duration: write 500ms, 5s or 1m")
        return seconds
    return value


def _size(value: Any) -> Any:
    if isinstance(value, Scalar):
        if not (match := _SIZE.fullmatch(value)):
            raise ValueError(f"{str(value)!r} is not a size: write 512KB or 10MB")
        return int(float(match[1]) * 1024 ** (" KMGTP".index(match[2]) if match[2] else 0))
    return value


Items = Annotated[tuple[_Item, ...], BeforeValidator(_none_as_empty)]
Flag = Annotated[bool, Strict(), BeforeValidator(_flag)]
Count = Annotated[int, Strict(), BeforeValidator(_count)]
# Prometheus's form, such as 1m30s.
Seconds = Annotated[float, BeforeValidator(_seconds)]
# Bytes; K, M and G are powers of 1024, as in Prometheus.
Size = Annotated[int, Strict(), BeforeValidator(_size)]
