"""The cost of sharing, in each flavour: `bench interference` finds known slowdowns."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hypergauge.sql.ingest.software import SpanRecord, store_spans
from tests.conftest import Command
from tests.support.world import World

UNMEASURED = "other programs on the host and its GPUs were not measured"
ALONE = {"narrow": 20.0, "wide": 30.0, "deep": 10.0}


@dataclass
class Laboratory:
    """Runs workloads one after the other, each configuration in its given time."""

    world: World
    clock: float
    attempts: dict[tuple[int, int], int] = field(default_factory=dict)

    def workload(self, workload: int, *rows: tuple[str, float], status: str = "finished", **fields: Any) -> list[str]:
        """Run rows of a name and the seconds that it takes; the last one ends with `status`. Return their ids."""
        ids = []
        for position, (name, seconds) in enumerate(rows, 1):
            attempt = self.attempts[workload, position] = self.attempts.get((workload, position), 0) + 1
            run_id = self.world.run(
                self.clock, workload=workload, position=position, attempt=attempt, name=name, command=f"{name}.py",
                **{"gpu": "GPU-1", **fields},
            )  # fmt: skip
            last = position == len(rows)
            self.world.end(run_id, self.clock, self.clock + seconds, status if last else "finished")
            ids.append(run_id)
        self.clock += max(seconds for _, seconds in rows) + 5
        return ids

    def steps(self, run_id: str, *ends: float) -> None:
        """Log steps of a run that ended at these seconds since its start."""
        begins = [0.0, *ends[:-1]]
        start = self.world.connection.execute(
            "select extract(epoch from started_at)::float8 from runs where run_id = %s", (run_id,)
        ).fetchone()
        assert start is not None
        spans = [
            SpanRecord(f"s{at}", None, "step", "step", at, start[0] + one, start[0] + other, 1, "main")
            for at, (one, other) in enumerate(zip(begins, ends, strict=True))
        ]
        store_spans(self.world.connection, run_id, spans)


@pytest.fixture
def laboratory(world: World) -> Laboratory:
    """A laboratory that has not run anything."""
    return Laboratory(world, time.time() // 10 * 10 - 9000)


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command over the world's database."""
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    return command


def report_of(bench: Command, *words: str) -> dict[str, Any]:
    status, output, error = bench("interference", *words, "--json")
    assert status == 0, error
    found: dict[str, Any] = json.loads(output)
    return found


def slowdowns(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (member["configuration"], member["beside"]): member["slowdown"] and member["slowdown"]["ratio"]
        for one in found["sets"]
        for member in one["members"]
    }


@pytest.mark.slow
def test_known_slowdowns_come_out_with_intervals_that_hold_them(laboratory: Laboratory, bench: Command) -> None:
    chance = random.Random(7)
    put_in = {("narrow", "wide"): 1.6, ("wide", "narrow"): 1.1, ("narrow", "narrow"): 1.5}
    for _ in range(5):
        for workload, name in enumerate(("narrow", "wide"), 1):
            laboratory.workload(workload, (name, ALONE[name] * chance.gauss(1, 0.01)))
        for workload, pair in enumerate((("narrow", "wide"), ("narrow", "narrow")), 3):
            takes = [
                (one, ALONE[one] * put_in[one, other] * chance.gauss(1, 0.01))
                for one, other in zip(pair, reversed(pair), strict=True)
            ]
            laboratory.workload(workload, *takes)
    found = report_of(bench, "20")
    assert slowdowns(found) == pytest.approx(put_in, rel=0.03)
    for one in found["sets"]:
        assert one["repetitions"] == 5
        for member in one["members"]:
            slow = member["slowdown"]
            assert slow["low"] < put_in[member["configuration"], member["beside"]] < slow["high"]
            assert slow["high"] / slow["low"] < 1.1
            assert (member["over"], slow["alone"]["collocation"], len(slow["alone"]["runs"])) == ("whole", "-", 5)
    pair, twice = found["sets"]
    assert pair["makespan_seconds"]["ratio"] == pytest.approx(33 / 50, rel=0.03)
    assert twice["makespan_seconds"]["ratio"] == pytest.approx(30 / 40, rel=0.03)
    assert pair["throughput"]["runs_per_second"]["together"] == pytest.approx(2 / 33, rel=0.03)
    assert found["advice"] == f"Collocate: narrow + wide (-34%; {UNMEASURED}); narrow + narrow (-25%; {UNMEASURED})."
    # A part of a workload is not alone, and an experiment is all of its workloads.
    assert report_of(bench, "20/1", "20/2", "20/3/1", "20/4/2@3") == found


