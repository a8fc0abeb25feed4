"""Summary metrics in MLflow, and their names."""

from __future__ import annotations

import pytest

from hypergauge.scheduler.tracking.summary_metrics import is_summary_metric, summary_metrics
from hypergauge.sql.queries.summaries import Summary


def of(quantity: str, scope: str, mean: float | None = 2.0, total: float | None = 9.0) -> Summary:
    return Summary("r", quantity, "", scope, 3, 3.0, mean, 1.0, 4.0, None, None, total, 3.0)


def test_a_runs_own_metrics() -> None:
    found = summary_metrics(
        [
            of("cpu_usage", "process"),
            of("memory_used", "process"),
            of("gpu_utilization", "instance"),
            of("gpu_energy_attributed", "process"),
            of("threads", "process"),
        ],
        simulated=False,
    )
    assert found == {
        "system/cpu_usage_mean": 2.0, "system/cpu_usage_max": 4.0, "system/cpu_time_total": 9.0,
        "system/memory_used_mean": 2.0, "system/memory_used_max": 4.0,
        "system/gpu_utilization_mean": 2.0, "system/gpu_utilization_max": 4.0,
        "system/gpu_energy_total": 9.0,
    }  # fmt: skip
    assert all(is_summary_metric(name) for name in found)


def test_a_hosts_metrics_are_not_the_runs() -> None:
    assert summary_metrics([of("cpu_usage", "host"), of("memory_used", "host")], simulated=False) == {}
    assert summary_metrics([of("cpu_usage", "process"), of("cpu_usage", "host", 7.0)], simulated=False) == {
        "system/cpu_usage_mean": 2.0, "system/cpu_usage_max": 4.0, "system/cpu_time_total": 9.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "simulated", "name"),
    [
        ("device", False, "system/shared_gpu_power_mean"),
        ("instance", True, "system/simulated_gpu_power_mean"),
        ("device", True, "system/simulated_shared_gpu_power_mean"),
    ],
)
def test_a_name_shows_what_is_not_the_runs_own_or_not_real(scope: str, simulated: bool, name: str) -> None:
    found = summary_metrics([of("gpu_power", scope), of("cpu_usage", "process")], simulated=simulated)
    assert found[name] == 2.0
    assert "system/cpu_usage_mean" in found
    assert all(is_summary_metric(one) for one in found)


def test_a_missing_metric_is_left_out() -> None:
    assert summary_metrics([of("gpu_energy_attributed", "process", total=None)], simulated=False) == {}
    found = summary_metrics([of("cpu_usage", "process", mean=float("nan"), total=None)], simulated=False)
    assert found == {"system/cpu_usage_max": 4.0}


@pytest.mark.parametrize(
    "name", ["system/cpu_utilization_percentage", "system/gpu_0_power_usage_watts", "cpu_usage_mean"]
)
def test_others_metrics_are_theirs(name: str) -> None:
    assert not is_summary_metric(name)
