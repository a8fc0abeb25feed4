"""The ledger of GPUs, in each flavour: lanes, the runs on them, and each run's own part."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.core.errors import NoData
from hypergauge.insight.ledger.ledger import ledger
from hypergauge.insight.ledger.model import Block, Ledger
from hypergauge.insight.ledger.stack import stacked
from hypergauge.insight.sharing.collocation import interference
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World

GPU = "GPU-00000000-0000-4000-8000-000000000000"
LABELS = {"UUID": GPU, "gpu": "0"}


@pytest.fixture
def start() -> float:
    """The whole minute ten minutes ago."""
    return time.time() // 60 * 60 - 600


def measured(
    world: World, metric: str, start: float, seconds: int, value: float, labels: Mapping[str, str] = LABELS
) -> SpoolRecord:
    times = [start + second for second in range(1, seconds + 1)]
    return world.gauge(metric, times, [value] * seconds, labels, "nvml")


def share(world: World, run_id: str, start: float, seconds: int, value: float, **labels: str) -> SpoolRecord:
    own = {**LABELS, "run_id": run_id, **labels}
    return measured(world, "bench_gpu_run_sm_utilization_ratio", start, seconds, value, own)


def drawn(world: World, *metrics: str, selectors: tuple[str, ...] = ("20",)) -> Ledger:
    samples.summarise_ended_runs(world.connection, settled=0)
    world.refresh()
    return ledger(world.connection, select_runs(world.connection, selectors), metrics)


def by_run(found: Ledger) -> dict[str, Block]:
    return {block.placed.run: block for block in found.blocks}


def codes(found: Ledger) -> dict[str, list[str]]:
    return {one.code: one.runs for one in found.notices}


def query(world: World, statement: str, *parameters: object) -> list[Any]:
    """Query with the rights of dashboards."""
    with world.connection.transaction():
        world.connection.execute("set local role bench_reader")
        return world.connection.execute(statement.encode(), parameters).fetchall()


def test_runs_on_one_gpu_have_their_own_shares(world: World, start: float) -> None:
    first = world.run(start, start + 60, gpu=GPU, name="a")
    second = world.run(start + 30, start + 60, position=2, gpu=GPU, name="b")
    # The whole GPU is busier than both: its value belongs to neither.
    world.write(
        share(world, first, start, 60, 0.5), share(world, second, start + 30, 30, 0.25),
        measured(world, "bench_gpu_sm_active_ratio", start, 60, 0.9),
    )  # fmt: skip
    found = drawn(world)
    [lane] = found.lanes
    blocks = by_run(found)
    assert (found.measure, lane.name, lane.host) == ("sm", "GPU 0", "node1")
    assert (blocks["20/1/1"].placed.shared, blocks["20/1/2"].placed.shared) == (True, True)
    assert (blocks["20/1/1"].end - blocks["20/1/1"].start, blocks["20/1/2"].start) == (60, start + 30)
    assert blocks["20/1/1"].value == pytest.approx(0.5)
    assert blocks["20/1/2"].value == pytest.approx(0.25)
    assert all(block.own and block.quantity == "gpu_sm_utilization" for block in blocks.values())
    below, above = stacked(lane)
    assert (below.low.max(), below.high.max(), above.low.max(), above.high.max()) == pytest.approx((0, 0.5, 0.5, 0.75))
    assert (above.edges[0], above.edges[-1]) == (start + 30, start + 60)


def test_a_value_of_a_whole_shared_gpu_is_never_a_runs_own(world: World, start: float) -> None:
    world.run(start, start + 60, gpu=GPU)
    world.run(start + 30, start + 60, position=2, gpu=GPU)
    world.write(measured(world, "bench_gpu_sm_active_ratio", start, 60, 0.8))
    found = drawn(world)
    blocks = by_run(found)
    alone = blocks["20/1/1"].x < start + 28
    assert blocks["20/1/1"].value[alone] == pytest.approx(0.8)
    assert blocks["20/1/1"].value[-1] == pytest.approx(0.4)
    assert blocks["20/1/2"].value[1:] == pytest.approx(0.4)
    assert codes(found)["divided_evenly"] == ["20/1/1", "20/1/2"]


def test_mps_clients_have_even_parts_all_of_the_time(world: World, start: float) -> None:
    """A client has a utilization of its own only while it is the only one: here the first, for ten seconds."""
    first = world.run(start, start + 60, gpu=GPU, collocation="MPS")
    second = world.run(start, start + 60, position=2, gpu=GPU, collocation="MPS")
    energy = "bench_gpu_attributed_energy_joules_total"
    parts = [{**LABELS, "run_id": run_id, "method": "mps_clients"} for run_id in (first, second)]
    world.write(
        share(world, first, start, 10, 0.1), measured(world, "bench_gpu_sm_active_ratio", start, 60, 0.8),
        *(measured(world, energy, start, 60, 100.0, labels) for labels in parts),
    )  # fmt: skip
    for metrics, height in (((), 0.4), (("gpu_energy_attributed",), 100.0)):
        found = drawn(world, *metrics)
        assert all(block.value[1:] == pytest.approx(height) and not block.own for block in found.blocks)
        assert codes(found)["divided_evenly"] == ["20/1/1", "20/1/2"]


def test_an_instance_is_a_lane(world: World, start: float) -> None:
    for at, busy in ((1, 0.3), (2, 0.6)):
        instance = {**LABELS, "GPU_I_ID": str(at), "GPU_I_PROFILE": "3g.20gb"}
        world.run(start, start + 60, position=at, gpu=GPU, gpu_instance=at)
        world.write(measured(world, "bench_gpu_sm_active_ratio", start, 60, busy, instance))
    found = drawn(world)
    assert [lane.name for lane in found.lanes] == ["GPU 0 · 3g.20gb #1", "GPU 0 · 3g.20gb #2"]
    assert [lane.blocks[0].value.mean() for lane in found.lanes] == pytest.approx([0.3, 0.6])
    assert not any(block.placed.shared or not block.own for block in found.blocks)


def test_power_stands_on_idle_power(world: World, start: float) -> None:
    run_id = world.run(start, start + 60, gpu=GPU)
    own = {**LABELS, "run_id": run_id, "method": "sm_time"}
    world.write(
        measured(world, "bench_gpu_attributed_energy_joules_total", start, 60, 200.0, own),
        measured(world, "bench_gpu_idle_energy_joules_total", start, 60, 70.0),
        measured(world, "bench_gpu_power_watts", start, 60, 270.0),
    )
    found = drawn(world)
    [lane] = found.lanes
    assert found.measure == "power"
    idle, run = stacked(lane)
    assert (idle.block, run.block) == (None, lane.blocks[0])
    assert (run.low.max(), run.high.max()) == pytest.approx((70, 270))
    rows = query(
        world, "select distinct title, round(value) from ledger_chart(array[%s], 'power', to_timestamp(%s), to_timestamp(%s),"
        " 1000, array[%s]::integer[]) order by 1", run_id, start, start + 60, lane.place_id,
    )  # fmt: skip
    assert rows == [("20/1/1 train", 200), ("idle", 70)]


def test_a_crash_a_run_without_values_and_one_without_a_gpu(world: World, start: float) -> None:
    crashed = world.run(start, gpu=GPU)
    world.end(crashed, start, start + 20, "failed")
    world.run(start + 30, start + 40, position=2)
    spans = [SpanRecord("p1", None, "train", "phase", None, start + 5, start + 20, 1, "main")]
    store_spans(world.connection, crashed, spans)
    found = drawn(world)
    [block] = found.blocks
    assert (block.placed.early, block.quantity, len(block.x)) == (True, "", 0)
    assert [(mark.kind, mark.name, mark.at) for mark in block.marks] == [("phase", "train", start + 5)]
    assert codes(found) == {"without_gpu": ["20/1/2"], "without_own_values": ["20/1/1"], "ended_early": ["20/1/1"]}
    with pytest.raises(NoData):
        drawn(world, selectors=("20/1/2",))


def test_hatches_and_sentence_are_the_cost_of_sharing(world: World, start: float) -> None:
    def run(name: str, workload: int, position: int, at: float, seconds: float) -> None:
        world.run(at, at + seconds, workload=workload, position=position, gpu=GPU, name=name, command=f"{name}.py")

    run("a", 1, 1, start, 40)
    run("b", 2, 1, start + 60, 40)
    run("a", 3, 1, start + 120, 50)
    run("b", 3, 2, start + 120, 50)
    found = drawn(world)
    blocks = by_run(found)
    assert {label: round(block.lost, 6) for label, block in blocks.items()} == {
        "20/1/1": 0, "20/2/1": 0, "20/3/1": 10, "20/3/2": 10,
    }  # fmt: skip
    assert found.sentence.startswith("Pairing a and b saved 38% of the time")
    # Alone in the selection, a pair still has its cost, against the runs of its experiment.
    assert drawn(world, selectors=("20/3",)).sentence == found.sentence
    assert drawn(world, selectors=("20/1",)).sentence.endswith("in use for 100% of the time.")


def test_the_dashboard_has_a_line_for_each_run_at_a_time(world: World, start: float) -> None:
    ids = [
        world.run(start, start + 60, gpu=GPU, name="a"),
        world.run(start + 10, start + 30, position=2, gpu=GPU, name="b"),
        world.run(start + 30, start + 50, position=3, gpu=GPU, name="c"),
        world.run(start, start + 60, position=4),
    ]
    world.write(measured(world, "bench_gpu_info", start, 1, 1.0))
    runs = query(world, "select ledger_runs(to_timestamp(%s), now())", start)[0][0]
    assert sorted(runs) == sorted(ids[:3])
    assert query(world, "select ledger_runs(to_timestamp(%s), now(), array['other'])", start) == [([],)]
    assert query(world, "select ledger_runs(to_timestamp(%s), now(), null, array['21'])", start) == [([],)]
    rows = query(
        world, "select lane, title, extract(epoch from ended - time)::int from ledger_states(%s, to_timestamp(%s), now())",
        runs, start,
    )  # fmt: skip
    assert rows == [("GPU 0", "20/1/1 a", 60), ("same GPU 0", "20/1/2 b", 20), ("same GPU 0", "20/1/3 c", 20)]
    use = query(
        world, "select simulated, runs, lanes, busy, shared from ledger_use(%s, to_timestamp(%s), now())", runs, start
    )
    assert use == [(False, 3, 1, 1, pytest.approx(40 / 60))]
    assert query(world, "select * from ledger_sentence('{}', to_timestamp(%s), now())", start) == []
    assert query(world, "select lane from ledger_lanes(array['node1'])") == [("GPU 0",)]


def test_simulated_and_real_lanes_are_counted_apart(world: World, start: float) -> None:
    ids = [
        world.run(start, start + 60, gpu=GPU),
        world.run(start, start + 60, workload=2, gpu=GPU.replace("GPU-0", "GPU-1"), simulated=True),
    ]
    rows = query(world, "select simulated, runs, lanes from ledger_use(%s, to_timestamp(%s), now())", ids, start)
    assert rows == [(False, 1, 1), (True, 1, 1)]


def test_what_sharing_saved_is_that_of_the_interference(world: World, start: float) -> None:
    alone = [
        world.run(start, start + 100, gpu=GPU, name="a", command="a.py"),
        world.run(start + 100, start + 180, workload=2, gpu=GPU, name="b", command="b.py"),
    ]
    beside = [
        world.run(start + 200, start + 310, workload=3, gpu=GPU, name="a", command="a.py"),
        world.run(start + 200, start + 288, workload=3, position=2, gpu=GPU, name="b", command="b.py"),
    ]
    statement = "select names, together, mean, slower, missing from sharing_sets(%s)"
    assert query(world, statement, alone) == []
    assert query(world, statement, beside) == [(["a", "b"], [110], 180, ["a 10%", "b 10%"], None)]
    [one] = [one for one in interference(world.connection, ["20"]).sets if one.makespan is not None]
    assert one.makespan is not None
    assert (one.makespan.together, one.makespan.one_by_one) == (110, 180)
    [(sentence,)] = query(world, "select sharing_sentence(%s)", beside)
    assert {"39%", "10%,"} <= set(sentence.split())
    assert query(world, "select sharing_sentence(%s)", alone) == [(None,)]


def test_repetitions_have_the_verdict_of_the_interference(world: World, start: float) -> None:
    def run(name: str, workload: int, position: int, attempt: int, at: float, seconds: float) -> str:
        return world.run(
            at, at + seconds, workload=workload, position=position, attempt=attempt, gpu=GPU, name=name, command=name
        )

    ids = []
    for attempt, (alone_a, alone_b, together) in enumerate(
        ((40.0, 60.0, 70.0), (42.0, 61.0, 72.0), (41.0, 59.0, 71.0)), 1
    ):
        at = start - 2000 + 300 * attempt
        run("a", 1, 1, attempt, at, alone_a)
        run("b", 2, 1, attempt, at + 100, alone_b)
        ids += [run("a", 3, 1, attempt, at + 200, together), run("b", 3, 2, attempt, at + 200, together)]
    [one] = [one for one in interference(world.connection, ["20"]).sets if one.makespan is not None]
    assert one.makespan is not None
    mine = one.makespan.ratio
    [(ratio, low, high)] = query(world, "select ratio, low, high from sharing_sets(%s)", ids[:2])
    assert ratio == pytest.approx(mine.value)
    assert (low, high) == (pytest.approx(mine.low, rel=0.01), pytest.approx(mine.high, rel=0.01))
    assert one.verdict == "collocate"
    [(sentence,)] = query(world, "select sharing_sentence(%s)", ids[:2])
    assert "saved 30% of the time" in sentence
    slow = {member.name: member.slowdown.ratio.value for member in one.members if member.slowdown}
    costs = query(
        world, "select r.name, ratio, lost, alone from run_costs(%s) join runs r using (run_id) order by 1", ids[:2]
    )
    assert costs == [
        ("a", pytest.approx(slow["a"]), pytest.approx(1 - 1 / slow["a"]), ["20/1/1", "20/1/1@1", "20/1/1@2"]),
        ("b", pytest.approx(slow["b"]), pytest.approx(1 - 1 / slow["b"]), ["20/2/1", "20/2/1@1", "20/2/1@2"]),
    ]  # fmt: skip


def test_the_dashboard_has_a_tone_for_the_time_that_a_run_lost(world: World, start: float) -> None:
    world.run(start, start + 40, gpu=GPU, name="a", command="a.py")
    world.run(start + 60, start + 100, workload=2, gpu=GPU, name="b", command="b.py")
    slower = world.run(start + 120, start + 180, workload=3, gpu=GPU, name="a", command="a.py")
    faster = world.run(start + 120, start + 155, workload=3, position=2, gpu=GPU, name="b", command="b.py")
    running = world.run(start + 200, workload=4, gpu=GPU, name="c", command="c.py")
    world.write(share(world, slower, start + 120, 60, 0.5), share(world, faster, start + 120, 35, 0.2))
    states = (
        "select title, color = (select color from ledger_blocks(%s) b where b.run_id = s.run_id), lost,"
        " extract(epoch from time)::float8 - %s, extract(epoch from ended - time)::float8"
        " from ledger_states(%s, to_timestamp(%s), to_timestamp(%s)) s order by min(title) over (partition by run_id), time"
    )
    ids = [slower, faster, running]
    assert query(world, states, ids, start, ids, start, start + 220) == [
        ("20/3/1 a", True, False, 120, 40), ("lost 20.0 s", True, True, 160, 20), ("20/3/2 b", True, False, 120, 35),
        ("20/4/1 c", True, False, 200, 20),
    ]  # fmt: skip
    # Where the range ends, so does the block.
    assert query(world, states, [slower], start, [slower], start + 130, start + 170) == [
        ("20/3/1 a", True, False, 130, 30), ("lost 20.0 s", True, True, 160, 10),
    ]  # fmt: skip
    [lane] = query(world, "select distinct place_id from ledger_blocks(%s)", [slower])
    tones = query(
        world, "select title, tone, count(distinct color), extract(epoch from min(time))::float8 - %s, round(max(value)::numeric, 1)"
        " from ledger_chart(%s, 'sm', to_timestamp(%s), to_timestamp(%s), 1000, %s) group by 1, 2 order by 1",
        start, ids, start, start + 220, list(lane),
    )  # fmt: skip
    assert [(title, tone, colors, float(value)) for title, tone, colors, _, value in tones] == [
        ("20/3/1 a", "", 1, 0.5), ("20/3/1 a: time lost", "lost", 1, 0.5), ("20/3/2 b", "", 1, 0.2),
    ]  # fmt: skip
    assert [at for *_, at, _ in tones] == pytest.approx([120, 160, 120], abs=1.1)


def test_a_set_without_runs_alone_names_them(world: World, start: float) -> None:
    beside = [
        world.run(start, start + 60, gpu=GPU, name="a", command="a.py"),
        world.run(start, start + 60, position=2, gpu=GPU, name="b", command="b.py"),
    ]
    world.run(start + 100, start + 160, workload=2, gpu=GPU, name="a", command="a.py")
    assert query(world, "select mean, missing from sharing_sets(%s)", beside) == [(None, "b never ran alone there")]
    [(sentence,)] = query(world, "select sharing_sentence(%s)", beside)
    assert "b never ran alone" in sentence


@pytest.mark.parametrize("how", ["running", "crowded"])
def test_a_set_that_does_not_count_has_no_cost(world: World, start: float, how: str) -> None:
    world.run(start, start + 60, workload=2, gpu=GPU, name="a", command="a.py")
    beside = [
        world.run(start + 100, None if how == "running" else start + 160, gpu=GPU, name="a", command="a.py"),
        world.run(start + 100, start + 160, position=2, gpu=GPU, name="a", command="a.py"),
    ]
    if how == "crowded":
        world.run(start + 120, start + 140, workload=3, gpu=GPU, name="a", command="a.py")
    assert query(world, "select * from sharing_sets(%s)", beside) == []
    assert query(world, "select sharing_sentence(%s) is not null", beside) == [(True,)]