def test_one_repetition_has_no_interval_and_is_marked(laboratory: Laboratory, bench: Command) -> None:
    laboratory.workload(1, ("narrow", 20))
    laboratory.workload(2, ("wide", 30))
    laboratory.workload(3, ("narrow", 60), ("wide", 60))
    status, output, _ = bench("interference", "20")
    assert status == 0
    words = " ".join(output.split())
    assert "narrow wide naive 1 + 1 alone 20.0 s 1:00 3.00x" in words
    assert "No interval for narrow + wide (20/3)" in words
    assert "narrow + wide naive 20/3 1:00 50.0 s +20% 120 runs/h (144)" in words
    assert words.endswith(f"Do not collocate: narrow + wide (+20%; {UNMEASURED}).")


def test_failed_repetitions_are_named_and_not_used(laboratory: Laboratory, bench: Command) -> None:
    for seconds in (20, 21):
        laboratory.workload(1, ("narrow", seconds))
        laboratory.workload(2, ("wide", seconds))
        laboratory.workload(3, ("narrow", 2 * seconds), ("wide", 2 * seconds))
    laboratory.workload(2, ("wide", 2), status="timeout")
    laboratory.workload(3, ("narrow", 500), ("wide", 3), status="failed")
    found = report_of(bench, "20")
    assert slowdowns(found) == {("narrow", "wide"): 2, ("wide", "narrow"): 2}
    early = {"reason": "run_ended_early", "run": "20/3/2", "status": "failed", "seconds": 3}
    assert found["left_out"] == [
        {
            "runs": ["20/2/1"],
            "reasons": [{"reason": "run_ended_early", "run": "20/2/1", "status": "timeout", "seconds": 2}],
        },
        {"runs": ["20/3/1", "20/3/2"], "reasons": [early]},
    ]
    assert (["20/3/1", "20/3/2"], {"reasons": [early]}) in [
        (one["runs"], one["values"]) for one in found["notices"] if one["code"] == "not_compared"
    ]


def test_who_was_never_alone_and_who_was_not_alone_at_all(laboratory: Laboratory, bench: Command) -> None:
    begins = laboratory.clock
    laboratory.workload(1, ("narrow", 20))
    laboratory.workload(2, ("wide", 30))
    laboratory.workload(3, ("narrow", 60), ("deep", 60))
    laboratory.workload(4, ("wide", 45), ("wide", 45))
    laboratory.world.run(begins + 5, begins + 6, experiment=21, gpu="GPU-1")
    laboratory.world.run(begins + 30, begins + 40, experiment=21, workload=2, gpu="GPU-2")
    found = report_of(bench, "20")
    assert slowdowns(found) == {("narrow", "deep"): None, ("deep", "narrow"): None, ("wide", "wide"): 1.5}
    assert [one["makespan_seconds"] is None for one in found["sets"]] == [True, False]
    assert found["left_out"] == [
        {"runs": ["20/1/1"], "reasons": [{"reason": "gpu_used_by_others", "run": "20/1/1", "others": ["21/1/1"]}]}
    ]
    [notice] = [one for one in found["notices"] if one["code"] == "never_alone"]
    assert notice["runs"] == ["20/3/1", "20/3/2"]
    assert notice["values"] == {"configurations": ["narrow", "deep"], "set": "narrow + deep", "workloads": ["20/3"]}
    status, output, _ = bench("interference", "20/3")
    assert status == 0
    assert "No advice on what to collocate" in " ".join(output.split())
    assert bench("interference", "20/3", "-o", "a.svg")[0] == 1


def test_where_steps_are_logged_the_time_together_counts(laboratory: Laboratory, bench: Command) -> None:
    for _ in range(2):
        [alone] = laboratory.workload(1, ("narrow", 20))
        laboratory.steps(alone, *(2.0 * at for at in range(1, 11)))
        laboratory.workload(2, ("deep", 10))
        # Six steps of 3 s, beside the other; the rest of 2 s, alone.
        beside, _ = laboratory.workload(3, ("narrow", 26), ("deep", 18))
        laboratory.steps(beside, 3, 6, 9, 12, 15, 18, 20, 22, 24, 26)
    found = report_of(bench, "20")
    narrow, deep = found["sets"][0]["members"]
    assert (narrow["over"], narrow["together"]) == ("together", pytest.approx(18 / 26))
    assert (narrow["slowdown"]["seconds"], narrow["slowdown"]["alone_seconds"]) == pytest.approx((18, 12))
    assert narrow["slowdown"]["ratio"] == pytest.approx(1.5)
    assert (deep["over"], deep["slowdown"]["ratio"]) == ("whole", pytest.approx(1.8))
    paced = report_of(bench, "20", "--metric", "step_time")
    narrow, deep = paced["sets"][0]["members"]
    assert (narrow["slowdown"]["seconds"], narrow["slowdown"]["alone_seconds"]) == pytest.approx((3, 2))
    assert deep["slowdown"] is None
    status, output, _ = bench("interference", "20", "--metric", "step_time")
    assert status == 0
    assert "alone a step beside others a step" in " ".join(output.split())


