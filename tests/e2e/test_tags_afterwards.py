"""After all that the other tests did to schedulers, supervisors and collectors, every sample has its right tag."""

from __future__ import annotations

from tests.e2e.home import Home
from tests.e2e.test_ground_truth import LEVELS, no_sample_is_mistagged, settled


def test_no_sample_is_mistagged_and_no_count_differs(home: Home) -> None:
    for one in home.ask("select experiment_id from experiments"):
        settled(home, one["experiment_id"])
    no_sample_is_mistagged(home)
    for relation in LEVELS:
        differing = home.ask(
            f"""
            with raw as (select run_id, count(*) as n from run_samples group by 1),
                 bucketed as (select run_id, sum(n) as n from {relation} join run_sets using (runset_id) group by 1)
            select * from raw full join bucketed using (run_id) where raw.n is distinct from bucketed.n
            """
        )
        assert differing == [], relation
