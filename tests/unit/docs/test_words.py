"""Counting of words in pages, which keeps sentences and table cells short."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.words import MOST_OF_CELL, MOST_OF_MEDIAN, main, measure


@pytest.mark.parametrize(
    ("markdown", "sentences"),
    [
        ("One two three. Four five!", (3, 2)),
        ("One two\nthree. Four", (3, 1)),
        ("One (two three.) Four five.", (3, 2)),
        ('One "two." Three.', (2, 1)),
        ("Metrics, e.g. of a GPU, stay.", (6,)),
        ("A value of 1.5 is one word.", (7,)),
        ("`bench compare 1 --json` writes [a *long* file](page.md#part).", (5,)),
        ("One — two.", (2,)),
        ("- one two\n- three", (2, 1)),
        ("# A heading has no sentences\n\nOne.", (1,)),
        ("![A picture has none](a.png)", ()),
        ("One.\n\n```sh\nbench list  # not a sentence. None.\n```\n", (1,)),
        ("<!--- demo --->\n\nOne two.", (2,)),
    ],
)
def test_sentences(markdown: str, sentences: tuple[int, ...]) -> None:
    assert measure(markdown).sentences == sentences


def test_cells_are_no_sentences() -> None:
    page = measure("| one two | `three four` |\n| --- | --- |\n| five. Six seven | |\n")
    assert page.cells == (2, 1, 3, 0)
    assert page.sentences == ()
    assert page.longest_cell == 3


@pytest.mark.parametrize(
    ("markdown", "fits"),
    [
        ("word " * MOST_OF_MEDIAN + ".", True),
        ("word " * (MOST_OF_MEDIAN + 1) + ".", False),
        ("Short. Short. " + "word " * 100, True),  # of the median
        (f"| a |\n| --- |\n| {'word ' * MOST_OF_CELL}|\n", True),
        (f"| a |\n| --- |\n| {'word ' * (MOST_OF_CELL + 1)}|\n", False),
        ("", True),
    ],
)
def test_a_page_fits_or_the_command_fails(
    markdown: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text(markdown)
    assert main(["."]) == (0 if fits else 1)
    output = capsys.readouterr()
    assert "page.md" in output.out
    assert ("page.md" in output.err) is not fits
