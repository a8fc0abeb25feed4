"""Panels of results: a verdict in one line, and tables with changes against a baseline."""

from __future__ import annotations

from typing import Any

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, hidden, thresholds
from hypergauge.dashboards.grafana.queries import Json, literals, query
from hypergauge.dashboards.palette import COLORS

__all__ = [
    "CHANGE",
    "NOT_FINISHED",
    "NOT_KNOWN",
    "SHARED",
    "SWATCH",
    "change",
    "colored",
    "colored_by",
    "repetitions",
    "run_results",
    "swatch",
    "verdict",
]

# Options of a column of changes as text: blue is better and orange worse, which color-blind users can distinguish; gray may be noise,
# or is that against other work. A change without an interval, of one repetition, may be chance and has no color.
_GRAY = {"[≈≠].*": "#8e8e8e"}
_MORE_IS_WORSE = {r"-.*\(.*": "blue", r"\+.*\(.*": "orange", **_GRAY}
_MORE_IS_BETTER = {r"-.*\(.*": "orange", r"\+.*\(.*": "blue", **_GRAY}
SHARED = "† of the whole GPU, § of the whole host: not the run's own, and listed after those that are."
_WHOLE = "† of the whole GPU, which other runs used too."
_COUNTED = "Finished attempts in the means."
NOT_KNOWN = "Not known: nothing measured it, or runs shared a GPU and nothing measured the part of each."
CHANGE = (
    "From two repetitions on with an interval of 95 %, and in color: blue is better, orange worse. ≈: the change may be noise. "
    "≠: the baseline did other work."
)


def _shades(patterns: dict[str, str]) -> list[Json]:
    """Return a mapping of texts to colors by their beginnings."""
    return [
        {"type": "regex", "options": {"pattern": pattern, "result": {"color": shade, "index": index}}}
        for index, (pattern, shade) in enumerate(patterns.items())
    ]


def change(name: str, *, more_is_better: bool | None = False, **more: Any) -> Json:
    """Return the options of a column of changes; without colors where it is unknown which direction is better."""
    shades = _GRAY if more_is_better is None else _MORE_IS_BETTER if more_is_better else _MORE_IS_WORSE
    return for_name(
        name,
        mappings=_shades(shades),
        custom__cellOptions={"type": "color-text"},
        custom__align="right",
        custom__minWidth=118,  # an interval in two lines
        custom__wrapText=True,
        thresholds=thresholds((None, "text")),
        **more,
    )


NOT_FINISHED = for_name(
    "Not finished",
    description="Runs that failed, were stopped, run or wait.",
    custom__width=102,
    custom__cellOptions={"type": "color-text"},
    thresholds=thresholds((None, "text"), (1, "red")),
)


# Column of titles that shows their colors alone: some are too light or too dark for letters. No column is narrower than 50.
SWATCH = "•"


def colored_by(rows: str, ref: str = "C") -> Json:
    """Return the query of colors of titles, for `colored`, from a relation with ``title`` and ``color``."""
    return query(
        f"select title as value, ' ' as text, ({literals(COLORS)})[color::integer + 1] as color from {rows}", ref=ref
    )


def repetitions(attempted: str) -> str:
    """Return the SQL column of the finished repetitions ``n``, as ``3 of 4`` if further ones were `attempted`."""
    return f"""concat(n, case when n < {attempted} then ' of ' || ({attempted}) end) as "Repetitions\""""


def swatch() -> Json:
    """Return the options of the column `SWATCH`, which `colored` fills."""
    return for_name(SWATCH, custom__width=50, custom__cellOptions={"type": "color-background", "mode": "basic"})


def colored(ref: str = "C") -> Json:
    """Return the transformation that fills the column `SWATCH` with the colors on the charts."""
    return {
        "id": "configFromData",
        "options": {
            "configRefId": ref,
            "mappings": [
                {"fieldName": "value", "handlerKey": "mappings.value"},
                {"fieldName": "text", "handlerKey": "mappings.text"},
                {"fieldName": "color", "handlerKey": "mappings.color"},
            ],
            "applyTo": {"id": "byName", "options": SWATCH},
        },
    }


