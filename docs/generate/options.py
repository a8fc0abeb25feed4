"""Commands with their arguments and options, from Typer."""

from __future__ import annotations

from typing import Any

import typer
from typer.cli import get_docs_for_click

from hypergauge.cli.catalog import GROUPS, DeferredCommand

__all__ = ["sections"]


def sections() -> str:
    """Return a section for each command, with its subcommands below it."""
    parts = []
    for names in GROUPS.values():
        for name in names:
            command = DeferredCommand(name).load()
            context = typer.Context(command, info_name=name)
            _fence_examples(command)
            # With an indent, a command is a section and its subcommands are below it.
            parts.append(get_docs_for_click(obj=command, ctx=context, name=name, indent=1, call_prefix="bench").strip())
    return "\n\n".join(parts)


def _fence_examples(command: Any) -> None:
    """Make the examples of a command and its subcommands code blocks."""
    if command.epilog:
        command.epilog = f"**Examples**:\n\n```sh\n{command.epilog}\n```"
    for below in getattr(command, "commands", {}).values():
        _fence_examples(below)
