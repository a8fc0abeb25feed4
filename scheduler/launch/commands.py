"""Commands of rows: a script, an MLflow project, or a model through an environment's entry point."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import string
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from hypergauge.core.config.bench_toml import CONFIG_FILE
from hypergauge.core.config.environments import NamedEnvironment, named_environments
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.environments import (
    CondaEnvironment,
    DockerEnvironment,
    Interpreter,
    RunEnvironment,
    VirtualEnvironment,
)
from hypergauge.scheduler.environments.base import in_front_of_path
from hypergauge.scheduler.environments.containers import Mount
from hypergauge.scheduler.experiment import parameters, user_file
from hypergauge.scheduler.experiment.cells import Environment
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.launch.launch import Command

__all__ = ["command_in", "command_of", "command_problems", "environment_of", "make_environments"]

_PLACEHOLDERS = ("python", "model", "data", "params", "name")
# The kernel's limit of one argument with its final 0 (MAX_ARG_STRLEN); pointers of all count towards that of their sum.
_LONGEST_ARGUMENT, _POINTER = 32 * os.sysconf("SC_PAGE_SIZE"), 8
# Room for the interpreter, the script, and the variables that a run gets in addition.
_ROOM = 64 << 10
# A project's command with one of these characters needs a shell. Without them the supervisor starts the run directly.
_SHELL = frozenset("|&;<>$`(){}*?[]~#!=\\\n")


def environment_of(file: ExperimentFile, row: Row) -> RunEnvironment:
    """Return the environment of a row."""
    return _chosen(row.environment, file.candidates, file.path.absolute().parent, _data_mounts(row))


def command_in(chosen: Environment, words: Sequence[str], notify: Callable[[str], None]) -> Command:
    """Return a command as typed, in an environment; create the environment if it is missing.

    A first word ``python`` is the interpreter of the environment. Paths count from the working directory.

    Raises
    ------
    BadRequest
        The environment cannot be used or created.
    """
    environment, section = (
        _chosen(chosen, lambda value: [Path(value).expanduser().absolute()], Path.cwd()),
        _section(chosen),
    )
    if problem := _environment_problem(chosen, environment, section):
        raise BadRequest(problem)
    _make(environment, notify)
    python = environment.python()
    of_python = re.fullmatch(r"python[0-9.]*", words[0]) is not None
    script = Path(words[1]) if of_python and len(words) > 1 and words[1].endswith(".py") else None
    return Command(
        (python, *words[1:]) if of_python else tuple(words),
        _directory(section),
        {**environment.variables(), **(section.variables if section else {})},
        python=python if of_python else None,
        container=environment.container,
        folders=_folders(script) if script is not None and script.is_file() else (),
        shown=parameters.shown(words),
    )


def command_of(file: ExperimentFile, row: Row) -> Command:
    """Return the command of a row without problems."""
    environment, section = environment_of(file, row), _section(row.environment)
    python, directory = environment.python(), _directory(section)
    variables = {**environment.variables(), **(section.variables if section else {})}
    public = shlex.split(parameters.shown(row.params))
    folders: tuple[Path, ...] = ()
    if row.model is not None:
        words = _entry_words(section, row, python, row.params)
        shown = _entry_words(section, row, python, public)
    elif (script := file.script(row)) is not None:
        words, folders = [python, str(script), *row.params], _folders(script)
        shown = [python, row.script or "", *row.params]  # as written in the file, not the resolved path
    else:
        project = file.project(row)
        assert project is not None
        directory = project.resolve()
        words, shown = _project_words(project, row.params), _project_words(project, public)
        if environment.container is None:  # its command begins with `python`
            variables.setdefault("PATH", in_front_of_path(Path(python).parent))
    return Command(
        tuple(words),
        directory,
        variables,
        python=python,
        container=environment.container,
        folders=folders,
        shown=parameters.shown([Path(shown[0]).name, *shown[1:]]),
    )


def command_problems(file: ExperimentFile, row: Row) -> Iterator[tuple[str, str]]:
    """Yield column and message of each error in a row's command and environment."""
    environment, section = environment_of(file, row), _section(row.environment)
    wanted = row.model is not None and row.environment.kind == "named" and section is None
    # The model's message covers both.
    if not wanted and (problem := _environment_problem(row.environment, environment, section)):
        yield "Environment", problem
    if row.model:
        if message := _entry_problem(section, row, environment):
            yield "Model", message
    elif file.script(row) is None:
        yield from _no_script(file, row)
    if row.script and row.data:
        yield "Data", "data is for a model's entry point, but this row has a script: use Params"
    if section and not _directory(section).is_dir():
        yield "Environment", f"{section.file}: [environments.{section.name}]: there is no folder {_directory(section)}"
    if "Params" in row.cells and (message := _length_problem(file, row, section)):
        yield "Params", message