def verdict(answers: str, notices: str, *, best: str, leanest: str = "Least GPU energy") -> Json:
    """Return the line of answers above a comparison: the best, failures, and how far to trust it.

    Parameters
    ----------
    answers
        SQL call with columns ``fastest``, ``leanest``, ``best`` and ``failed``.
    notices
        SQL call for the notices.
    best, leanest
        Names of the third and the second answer.
    """
    good, bad = {"color": "green", "index": 0}, {"color": "red", "index": 1}
    return panels.stat(
        "Verdict",
        [
            query(
                f'select fastest as "Fastest", leanest as "{leanest}", best as "{best}", failed as "Not finished" from {answers}'
            ),
            query(
                f'select trust_text(array_agg(code), array_agg(severity)) as "How far to trust it" from {notices} notices',
                ref="B",
            ),
        ],
        text=True,
        options={
            "textMode": "value_and_name",
            "orientation": "vertical",
            "wideLayout": False,
            "text": {"titleSize": 12, "valueSize": 14},
        },
        overrides=[
            for_name(
                "Not finished",
                mappings=[
                    {"type": "regex", "options": {"pattern": "none.*", "result": good}},
                    {"type": "regex", "options": {"pattern": ".* failed:.*", "result": bad}},
                    {
                        "type": "regex",
                        "options": {"pattern": ".* stopped:.*", "result": {"color": "orange", "index": 2}},
                    },
                ],
            ),
            for_name(
                "How far to trust it",
                mappings=[
                    {"type": "regex", "options": {"pattern": "Comparable", "result": good}},
                    {
                        "type": "regex",
                        "options": {"pattern": "With care.*", "result": {"color": "orange", "index": 1}},
                    },
                ],
            ),
        ],
        description="≈: the second best may be as good, by the interval over repetitions. Durations and energies are compared within one "
        "work, that of the baseline where possible.",
        width=24,
        height=4,
    )


def run_results(runs: str, *, baseline: str, key: str, name: str, **more: Any) -> Json:
    """Return the table of results of runs.

    Parameters
    ----------
    runs
        SQL array of run ids.
    baseline, key
        SQL expressions of the baseline's run id and of a software metric.
    name
        Name of this metric in the head of its column.
    """
    return panels.table(
        "Results, $ranking first, not finished last",
        [
            query(
                f"""
                select f.title as "{SWATCH}", f.title as "Run", f.status as "Status", clock_text(f.seconds) as "Duration",
                       seconds_change as "Δ time", energy / 1000 as "GPU kJ",
                       coalesce(energy_of, 'not known') as "Energy", energy_change as "Δ energy",
                       last as "Last value", last_change as "Δ last",
                       concat(lpad(round(100 * sm_active::numeric)::text, 3, U&'\\2007'), sm_mark) as "SM %",
                       case when f.shared then 'shared' else 'exclusive' end as "GPU use", {repetitions("n + failed")}, cpu as "CPU cores",
                       concat(lpad(round(100 * utilization::numeric)::text, 3, U&'\\2007'), utilization_mark) as "GPU util. %", run_id,
                       floor(extract(epoch from f.started_at) * 1000)::bigint as from_ms,
                       ceil(extract(epoch from coalesce(f.ended_at, now())) * 1000)::bigint as to_ms
                from run_results({runs}, {baseline}, {key}) f
                order by n = 0, better_direction({key}) * last desc nulls last, seconds
                """
            ),
            colored_by(f"run_titles({runs})"),
        ],
        transformations=[colored()],
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name(
                "Run",
                links=[parts.run_link("Open the run")],
                custom__width=130,
                custom__wrapText=True,
            ),
            swatch(),
            for_name("Status", mappings=parts.STATUS, custom__cellOptions={"type": "color-text"}, custom__width=75),
            for_name("Repetitions", custom__width=95, description=_COUNTED),
            for_name("Duration", custom__width=90, custom__align="right"),
            change("Δ time", description=CHANGE),
            for_name("GPU kJ", custom__width=75),
            change("Δ energy", description=CHANGE),
            for_name("Last value", displayName=name, custom__width=80),
            change("Δ last", more_is_better=None, description=CHANGE),
            for_name("GPU use", custom__width=80),
            for_name("SM %", custom__width=60, custom__align="right", description=f"Active multiprocessors. {_WHOLE}"),
            for_name("GPU util. %", custom__width=95, custom__align="right", description=_WHOLE),
            for_name("CPU cores", decimals=2, custom__width=90),
            for_name(
                "Energy",
                custom__width=105,
                description="Above idle: the run's part. Divided evenly: an equal part of several processes', as under MPS. "
                f"Whole GPUs: idle power included. {NOT_KNOWN}",
            ),
            *hidden("run_id", "from_ms", "to_ms"),
        ],
        description=f"Changes: {CHANGE}",
        **more,
    )
