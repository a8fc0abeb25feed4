"""The column ``Listeners``: exporters with their intervals, what a workload needs of them, and what the plan says."""

from __future__ import annotations

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment.cells import parse_listeners
from hypergauge.scheduler.plan.exporters import shown_choices
from hypergauge.sql.ingest.choices import Choice, interval_needed


@pytest.mark.parametrize(
    ("text", "choice", "profilers"),
    [
        ("", None, ()),
        ("nsys+perf", None, ("nsys", "perf")),
        ("none", {}, ()),
        ("None + torch", {}, ("torch",)),
        ("smi@100ms", {"nvml": 0.1}, ()),
        ("smi @ 0.5 s+dcgmi@1s + host@1min", {"nvml": 0.5, "dcgm": 1.0, "host": 60.0}, ()),
        ("top@10s+free@10s+smi", {"host": 10.0, "process": 10.0, "nvml": None}, ()),
        ("weather@2s+perf+perf", {"weather": 2.0}, ("perf",)),
        ("Py-Spy+host@1s", {"host": 1.0}, ("py-spy",)),
        ("nsys(trace=cuda,nvtx,sample=none)+smi", {"nvml": None}, ("nsys(trace=cuda,nvtx,sample=none)",)),
        ("NCU(kernel-name=regex:Gemm)", None, ("ncu(kernel-name=regex:Gemm)",)),
    ],
)
def test_a_cell(text: str, choice: Choice | None, profilers: tuple[str, ...]) -> None:
    assert parse_listeners(text) == (choice, profilers)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host+", "has an empty exporter name"),
        ("none+host", "names exporters beside 'none', which means no exporter"),
        ("none@1s", "'none@1s' has an interval, which only exporters have"),
        ("nsys@1s", "'nsys@1s' has an interval, which only exporters have"),
        ("smi@", "the interval of 'smi@' is invalid: '' is not a duration: write it like 10 s"),
        ("host,process", "'host,process' is not one exporter: join them by"),
        ("host process@1s", "'host process@1s' is not one exporter"),
        ("smi@fast", "'fast' is not a duration"),
        ("smi@10hz", "there is no unit 'hz'"),
        ("smi@99ms", "the interval of 'smi@99ms' must lie between 100 ms and 60 s"),
        ("smi@61s", "must lie between"),
        ("top@10s+free", "gives host two intervals"),
        ("nsys(trace)", "'nsys\\(trace\\)' has the option 'trace', which is not OPTION=VALUE"),
        ("nsys(trace=cuda", "is no profiler with options: write NAME"),
        ("nsys(=cuda)", "which is not OPTION=VALUE"),
    ],
)
def test_a_bad_cell_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        parse_listeners(text)


@pytest.mark.parametrize(
    ("choices", "interval", "shown"),
    [
        ([], 2.0, "no exporter"),
        ([None], 2.0, "every exporter that works here"),
        ([{}], None, "no exporter"),
        ([{"host": None}], None, "host every 2 s"),
        ([{"nvml": 0.1}], 0.1, "nvml every 0.1 s"),
        ([{"nvml": 0.1}, {"nvml": 10.0, "host": 5.0}], 0.1, "host every 5 s and nvml every 0.1 s"),
        ([{"nvml": 10.0}, None], 2.0, "every exporter that works here"),
        ([{"nvml": 0.1}, None], 0.1, "every exporter that works here and nvml every 0.1 s"),
        ([{"nvml": 10.0}, {"nvml": None}, {}], 2.0, "nvml every 2 s"),
    ],
)
def test_what_runs_need_together(choices: list[Choice | None], interval: float | None, shown: str) -> None:
    assert interval_needed(choices, "nvml", 2.0) == interval
    assert shown_choices(choices, 2.0) == shown
