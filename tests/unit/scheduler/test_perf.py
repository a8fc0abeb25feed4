"""Events and presets of ``perf`` on processors that have them, in part or not, and its recordings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers import completed, notes, problems, wrapped
from hypergauge.scheduler.profilers.reports.perf_script import read_printed, read_samples
from hypergauge.scheduler.profilers.reports.stacks import Phases, Stack, UnreadableReport
from hypergauge.scheduler.profilers.word import split_word
from tests.support.fakes.perf import CAPTURES, installed_perf

LACKS = "the processor lacks the counters, a virtual machine hides them, or they are not of single processes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run's folder; `processor` installs a stand-in of perf in front of ``PATH``."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return RunFolder(tmp_path)


def processor(folder: RunFolder, capture: str) -> None:
    installed_perf(folder.path / "bin", capture)


def events(folder: RunFolder, word: str) -> str:
    """Return the events of the command line."""
    words = wrapped(["true"], dict([split_word(word)]), folder, sys.executable)
    return words[words.index("-e") + 1]


def refusals(word: str) -> list[str]:
    return list(problems([word], sys.executable, script=True))


@pytest.mark.parametrize(
    ("capture", "chosen", "note"),
    [
        (
            "intel_hybrid.csv",
            (
                "{cpu_core/slots/,cpu_core/topdown-retiring/,cpu_core/topdown-bad-spec/,cpu_core/topdown-fe-bound/,"
                "cpu_core/topdown-be-bound/,cpu_core/topdown-mem-bound/}"
            ),
            [],
        ),
        (
            "amd_zen4.csv",
            (
                "{de_src_op_disp.all,ex_ret_ops,de_no_dispatch_per_slot.no_ops_from_frontend,"
                "de_no_dispatch_per_slot.backend_stalls,de_no_dispatch_per_slot.smt_contention}"
            ),
            ["of the preset topdown, perf does not count memory bound here"],
        ),
    ],
)
def test_topdown_takes_the_events_of_the_processor(
    folder: RunFolder, capture: str, chosen: str, note: list[str]
) -> None:
    processor(folder, capture)
    assert refusals("perf(preset=topdown)") == []
    assert events(folder, "perf(preset=topdown)") == chosen
    assert list(notes(["perf(preset=topdown)"])) == note


def test_the_counters_that_a_host_lacks_are_named_without_a_preset_too(folder: RunFolder) -> None:
    processor(folder, "amd_zen4.csv")
    [note] = notes(["perf"])
    assert [note] == list(notes(["perf(preset=default)"]))
    assert "perf does not count" in note


def test_a_preset_of_which_nothing_is_counted_is_refused(folder: RunFolder) -> None:
    processor(folder, "amd_zen4.csv")
    for preset in ("caches", "tlb", "stalls"):
        assert refusals(f"perf(preset=topdown,{preset})") == [
            f"perf counts nothing of the preset {preset} here: {LACKS}"
        ]


def test_options_for_another_host_are_not_tried_here(folder: RunFolder) -> None:
    processor(folder, "amd_zen4.csv")
    assert list(problems(["perf(preset=caches)"], sys.executable, script=True, here=False)) == []
    refused = list(problems(["perf(preset=cache)"], sys.executable, script=True, here=False))
    assert refused == ["perf has no preset 'cache' (did you mean 'caches'?)"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("perf(preset=topdwn)", "perf has no preset 'topdwn' (did you mean 'topdown'?)"),
        ("perf(preset=default,cache)", "perf has no preset 'cache' (did you mean 'caches'?)"),
        ("perf(presets=tlb)", "perf has no option 'presets' (did you mean 'preset'?)"),
        ("perf(events=ex_ret_op)", "perf has no event 'ex_ret_op' (did you mean 'ex_ret_ops'?)"),
        ("perf(events=zzzzzzzz)", "perf has no event 'zzzzzzzz': `perf list` shows those of this host"),
        ("perf(events=ex_ret_ops,cycles)", f"perf cannot count 'cycles' of a run here: {LACKS}"),
        ("perf(events=ex_ret_ops:u)", "perf cannot count 'ex_ret_ops:u': leave out ':u', all modes are counted"),
        ("perf(events=a b)", "the option events of perf cannot be 'a b'"),
        (
            "perf-record(rate=1000)",
            "the option rate of perf-record cannot be '1000': write 1 to 999 samples per second",
        ),
        ("perf-record(call-graph=lbr)", "the option call-graph of perf-record cannot be 'lbr' (one of: fp, dwarf)"),
    ],
)
def test_options_that_perf_lacks(folder: RunFolder, word: str, message: str) -> None:
    processor(folder, "amd_zen4.csv")
    assert message in refusals(word)


def test_presets_and_events_are_counted_together(folder: RunFolder) -> None:
    processor(folder, "amd_zen4_memory.csv")
    counted = events(folder, "perf(events=ex_ret_ops,ex_no_retire.not_complete,preset=topdown)")
    # Without SMT contention there are no shares of all slots, so the preset gives nothing.
    assert counted == "ex_ret_ops,ex_no_retire.not_complete"


def test_defaults_of_bench_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.toml").write_text('[profilers]\nperf = "preset=topdown,caches"\nnsys = "trace=cuda"\n')
    assert completed(["perf", "torch"]) == ("perf(preset=topdown,caches)", "torch")
    assert completed(["perf(preset=tlb)", "nsys(sample=none)"]) == ("perf(preset=tlb)", "nsys(trace=cuda,sample=none)")
    assert completed([]) == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('perff = "preset=tlb"', "[profilers]: there is no profiler 'perff' (did you mean 'perf'?)"),
        ('perf = "preset=tbl"', "[profilers]: perf has no preset 'tbl' (did you mean 'tlb'?)"),
        ('perf = "tlb"', "[profilers]: perf: 'tlb' has the option 'tlb', which is not OPTION=VALUE"),
        ("perf = 3", '[profilers]: perf must be a string, such as "OPTION=VALUE"'),
    ],
)
def test_defaults_that_are_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.toml").write_text(f"[profilers]\n{line}\n")
    with pytest.raises(BadRequest) as caught:
        completed(["perf"])
    assert str(caught.value) == f"{tmp_path / 'bench.toml'}: {message}"


# --- recordings -------------------------------------------------------------------------------------------------------


def test_samples_of_native_code_and_of_python() -> None:
    offset = 1795813764.346625 - 563.435792292
    phases = Phases([(offset + 563, offset + 565, "load"), (offset + 565, offset + 567, "train")])
    recording = read_printed((CAPTURES / "script.txt").read_text().splitlines(), phases)
    sample = 1 / 49
    evaluate = "_PyEval_EvalFrameDefault (libpython3.12.so.1.0)"
    kernel = ("__GI___libc_write (libc.so.6)", "entry_SYSCALL_64_after_hwframe (kernel)", "do_syscall_64 (kernel)")
    python = ("<module> (train.py)", "Trainer.step (train.py)")
    mixed = (python[0], evaluate, python[1], evaluate, "_PyObject_Free (libpython3.12.so.1.0)")
    hot = ("__libc_start_call_main (libc.so.6)", "main (hot)", "hot_loop (hot)")
    assert recording.stacks == [
        Stack("native", hot, "load", None, 2 * sample),
        Stack("native", kernel, "train", None, sample),
        Stack("native", mixed, "train", None, sample),
        Stack("native", ("[unknown]",), "train", None, sample),
        Stack("function", python, "train", None, sample),
    ]
    assert recording.rate == 49
    assert recording.started_at == pytest.approx(offset + 563.499589357)
    assert recording.ended_at == pytest.approx(offset + 565.800871758)


def test_a_recording_without_a_header() -> None:
    with pytest.raises(UnreadableReport, match="no rate"):
        read_printed(["python 1/1   563.4: ", "\t1171 hot (/srv/hot)"], Phases())


def test_a_recording_that_perf_refuses(tmp_path: Path) -> None:
    program = tmp_path / "perf"
    program.write_text("#!/bin/sh\necho 'incompatible file format' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UnreadableReport, match="perf cannot print it: incompatible file format"):
        read_samples(str(program), tmp_path / "perf.data", Phases())
