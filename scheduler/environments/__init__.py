"""Environments of runs: one class for each kind of the column ``Environment``."""

from hypergauge.scheduler.environments.base import RunEnvironment
from hypergauge.scheduler.environments.conda import CondaEnvironment
from hypergauge.scheduler.environments.docker import DockerEnvironment
from hypergauge.scheduler.environments.interpreters import Interpreter, VirtualEnvironment

__all__ = ["CondaEnvironment", "DockerEnvironment", "Interpreter", "RunEnvironment", "VirtualEnvironment"]
