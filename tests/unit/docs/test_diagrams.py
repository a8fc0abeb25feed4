"""Diagrams of the documentation: the committed files are those that the script draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from docs.pictures.diagrams import draw_all

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


def test_committed_diagrams_are_up_to_date(tmp_path: Path) -> None:
    drawn = draw_all(tmp_path)
    assert drawn
    for file in drawn:
        assert (PICTURES / file.name).read_text() == file.read_text(), "make pictures PICTURES=diagrams"


def test_diagrams_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    for file in draw_all(tmp_path):
        tree = ElementTree.fromstring(file.read_text())
        assert not [name for element in tree.iter() for name in element.attrib if name.endswith(("href", "src"))]
