"""Parser of a rule's file: leading comments in TOML, then one statement."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hypergauge.core import durations
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.sql.runs.firings import PLACEHOLDER

__all__ = ["RuleFile"]

T = TypeVar("T")

_KEYS = ("name", "means", "advice", "severity", "lookback", "needs", "parameters", "presets")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A rule's file. Errors name the line.

    Attributes
    ----------
    header
        Leading comment lines without dashes.
    content
        The header as TOML.
    statement, statement_line
        The statement, and the line of its start, from 1.
    """

    path: Path
    header: list[str] = field(repr=False)
    content: dict[str, Any]
    statement: str
    statement_line: int

    @classmethod
    def read(cls, path: Path) -> RuleFile:
        """Read a file.

        Raises
        ------
        BadRequest
            The file is not UTF-8, its header is invalid, or it has no statement.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise BadRequest(f"not UTF-8: {error.reason}", file=path) from None
        except OSError as error:
            raise BadRequest(f"cannot be read: {error.strerror}", file=path) from None
        length = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
        begins = next((at for at in range(length, len(lines)) if lines[at].strip()), length)
        header = [line.removeprefix("--").removeprefix(" ") for line in lines[:length]]
        statement = "\n".join(lines[begins:]).rstrip().removesuffix(";")
        try:
            content = tomllib.loads("\n".join(header))
        except tomllib.TOMLDecodeError as error:
            found = _POSITION.fullmatch(str(error))
            what, line = (found[1], int(found[2])) if found else (str(error), None)
            raise BadRequest(f"the header is not valid TOML: {what}", file=path, line=line) from None
        file = cls(path, header, content, statement, begins + 1)
        file._known(content, _KEYS, "")
        if not statement.strip():
            raise BadRequest("there is no statement below the header", file=path, line=max(length, 1))
        return file

    def name(self) -> str:
        """Return the rule's name."""
        name = self.words("name")
        if not _NAME.fullmatch(name):
            self.refuse(f"name is {name!r}, but must be letters and digits, as LowGPUUtilization", "name")
        return name

    def words(self, key: str) -> str:
        """Return a required text."""
        text = self.content.get(key)
        if not isinstance(text, str) or not text.strip():
            self.refuse(f'the header has no {key}: write -- {key} = "…"', key)
        return text

    def choice(self, key: str, choices: Collection[str]) -> str:
        """Return one of `choices`."""
        if (text := self.words(key)) not in choices:
            self.refuse(f"there is no {key} {text!r}{did_you_mean(text, choices)}", key)
        return text

    def duration(self, key: str) -> timedelta:
        """Return a duration."""
        return self.refusing(key, durations.parse, self.words(key))

    def names(self, key: str) -> list[str]:
        """Return an optional list of names."""
        content = self.content.get(key, [])
        if not isinstance(content, list) or not all(isinstance(one, str) for one in content):
            self.refuse(f'{key} is a list of names: write {key} = ["steps"]', key)
        return content

    def table(self, key: str) -> dict[str, Any]:
        """Return the tables of a kind by name."""
        content = self.content.get(key, {})
        if not isinstance(content, dict):
            self.refuse(f"{key} is not a table: write [{key}.NAME]", key)
        return content

    def section(self, kind: str, name: str, known: Iterable[str]) -> dict[str, Any]:
        """Return the table ``[kind.name]``; refuse unknown keys."""
        where = f"[{kind}.{name}]"
        content = self.content[kind][name]
        if not isinstance(content, dict):
            self.refuse(f"{kind}.{name} is not a table: write {where}", name)
        self._known(content, known, where)
        return content

    def refusing(self, key: str, parse: Callable[[Any], T], value: object, after: str = "") -> T:
        """Return `value` parsed; an error names the line of `key` after the line `after`."""
        try:
            return parse(value)
        except BadRequest as error:
            self.refuse(str(error), key, after)

    def check_placeholders(self, ours: Collection[str], parameters: Collection[str]) -> None:
        """Refuse unknown placeholders and unused parameters."""
        known = (*ours, *parameters)
        used = set()
        for at, line in enumerate(self.statement.splitlines()):
            for found in PLACEHOLDER.finditer(line):
                used.add(found[1])
                if found[1] not in known:
                    raise BadRequest(
                        f"the header has no parameter {found[1]!r}{did_you_mean(found[1], known)}",
                        file=self.path,
                        line=self.statement_line + at,
                        column=found.start() + 1,
                    )
        for name in parameters:
            if name in ours:
                self.refuse(f"{name!r} is a value that every rule has, not a parameter", f"[parameters.{name}]")
            if name not in used:
                self.refuse(f"the statement does not use the parameter {name!r}", f"[parameters.{name}]")

    def refuse(self, message: str, key: str, after: str = "") -> NoReturn:
        """Raise an error for the first line of `key` after the line `after`, or else for that line."""
        start = self.header.index(after) if after in self.header else 0
        begins = (
            at for at in range(start, len(self.header)) if re.match(rf"{re.escape(key)}(\s*=|$)", self.header[at])
        )
        raise BadRequest(message, file=self.path, line=next(begins, start) + 1)

    def _known(self, content: dict[str, Any], known: Iterable[str], where: str) -> None:
        choices = tuple(known)
        for key in content:
            if key not in choices:
                self.refuse(f"unknown key {key!r}{did_you_mean(key, choices)}", key, where)
