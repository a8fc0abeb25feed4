"""Cost of sharing in tables, heat maps and colors."""

from __future__ import annotations

import pytest

from hypergauge.dashboards.shades import shade
from hypergauge.dashboards.terminal import sharing
from hypergauge.dashboards.terminal.sharing import Cell, Sheet
from hypergauge.insight.sharing.interference import Against, Alone, Interference, Member, Set, Slowdown
from hypergauge.insight.sharing.ratio import Ratio


def member(name: str, ratio: Ratio | None, **fields: object) -> Member:
    slow = None if ratio is None else Slowdown(Alone("-", ("1/1/1",)), 10 * ratio.value, 10, ratio)
    return Member(**{  # type: ignore[arg-type]
        "name": name, "configuration": name, "collocation": "-", "count": 1, "runs": ("1/3/1",), "over": "whole",
        "together": 1.0, "slowdown": slow, **fields,
    })  # fmt: skip


def pair(one: Member, other: Member, makespan: Ratio | None = None, how: str = "naive") -> Set:
    against = None if makespan is None else Against(20 * makespan.value, 20, makespan)
    return Set(how, ("1/3",), 2, (one, other), against, None, {"runs": 2.0})


def interference(*sets: Set) -> Interference:
    return Interference("duration", sets, ())


def words(sheet: Sheet) -> list[dict[str, str]]:
    return [
        {column: cell.text for column, cell in zip(sheet.columns, line, strict=True) if cell.text}
        for line in sheet.lines
    ]


def test_tables_show_what_is_known() -> None:
    found = interference(
        pair(member("a", Ratio(1.5, 1.25, 1.8)), member("b", None, simulated=True), Ratio(0.8, 0.7, 0.9)),
        pair(member("a", Ratio(1.2), over="together"), member("c", Ratio(1.1), together=0.5), how="MPS"),
    )
    assert words(sharing.slowdowns(found)) == [
        {"configuration": "a", "beside": "b", "sharing": "naive", ">repetitions": "2 + 1 alone", ">alone": "10.0 s",
         ">beside others": "15.0 s", ">slowdown": "1.50x", ">95% interval": "1.25 to 1.80"},
        {"configuration": "b *", "beside": "a", "sharing": "naive", ">repetitions": "2", ">alone": "never"},
        {"configuration": "a", "beside": "c", "sharing": "MPS", ">repetitions": "2 + 1 alone", ">alone": "10.0 s",
         ">beside others": "12.0 s", ">slowdown": "1.20x†"},
        {"configuration": "c", "beside": "a", "sharing": "MPS", ">repetitions": "2 + 1 alone", ">alone": "10.0 s",
         ">beside others": "11.0 s", ">slowdown": "1.10x‡"},
    ]  # fmt: skip
    assert words(sharing.outcomes(found)) == [
        {"set": "a + b *", "sharing": "naive", "workload": "1/3", ">makespan": "16.0 s", ">one after the other": "20.0 s",
         ">change": "-20%", ">95% interval": "-30% to -10%", ">throughput": "450 runs/h (360)"},
    ]  # fmt: skip
    assert [note[0] for note in sharing.notes(found)] == ["†", "‡", "*"]


def test_a_narrow_table_keeps_the_column_that_tells_its_lines_apart() -> None:
    one = member("narrow", Ratio(1.5, 1.25, 1.8))
    for ways, kept in ((("naive", "naive"), False), (("naive", "MPS"), True)):
        found = interference(*(pair(one, one, Ratio(0.8), how=how) for how in ways))
        for made in sharing.tables_of(found, 50):
            assert ("sharing" in [column.header for column in made.columns]) is kept


def test_a_heat_map_has_the_same_order_both_ways() -> None:
    one = Ratio(2.0)
    twice = pair(member("a", one, count=2), member("b", one))
    grids = sharing.grids(interference(pair(member("b", one), member("a", one)), twice))
    assert [(grid.rows, grid.columns) for grid in grids] == [(("b", "a"), ("b", "a", "a + b", "a + a"))]
    assert sorted(grids[0].cells) == [(0, 1), (0, 3), (1, 0), (1, 2)]
    assert grids[0].cells[0, 1] == Cell("2.00x", "", shade(2))


@pytest.mark.parametrize("slowdown", [0.01, 0.4, 0.9, 1.0, 1.1, 1.7, 3.0, 100.0])
def test_letters_are_read_on_every_color(slowdown: float) -> None:
    parts = [int(shade(slowdown)[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    light = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert (light + 0.05) / 0.05 > 4.5, "WCAG's AA, in black"


def test_colors_show_which_way_and_how_far() -> None:
    assert shade(1) == "#ffffff"
    assert shade(3) == shade(9) == "#d55e00"
    assert int(shade(1.2)[5:], 16) > int(shade(2)[5:], 16)
    assert int(shade(0.5)[1:3], 16) < int(shade(0.5)[5:], 16)
