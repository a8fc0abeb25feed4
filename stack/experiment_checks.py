"""Checks of an experiment file with everything that it may name: GPUs, exporters, rules, actions, batch systems."""

from __future__ import annotations

from pathlib import Path

from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.config.settings import Settings
from hypergauge.exporters.serving.registry import Registry
from hypergauge.gpu import inventory
from hypergauge.insight.rules.chosen import ChosenRules
from hypergauge.scheduler.executors.base import BatchSystem
from hypergauge.scheduler.executors.batch import checks as batch_checks
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.stack.services.local_stack import availability

__all__ = ["checked_file", "reactions"]


def checked_file(settings: Settings, path: Path, policy: Policy, system: BatchSystem | None) -> ExperimentFile:
    """Read an experiment file, and check that this host or the batch system can run it.

    Raises
    ------
    BadRequest
        The file has errors, or names something that does not exist.
    """
    if system is not None:
        return batch_checks.load(path, settings, system, policy, list(Registry.load()), reactions())
    return checks.load(path, inventory(settings.simulate, settings.home), availability(settings), reactions())


def reactions() -> Reactions:
    """Return the rules and actions that rows may name, from ``bench.toml``.

    Raises
    ------
    BadRequest
        The settings or the file of a rule have errors.
    """
    chosen = ChosenRules.read(config_file())
    return Reactions([one.rule.name for one in chosen.enabled], chosen.off, chosen.settings.action_names())
