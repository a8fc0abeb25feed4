"""Terminal sessions as SVG: commands are run in a terminal, and its last screen is drawn."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

__all__ = ["lines_of", "record"]

# Fonts of the reader's machine instead of a font from another server.
_FONTS = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_CURSOR_UP = re.compile(r"\x1b\[(\d*)A")
_ERASE = "\x1b[2K"
_SHOWN = re.compile(r"\x1b\[(?!\d*A)(?!2K)[?\d;]*[A-Za-ln-z]")  # sequences other than colors (m)


def record(
    commands: Sequence[str], file: Path, *, title: str, width: int, folder: Path, environment: Mapping[str, str],
    renamed: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Run commands in a terminal of `width` characters, and write its text as SVG.

    Parameters
    ----------
    folder, environment
        Working directory and variables of the commands.
    renamed
        Texts of the output, such as temporary folders, and their replacements.
    """
    screen = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for index, command in enumerate(commands):
        if index:
            screen.print()
        screen.print(Text.assemble(("$ ", "green"), (command, "bold")))
        output = _output(command, width, folder, environment)
        for old, new in (renamed or {}).items():
            output = output.replace(old, new)
        for line in lines_of(output):
            screen.print(Text.from_ansi(line), no_wrap=True, crop=True)
    drawn = _FONT_FACE.sub("", screen.export_svg(title=title, unique_id=file.stem))
    file.write_text(drawn.replace("Fira Code, monospace", _FONTS).rstrip() + "\n")


def lines_of(output: str) -> list[str]:
    """Return the lines that remain on a terminal: without those that a live display replaced or erased."""
    screen, row = [""], 0
    for part in re.split(r"(\n|\r|\x1b\[\d*A|\x1b\[2K)", _SHOWN.sub("", output)):
        if part == "\n":
            row += 1
            if row == len(screen):
                screen.append("")
        elif part == _ERASE:
            screen[row] = ""
        elif up := _CURSOR_UP.fullmatch(part):
            row = max(0, row - int(up[1] or 1))
        elif part and part != "\r":
            screen[row] += part
    while screen and not screen[-1].strip():
        screen.pop()
    return screen


def _output(command: str, width: int, folder: Path, environment: Mapping[str, str]) -> str:
    """Return what a command writes to a terminal."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    variables = {**os.environ, **environment, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(width)}
    with subprocess.Popen(
        shlex.split(command), cwd=folder, env=variables, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        content = b""
        while True:
            try:
                read = os.read(main, 65536)
            except OSError:  # the terminal is closed
                break
            if not read:
                break
            content += read
    os.close(main)
    if process.returncode:
        raise RuntimeError(f"{command} ended with status {process.returncode}:\n{content.decode(errors='replace')}")
    return content.decode()
