"""Page of all commands with their options, made from the commands when the site is built."""

from __future__ import annotations

from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from hypergauge.cli.catalog import GROUPS, DeferredCommand

PAGE = "reference/options.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page in Markdown: a section for each command."""
    sections = [
        "# Options of commands",
        "What `bench COMMAND --help` says. [Commands](commands.md) explains what they do, and what selectors are.",
    ]
    for names in GROUPS.values():
        for name in names:
            command = DeferredCommand(name).load()
            context = typer.Context(command, info_name=name)
            _fence_examples(command)
            # With an indent, a command is a section and its subcommands are below it.
            sections.append(get_docs_for_click(obj=command, ctx=context, name=name, indent=1, call_prefix="bench"))
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _fence_examples(command: Any) -> None:
    """Make the examples of a command and its subcommands code blocks."""
    if command.epilog:
        command.epilog = f"**Examples**:\n\n```sh\n{command.epilog}\n```"
    for below in getattr(command, "commands", {}).values():
        _fence_examples(below)
