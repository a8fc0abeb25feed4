"""Docker images as environments: one container per run."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

from hypergauge.scheduler.environments.base import RunEnvironment
from hypergauge.scheduler.environments.containers import Container, Mount

__all__ = ["DockerEnvironment"]

_ANSWER_SECONDS = 30.0


class DockerEnvironment(RunEnvironment):
    """Docker image on this host.

    Parameters
    ----------
    image
        Name or id of the image.
    python
        Command of the interpreter in the image.
    mounts
        Mounts besides those that every run needs.
    """

    def __init__(self, image: str, python: str = "python", mounts: tuple[Mount, ...] = ()) -> None:
        self._image, self._python, self._mounts = image, python, mounts
        self.container = Container(shutil.which("docker") or "docker", image, mounts)

    def problem(self) -> str | None:
        """See `RunEnvironment.problem`."""
        program = shutil.which("docker")
        if program is None:
            return "docker is not installed: it is not on PATH"
        missing = next((mount.source for mount in self._mounts if not mount.source.exists()), None)
        if missing:
            return f"{missing} is to be mounted, but does not exist"
        return _image_problem(program, self._image)

    def python(self) -> str:
        """See `RunEnvironment.python`."""
        return self._python


@cache
def _image_problem(program: str, image: str) -> str | None:
    try:
        done = subprocess.run(
            [program, "image", "inspect", "--format", "{{.Id}}", image],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_ANSWER_SECONDS, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"docker's daemon does not answer within {_ANSWER_SECONDS:.0f} s"
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    if done.returncode == 0:
        return None
    message = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    if "no such image" in message.lower():
        return f"there is no image {image!r} on this host; `docker pull {image}` fetches it"
    return f"docker cannot be used: {message}"
