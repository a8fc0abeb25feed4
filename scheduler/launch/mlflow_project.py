"""Command of an MLflow project, as MLflow computes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hypergauge.core.errors import BadRequest

__all__ = ["project_command"]


def project_command(folder: Path, params: Mapping[str, str]) -> str:
    """Return the shell command of the entry point ``main`` of the MLflow project in `folder`.

    Raises
    ------
    BadRequest
        MLflow cannot read the project, or refuses its entry point or the parameters.
    """
    from mlflow.exceptions import ExecutionException, MlflowException
    from mlflow.projects._project_spec import load_project
    from yaml import YAMLError

    try:
        # Without a storage folder MLflow passes remote paths unchanged instead of downloading them.
        return str(load_project(str(folder)).get_entry_point("main").compute_command(dict(params), None))
    except (ExecutionException, MlflowException) as error:
        raise BadRequest(f"{folder}: {str(error).splitlines()[0]}") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, YAMLError) as error:
        raise BadRequest(f"{folder}: MLflow cannot read the project: {error!r}") from error