def _length_problem(file: ExperimentFile, row: Row, section: NamedEnvironment | None) -> str | None:
    """Return the reason why the kernel would not start the command because of its length."""
    words = list(row.params)
    with contextlib.suppress(BadRequest, ValueError, LookupError, AssertionError):  # named by another message
        if row.model is not None:
            words = _entry_words(section, row, "python", row.params)
        elif file.script(row) is None and (project := file.project(row)) is not None:
            words = _project_words(project, row.params)
    sizes = [len(os.fsencode(word)) + 1 for word in words]
    remedy = "write it to a file, and pass the file's name"
    if max(sizes, default=0) > _LONGEST_ARGUMENT:
        word = words[sizes.index(max(sizes))]
        return (
            f"the argument {word[:20]!r}… has {max(sizes) - 1:,} bytes; the kernel passes at most {_LONGEST_ARGUMENT - 1:,} to "
            f"a program: {remedy}"
        )
    environment = sum(len(os.fsencode(f"{name}={value}")) + 1 + _POINTER for name, value in os.environ.items())
    total = sum(sizes) + len(sizes) * _POINTER + environment + _ROOM
    if total > os.sysconf("SC_ARG_MAX"):
        return (
            f"the arguments have {sum(sizes):,} bytes; with the environment the kernel passes at most "
            f"{os.sysconf('SC_ARG_MAX'):,} to a program: {remedy}"
        )
    return None


def make_environments(file: ExperimentFile, rows: Iterable[Row], notify: Callable[[str], None]) -> None:
    """Create the missing environments of rows that are about to run.

    Raises
    ------
    BadExperimentFile
        An environment cannot be created; the message ends with the last lines of the output.
    """
    for row in rows:
        try:
            _make(environment_of(file, row), notify)
        except BadRequest as error:
            cell = row.cells["Environment"]
            raise BadExperimentFile(file.path, [Problem(cell.line, cell.column, f"Environment: {error}")]) from error


def _make(environment: RunEnvironment, notify: Callable[[str], None]) -> None:
    if (what := environment.to_make()) is not None:
        notify(f"Making {what} …")
        began = time.monotonic()
        environment.make()
        notify(f"Made in {time.monotonic() - began:.0f} s.")


def _chosen(
    chosen: Environment, candidates: Callable[[str], Sequence[Path]], folder: Path, data: tuple[Mount, ...] = ()
) -> RunEnvironment:
    """Return an environment; `candidates` are the paths that a name may mean, `folder` that of an ``environment.yml``."""
    match chosen.kind:
        case "self":
            return Interpreter()
        case "venv":
            return VirtualEnvironment(candidates(chosen.value))
        case "docker":
            return DockerEnvironment(chosen.value, mounts=data)
    section = _section(chosen)
    return _named(section, data) if section else CondaEnvironment(chosen.value, folder)


def _environment_problem(
    chosen: Environment, environment: RunEnvironment, section: NamedEnvironment | None
) -> str | None:
    problem = environment.problem()
    if problem and chosen.kind == "named" and not section:
        known = named_environments()
        hint = did_you_mean(chosen.value, known) if known else ""
        return f"{CONFIG_FILE} has no section [environments.{chosen.value}]{hint}, and {problem}"
    return problem


def _section(chosen: Environment) -> NamedEnvironment | None:
    return named_environments().get(chosen.value) if chosen.kind == "named" else None


def _named(section: NamedEnvironment, data: tuple[Mount, ...]) -> RunEnvironment:
    folder = section.folder
    if section.docker is not None:
        mounts = tuple(Mount.parse(text, folder) for text in section.mounts)
        return DockerEnvironment(section.docker, section.python or "python", (*data, *mounts))
    if section.conda is not None:
        return CondaEnvironment(section.conda, folder)
    if section.venv is not None:
        return VirtualEnvironment([folder / Path(section.venv).expanduser()])
    return Interpreter(None if section.python is None else folder / Path(section.python).expanduser())


