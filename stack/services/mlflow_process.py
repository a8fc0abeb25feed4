"""MLflow's server as one process, which loads MLflow while the database starts.

``mlflow server`` runs uvicorn in a second process, and both load MLflow: three seconds and 150 MiB each. Here uvicorn
runs in the process of the command. The store's address is the first line of the standard input.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["main"]


def main(words: Sequence[str]) -> None:
    """Run ``mlflow server`` with the arguments `words` on the store that the standard input names."""
    gc.disable()  # a fifth of the time, as modules stay
    import mlflow.cli
    import mlflow.server.fastapi_app

    gc.freeze()
    gc.enable()
    store = sys.stdin.readline().strip()
    if not store:
        raise SystemExit("the command that started MLflow ended before its database was ready")
    in_new_process = mlflow.server._exec_cmd

    def run(command: Sequence[str], extra_env: Mapping[str, str] | None = None, **options: Any) -> object:
        """Run the command by which MLflow starts its web server, in this process if it is uvicorn's."""
        if list(command[1:3]) != ["-m", "uvicorn"]:
            return in_new_process(command, extra_env=extra_env, **options)
        from uvicorn.main import main as serve

        os.environ.update(extra_env or {})
        return serve(command[3:])

    mlflow.server._exec_cmd = run
    mlflow.cli.cli(["server", *words, "--backend-store-uri", store])


if __name__ == "__main__":
    main(sys.argv[1:])
