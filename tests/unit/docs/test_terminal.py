"""The screen of a recorded terminal session."""

from __future__ import annotations

import pytest

from docs.pictures.terminal import lines_of


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("waiting\r\x1b[2Kdone\r\n", ["done"]),
        ("one\r\nlive 1\r\nlive 2\r\x1b[2K\x1b[1A\x1b[2Ktwo\r\n", ["one", "two"]),
        ("\x1b[?25lone\r\n\x1b[?25h", ["one"]),
        ("\x1b[32mgreen\x1b[0m\r\n", ["\x1b[32mgreen\x1b[0m"]),
        ("", []),
    ],
)
def test_a_live_display_leaves_its_last_state(output: str, lines: list[str]) -> None:
    assert lines_of(output) == lines
