"""What a run's interpreter and packages come from: one class for each kind of the column ``Environment``."""

from scheduler.environments.base import RunEnvironment
from scheduler.environments.conda import CondaEnvironment
from scheduler.environments.docker import DockerEnvironment
from scheduler.environments.interpreters import Interpreter, VirtualEnvironment

__all__ = ["CondaEnvironment", "DockerEnvironment", "Interpreter", "RunEnvironment", "VirtualEnvironment"]