def _folders(script: Path) -> tuple[Path, ...]:
    """Return the resolved folder of a script, and its folder as written: containers do not see links of the host."""
    as_written = Path(os.path.abspath(script))  # noqa: PTH100 - resolving would follow links
    return tuple(dict.fromkeys((script.resolve().parent, as_written.parent)))


def _directory(section: NamedEnvironment | None) -> Path:
    if section is None or section.directory is None:
        return Path.cwd()
    return (section.folder / Path(section.directory).expanduser()).resolve()


def _data_mounts(row: Row) -> tuple[Mount, ...]:
    """Return the mount of the row's data if they are files of this host."""
    path = Path(row.data)
    return (Mount(path, read_only=True),) if path.is_absolute() and path.exists() else ()


def _entry_words(section: NamedEnvironment | None, row: Row, python: str, params: Sequence[str]) -> list[str]:
    """Fill in an entry point; append the parameters if the template has no ``{params}``."""
    assert section is not None
    assert section.entry_point is not None
    values = {"python": python, "model": row.model or "", "data": row.data, "name": row.name}
    words: list[str] = []
    template = shlex.split(section.entry_point)
    for word in template:
        words += params if word == "{params}" else [word.format(**values, params=shlex.join(params))]
    return words if "{params}" in section.entry_point else [*words, *params]


def _entry_problem(section: NamedEnvironment | None, row: Row, environment: RunEnvironment) -> str | None:
    if section is None or section.entry_point is None:
        name = row.environment.value if row.environment.kind == "named" else "NAME"
        where = f"entry_point in the section [environments.{name}] of {CONFIG_FILE}"
        bare = "" if row.environment.kind == "named" else ", and write that NAME as the row's Environment"
        return f"a model needs an entry point: define {where}{bare}"
    what = f"{section.file}: [environments.{section.name}]: entry_point"
    try:
        template = shlex.split(section.entry_point)
        names = [name for word in template for _, name, _, _ in string.Formatter().parse(word) if name is not None]
    except ValueError as error:
        return f"{what} cannot be read: {error}"
    if unknown := next((name for name in names if name not in _PLACEHOLDERS), None):
        return f"{what} has an unknown placeholder {{{unknown}}}{did_you_mean(unknown, _PLACEHOLDERS)}"
    if not template:
        return f"{what} is empty"
    if environment.container is None:
        directory = _directory(section)
        for word in template:
            if word.endswith(".py") and "{" not in word and not (directory / word).is_file():
                return f"{what}: the script {word!r} does not exist in {directory}{user_file.nearest_file(word, directory)}"
        if "{" not in template[0] and "/" not in template[0] and shutil.which(template[0]) is None:
            return f"{what}: there is no program {template[0]!r} in PATH"
    return None


def _project_words(project: Path, params: Sequence[str]) -> list[str]:
    from hypergauge.scheduler.launch.mlflow_project import project_command  # MLflow takes 1 s of CPU to import

    command = project_command(project, _project_params(params))
    return ["bash", "-c", command] if _SHELL.intersection(command) else shlex.split(command)


def _project_params(params: Sequence[str]) -> dict[str, str]:
    """Parse a project's parameters from ``--name value`` and ``--name=value``."""
    found: dict[str, str] = {}
    rest = list(params)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--") or not name.strip("-"):
            raise BadRequest(f"{word!r} is not a parameter of a project: write name=value")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise BadRequest(f"the parameter {name!r} of a project has no value")
            value = rest.pop(0)
        found[name.removeprefix("--")] = value
    return found


def _no_script(file: ExperimentFile, row: Row) -> Iterator[tuple[str, str]]:
    word = row.script or ""
    if (project := file.project(row)) is not None:
        try:
            _project_words(project, row.params)
        except BadRequest as error:
            yield "Params" if "Params" in row.cells else "File", str(error)
        return
    candidates = file.candidates(word)
    if any(path.is_dir() for path in candidates):
        yield "File", f"the script {word!r} is a folder, and has no file MLproject"
        return
    where = " or beside the experiment file in ".join(str(path.parent) for path in candidates)
    hints = (user_file.nearest_file(path.name, path.parent) for path in candidates)
    yield "File", f"the script {word!r} does not exist in {where}{next(filter(None, hints), '')}"
