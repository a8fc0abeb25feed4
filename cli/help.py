"""Help of commands: usage lines as in manual pages, and examples at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Commands", "Group", "lines"]


class _Examples:
    """Help that ends with examples: the lines of the epilog."""

    epilog: str | None

    def format_epilog(self, _context: Any, formatter: Any) -> None:
        """Write the examples."""
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.splitlines()))


class Group(_Examples, TyperGroup):
    """Group of commands, with examples of its own."""


class _Command(_Examples, TyperCommand):
    """Command whose arguments are shown as in a manual page: ``FILE``, ``[FOLDER]``, ``SELECTOR...``."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return ["[OPTIONS]", *(_name(one) if one.required else f"[{_name(one)}]" for one in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for one in self.get_params(ctx):
            name, text = one.get_help_record(ctx) or ("", "")
            rows[one.param_type_name].append((_name(one) if one.param_type_name == "argument" else name, text))
        for kind, found in rows.items():
            if found:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(found)


class Commands(typer.Typer):
    """Commands whose help ends with examples."""

    def __init__(self, *, examples: Mapping[str, str], **settings: Any) -> None:
        super().__init__(epilog=lines(examples), **{"cls": Group, **settings})

    def command(  # type: ignore[override]
        self, name: str | None = None, *, examples: Mapping[str, str], **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a command with its examples: their comments, by command line."""
        return super().command(name, cls=_Command, epilog=lines(examples), **settings)


def lines(examples: Mapping[str, str]) -> str:
    """Return command lines with their comments aligned."""
    width = max(map(len, examples), default=0)
    return "\n".join(f"{line:<{width}}  # {comment}" for line, comment in examples.items())


def _name(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return f"{name}..." if argument.nargs != 1 else str(name)
