"""The page on frameworks names the rules that tests show."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.framework_rules import FRAMEWORKS, rules_of

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "frameworks.md"


def named(cell: str) -> set[str]:
    """Return the frameworks in a cell of the page."""
    words = {word.strip().lower().replace("scikit-learn", "sklearn") for word in cell.split(",")}
    return set(FRAMEWORKS) if words == {"all"} else words


def test_the_table_of_rules_is_that_of_the_tests() -> None:
    [table] = re.findall(r"\| recorded \| of \| rules \|\n\| [-| ]+\n((?:\|.*\n)+)", PAGE.read_text())
    listed: dict[str, set[str]] = {name: set() for name in FRAMEWORKS}
    for line in table.splitlines():
        _, _, frameworks, rules, _ = line.split("|")
        for framework in named(frameworks):
            listed[framework] |= set(re.findall(r"\[(\w+)\]", rules))
    assert listed == {name: set(rules_of(name)) for name in FRAMEWORKS}
