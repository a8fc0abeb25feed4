"""Tables and notices of a report: nothing is shown twice."""

from __future__ import annotations

import pytest

from hypergauge.dashboards.report.notes import chart_notes
from hypergauge.dashboards.report.tables import Column, Value, table
from hypergauge.dashboards.terminal.notes import distinct, shortened
from tests.support.data.pictures import chart, notice, series


def test_what_all_lines_have_in_common_is_shown_once() -> None:
    columns = [Column("host"), Column("lr"), Column("note"), Column("status")]
    lines = [(f"20/1/{at}", [Value("node1"), Value(str(at)), Value(""), Value("finished")]) for at in range(1, 5)]
    found = table(columns, lines)
    assert found.common == "host: node1; status: finished"
    assert [one.title for one in found.columns] == ["lr"]
    assert found.lines[2] == ("20/1/3", (Value("3"),))
    few = table(columns, lines[:2])
    assert (few.common, [one.title for one in few.columns]) == ("", ["host", "lr", "status"])


def test_a_notice_stands_below_one_chart() -> None:
    first, second = notice("of both"), notice("of the second")
    one = series("20/1/1", [1.0])
    assert chart_notes([chart(one, notices=(first, first)), chart(one, notices=(first, second))]) == [
        ["of both"], ["of the second"],
    ]  # fmt: skip
    assert chart_notes([chart(one, notices=(first, second))], ["of both"]) == [["of the second"]]


@pytest.mark.parametrize(
    ("name", "short"),
    [("a", "a"), ("a + b + c", "a + b + c"), ("a + b + c + d + e", "a + b and 3 more")],
)
def test_names_of_large_sets_are_short(name: str, short: str) -> None:
    assert shortened(name) == short


def test_a_notice_stands_once() -> None:
    assert [one.text for one in distinct([notice("of both"), notice("of one"), notice("of both")])] == [
        "of both",
        "of one",
    ]