def test_energy_is_what_the_whole_gpu_used_from_the_first_start_to_the_last_end(
    laboratory: Laboratory, bench: Command
) -> None:
    begins = laboratory.clock
    for workload, name in enumerate(("narrow", "wide"), 1):
        laboratory.workload(workload, (name, ALONE[name]))
    laboratory.workload(3, ("narrow", 40), ("wide", 30))
    times = [begins + at for at in range(1, int(laboratory.clock - begins))]
    laboratory.world.write(
        laboratory.world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [200.0] * len(times), {"UUID": "GPU-1"}, "dcgm")
    )
    laboratory.world.connection.execute("select summarise(run_id) from runs")
    [one] = report_of(bench, "20")["sets"]
    energy = one["device_energy_joules"]
    assert (energy["together"], energy["one_by_one"]) == pytest.approx((8000, 10000), rel=0.06)
    laboratory.world.connection.execute("update runs set simulated = true")
    assert report_of(bench, "20")["sets"][0]["device_energy_joules"] is None
    assert report_of(bench, "20", "--simulated")["sets"][0]["device_energy_joules"] == energy


@pytest.mark.slow
def test_ways_of_sharing_are_distinguished(laboratory: Laboratory, bench: Command, tmp_path: Path) -> None:
    for workload, name in enumerate(ALONE, 1):
        laboratory.workload(workload, (name, ALONE[name]))
    laboratory.workload(4, ("narrow", 21), collocation="3g.20gb", gpu_instance=1)
    rows = [("narrow", 30.0), ("wide", 45.0), ("deep", 15.0)]
    laboratory.workload(5, *rows[:2])
    laboratory.workload(6, *rows[:2], collocation="MPS")
    laboratory.workload(7, *rows[:2], collocation="3g.20gb", gpu_instance=2)
    laboratory.workload(8, *rows)
    found = report_of(bench, "20", "-o", "heat.svg")
    assert [one["sharing"] for one in found["sets"]] == ["naive", "MPS", "3g.20gb", "naive"]
    on_instance = found["sets"][2]["members"][0]
    assert on_instance["slowdown"]["ratio"] == pytest.approx(1.5)
    assert on_instance["slowdown_on_instance"]["ratio"] == pytest.approx(30 / 21)
    assert on_instance["slowdown_on_instance"]["alone"] == {"collocation": "3g.20gb", "runs": ["20/4/1"]}
    assert found["file"] == "heat.svg"
    picture = (tmp_path / "heat.svg").read_text()
    assert all(words in picture for words in ("naive", "MPS", "3g.20gb", "wide + deep", "1.50x", "beside"))
    for suffix, head in ((".pdf", b"%PDF"), (".png", b"\x89PNG")):
        assert bench("interference", "20", "-o", f"heat{suffix}", "--style", "dark", "--title", "Two")[0] == 0
        assert (tmp_path / f"heat{suffix}").read_bytes().startswith(head)
    status, output, _ = bench("interference", "20")
    assert status == 0
    assert "beside, sharing: naive" in output


WRONG = [
    ("20 --metric step_tim", 2, "did you mean 'step_time'?"),
    ("20 -o a.html", 2, "a heat map is a file that ends in .svg, .png, .pdf; 'a.html' does not"),
    ("20 -o no/a.svg", 2, "there is no folder 'no' to write a.svg to"),
    ("20 -o a.svg --size big", 2, "--size is WIDTHxHEIGHT in inches"),
    ("20 -o a.svg --style papr", 2, "there is no style 'papr' (did you mean 'paper'?)"),
    ("23", 2, "existing experiments: 20"),
    ("20/1", 1, "20/1 has no collocated runs to compare"),
    ("20/4", 1, "20/4/1, 20/4/2 (20/4/2 failed after 3.0 s)"),
]


def test_errors_are_reported_and_nothing_written(laboratory: Laboratory, bench: Command, tmp_path: Path) -> None:
    for workload, name in enumerate(ALONE, 1):
        laboratory.workload(workload, (name, 2))
    laboratory.workload(4, ("narrow", 3), ("wide", 3), status="failed")
    laboratory.workload(5, ("narrow", 3), ("wide", 3))
    for words, status, message in WRONG:
        found, _, output = bench("interference", *words.split())
        assert (found, message in output) == (status, True), output
    assert not list(tmp_path.glob("*.*"))
