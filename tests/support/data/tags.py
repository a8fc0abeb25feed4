"""Check of each sample's tag and of each aggregate."""

from __future__ import annotations

from tests.support.home import Home
from tests.support.waiting import wait_for
from tests.support.world import LEVELS


def settled(home: Home, experiment: int) -> None:
    """Wait until the collector has written all samples of an experiment's runs."""
    wait_for(
        lambda: home.query(
            "select from runs r join workloads using (workload_id) where experiment_id = %s"
            " and r.started_at is not null having coalesce(bool_and(summarised), true) and not exists (select from retag_queue)",
            experiment,
        ),
        "the last sample",
    )


def no_sample_is_mistagged(home: Home) -> None:
    """Check every sample against the run sets."""
    query = "select metric, time, runset_id from samples join series using (series_id) where runset_id <> tag_at(place_id, time)"
    assert home.query(query) == []


def tags_are_true(home: Home, experiment: int) -> None:
    """Check every sample against the runs' intervals, and the aggregates against the samples."""
    no_sample_is_mistagged(home)
    for run in home.runs(experiment):
        [raw] = home.query("select count(*) as n from run_samples where run_id = %s", run["run_id"])
        assert raw["n"] > 0
        for relation in LEVELS:
            query = f"select sum(n)::int as n from {relation} join run_sets using (runset_id) where run_id = %s"
            assert home.query(query, run["run_id"]) == [raw], relation
        outside = home.query(
            "select count(*) as n from run_samples where run_id = %s"
            " and not (time >= to_timestamp(%s) and time < to_timestamp(%s))",
            run["run_id"], run["started"], run["ended"],
        )  # fmt: skip
        assert outside == [{"n": 0}]


def all_tags_are_true(home: Home) -> None:
    """Check every run after faults of schedulers, supervisors and collectors."""
    for one in home.query("select experiment_id from experiments"):
        settled(home, one["experiment_id"])
    no_sample_is_mistagged(home)
    for relation in LEVELS:
        differing = home.query(
            f"""
            with raw as (select run_id, count(*) as n from run_samples group by 1),
                 bucketed as (select run_id, sum(n) as n from {relation} join run_sets using (runset_id) group by 1)
            select * from raw full join bucketed using (run_id) where raw.n is distinct from bucketed.n
            """
        )
        assert differing == [], relation
