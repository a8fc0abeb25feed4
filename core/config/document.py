"""YAML or JSON document as nodes that know their line and column."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import yaml

from hypergauge.core.errors import BadRequest, Problems, did_you_mean

__all__ = ["Document", "Fields"]

Fields = dict[str, tuple[yaml.Node, yaml.Node]]
_Read = TypeVar("_Read")

_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_SECONDS = (365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 0.001)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:([KMGTP])i?)?B?")
_NULL = "tag:yaml.org,2002:null"


class Document:
    """One file, and what is said about its errors.

    Parameters
    ----------
    path
        Where it lies, or the address that it came from; errors begin with it.
    text
        Its content.

    Attributes
    ----------
    root
        ``None`` for a file without content.
    ignored
        The fields that `fields` was told to ignore and has met, each once.

    Raises
    ------
    BadRequest
        It is not valid YAML.
    """

    def __init__(self, path: Path | str, text: str) -> None:
        self.path = path
        self.ignored: list[str] = []
        self._problems: Problems | None = None
        if str(path).endswith(".json"):  # YAML knows no tabs for indentation; a raw one stands nowhere else in JSON
            text = text.replace("\t", " ")
        self.root = self._compose(text)

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file.

        Raises
        ------
        BadRequest
            It cannot be read, or is not valid YAML.
        """
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadRequest(f"cannot be read: {error.strerror}", file=path) from error
        except UnicodeDecodeError as error:
            raise BadRequest("is not a text in UTF-8", file=path) from error

    def fail(self, node: yaml.Node, message: str) -> NoReturn:
        """Refuse the document for what stands at `node`."""
        mark = node.start_mark
        raise BadRequest(message, file=self.path, line=mark.line + 1, column=mark.column + 1)

    @contextlib.contextmanager
    def all_at_once(self) -> Iterator[None]:
        """Raise the errors of all attempts within the block at its end, instead of the first one at once."""
        self._problems = problems = Problems()
        try:
            with problems.attempt():
                yield
        finally:
            self._problems = None
        problems.check()

    @property
    def failures(self) -> int:
        """Number of failed attempts within `all_at_once`."""
        return len(self._problems.found) if self._problems is not None else 0

    def attempt(self, read: Callable[[], _Read], default: _Read) -> _Read:
        """Return what `read` does; within `all_at_once`, `default` where that fails."""
        try:
            return read()
        except BadRequest as error:
            if self._problems is None:
                raise
            self._problems.found.append(error)
            return default

    def items(self, node: yaml.Node, expected: str) -> list[yaml.Node]:
        """Return the elements of a list; an empty value is an empty list."""
        if _is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"expected {expected}")
        return list(node.value)

    def fields(
        self,
        node: yaml.Node,
        expected: str,
        known: Collection[str] | None = None,
        unsupported: Collection[str] = (),
        ignored: Collection[str] = (),
        *,
        go_on: bool = False,
    ) -> Fields:
        """Return key and value by name.

        Parameters
        ----------
        known
            The names that there are; ``None`` for any.
        unsupported
            Names that Prometheus knows, and we refuse.
        ignored
            Names that Prometheus knows, and we leave out.
        go_on
            Each name is an attempt of its own, see `all_at_once`.
        """
        if _is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"expected {expected}")
        fields: Fields = {}

        def read(key: yaml.Node, value: yaml.Node) -> None:
            if not isinstance(key, yaml.ScalarNode):
                self.fail(key, "expected a name")
            name = key.value
            if name in fields:
                self.fail(key, f"{name!r} stands here twice")
            if name in unsupported:
                self.fail(key, f"{name!r} is a field of Prometheus's that is not supported here")
            if known is not None and name not in (*known, *ignored):
                self.fail(key, f"unknown key {name!r}{did_you_mean(name, (*known, *ignored))}")
            fields[name] = key, value

        for key, value in node.value:
            one = partial(read, key, value)
            self.attempt(one, None) if go_on else one()
        met = [name for name in fields if name in ignored]
        self.ignored += [name for name in met if name not in self.ignored]
        return {name: field for name, field in fields.items() if name not in met}

    def text(self, node: yaml.Node, expected: str) -> str:
        """Return a scalar as it is written, as Prometheus takes it: 7 is the string "7"."""
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, f"expected {expected}")
        return "" if _is_null(node) else str(node.value)

    def boolean(self, node: yaml.Node) -> bool:
        """Return ``true`` or ``false``."""
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:bool":
            self.fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def count(self, node: yaml.Node) -> int:
        """Return a whole number, 0 or more."""
        text = self.text(node, "a whole number")
        if not re.fullmatch(r"[0-9]{1,18}", text):
            self.fail(node, f"{text!r} is not a whole number, 0 or more")
        return int(text)

    def seconds(self, node: yaml.Node, what: str = "a duration") -> float:
        """Return a duration of Prometheus's form."""
        text = self.text(node, what)
        if (seconds := duration(text)) is None:
            self.fail(node, f"{text!r} is not {what}: write 500ms, 5s or 1m")
        return seconds

    def size(self, node: yaml.Node) -> int:
        """Return bytes, from a size such as ``10MB``; K, M and G are powers of 1024, as in Prometheus."""
        text = self.text(node, "a size")
        if not (match := _SIZE.fullmatch(text)):
            self.fail(node, f"{text!r} is not a size: write 512KB or 10MB")
        return int(float(match[1]) * 1024 ** (" KMGTP".index(match[2]) if match[2] else 0))

    def _compose(self, text: str) -> yaml.Node | None:
        try:
            try:
                node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
            except (yaml.YAMLError, AttributeError):  # libyaml is ten times as fast, and says less about errors
                node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
            raise BadRequest(f"not valid YAML: {error.problem}", file=self.path, line=line, column=column) from None
        except yaml.YAMLError as error:
            raise BadRequest(f"not valid YAML: {str(error).splitlines()[0]}", file=self.path) from None
        except RecursionError:
            raise BadRequest("not valid YAML: nested too deeply", file=self.path) from None
        return node


def duration(text: str) -> float | None:
    """Return the seconds of a duration in Prometheus's form, such as ``1m30s``; ``None`` where it has another."""
    match = _DURATION.fullmatch(text)
    if text == "0":
        return 0.0
    if not match or not text:
        return None
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL
