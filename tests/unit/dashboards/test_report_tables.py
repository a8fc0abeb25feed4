"""Tables and notices of a report: nothing is shown twice."""

from __future__ import annotations

import pytest

from hypergauge.dashboards.report.notes import chart_notes
from hypergauge.dashboards.report.tables import Column, Value, table
from hypergauge.dashboards.terminal.notes import merged, shortened
from hypergauge.sql.queries.notices import Notice
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


def test_runs_that_never_ran_alone_are_counted() -> None:
    values = {"set": "a + b + c + d", "workloads": ["20/1"]}
    alone = [Notice("never_alone", "warning", [f"20/1/{at}"], values, f"text {at}") for at in range(4)]
    once = Notice("one_repetition", "info", [], values, "No interval for a + b + c + d (20/1).")
    found = merged([*alone, once])
    assert [one.code for one in found] == ["never_alone", "one_repetition"]
    assert "a + b and 2 more (20/1): 4 of" in found[0].text
    assert found[1].text == "No interval for a + b and 2 more (20/1)."
    assert merged(alone[:1])[0].text == "text 0"
