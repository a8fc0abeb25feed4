"""YAML or JSON document with the line and column of each value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import yaml

from hypergauge.core.errors import BadRequest

__all__ = ["Document", "Scalar", "duration"]

_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_SECONDS = (365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 0.001)


class Scalar(str):
    """Scalar as written, since Prometheus reads 7 as the string "7"; empty for a null.

    Attributes
    ----------
    line, column
        Its position; both count from 1.
    kind
        ``bool``, ``null``, ``int``, ``str`` and so on, as YAML resolves it.
    """

    __slots__ = ("column", "kind", "line")

    line: int
    column: int
    kind: str

    @classmethod
    def of(cls, node: yaml.ScalarNode) -> Scalar:
        """Return the scalar of a node."""
        kind = node.tag.rpartition(":")[2]
        made = cls("" if kind == "null" else node.value)
        made.line, made.column, made.kind = node.start_mark.line + 1, node.start_mark.column + 1, kind
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        """Keep scalars unchanged in fields of this type."""
        from pydantic_core import core_schema  # only documents with a model need it

        return core_schema.is_instance_schema(cls)


class Document:
    """One file or response.

    Parameters
    ----------
    path
        Its path or address; errors begin with it.
    text
        Its content.

    Attributes
    ----------
    content
        Dictionaries, lists and `Scalar`; ``None`` for a file without content.

    Raises
    ------
    BadRequest
        The text is not valid YAML, or a mapping has a key twice.
    """

    UNKNOWN: ClassVar[str] = "unknown key"

    def __init__(self, path: Path | str, text: str) -> None:
        self.path = path
        if str(path).endswith(".json"):  # YAML forbids tabs for indentation; in JSON, a raw tab is only white space
            text = text.replace("\t", " ")
        try:
            self._root = _compose(path, text)
            self.content: Any = None if self._root is None else self._plain(self._root, {})
        except RecursionError:
            raise BadRequest("not valid YAML: nested too deeply", file=path) from None

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file.

        Raises
        ------
        BadRequest
            The file cannot be read, or is not valid YAML.
        """
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadRequest(f"cannot be read: {error.strerror}", file=path) from error
        except UnicodeDecodeError as error:
            raise BadRequest("is not a text in UTF-8", file=path) from error

    def fail(self, at: Scalar, message: str) -> NoReturn:
        """Refuse the document with an error at the value `at`."""
        raise BadRequest(message, file=self.path, line=at.line, column=at.column)

    def problem(self, where: Sequence[str | int], value: object, message: str, *, at_key: bool = False) -> BadRequest:
        """Return an error about the value at `where`, or about its key."""
        if isinstance(value, Scalar) and not at_key:  # inherited values have another position than `where`
            return BadRequest(message, file=self.path, line=value.line, column=value.column)
        mark = self._node(where, at_key=at_key).start_mark
        return BadRequest(message, file=self.path, line=mark.line + 1, column=mark.column + 1)

    @staticmethod
    def expected(_: str, what: str) -> str:
        """Return the message for a value of another type."""
        return f"expected {what}"

    def _node(self, where: Sequence[str | int], *, at_key: bool) -> yaml.Node:
        """Return the deepest node on the path to `where`."""
        node = self._root
        assert node is not None
        for number, part in enumerate(where, 1):
            if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
                node = node.value[part]
            elif isinstance(node, yaml.MappingNode):
                pair = next((pair for pair in node.value if pair[0].value == part), None)
                if pair is None:
                    break
                node = pair[0] if at_key and number == len(where) else pair[1]
        return node

    def _plain(self, node: yaml.Node, made: dict[int, Any]) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return Scalar.of(node)
        if id(node) in made:  # an alias
            return made[id(node)]
        if isinstance(node, yaml.SequenceNode):
            items: list[Any] = []
            made[id(node)] = items
            items.extend(self._plain(one, made) for one in node.value)
            return items
        fields: dict[Scalar, Any] = {}
        made[id(node)] = fields
        for key, value in node.value:
            name = self._plain(key, made)
            if not isinstance(name, Scalar):
                raise self.problem((), Scalar.of(_first(key)), "expected a name")
            if name in fields:
                self.fail(name, f"{str(name)!r} stands here twice")
            fields[name] = self._plain(value, made)
        return fields


def duration(text: str) -> float | None:
    """Return the seconds of a duration in Prometheus's form, such as ``1m30s``; ``None`` for another form."""
    match = _DURATION.fullmatch(text)
    if text == "0":
        return 0.0
    if not match or not text:
        return None
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True))


def _compose(path: Path | str, text: str) -> yaml.Node | None:
    try:
        try:
            node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
        except (yaml.YAMLError, AttributeError):  # libyaml is ten times as fast, with poorer error messages
            node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise BadRequest(f"not valid YAML: {error.problem}", file=path, line=line, column=column) from None
    except yaml.YAMLError as error:
        raise BadRequest(f"not valid YAML: {str(error).splitlines()[0]}", file=path) from None
    return node


def _first(node: yaml.Node) -> yaml.ScalarNode:
    """Return an empty scalar at the position of `node`."""
    return yaml.ScalarNode("tag:yaml.org,2002:str", "", node.start_mark, node.end_mark)
