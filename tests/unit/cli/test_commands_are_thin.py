"""Thin commands: threads, loops, waits and decisions belong to the packages below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hypergauge.cli

CLI = Path(hypergauge.cli.__file__).parent
WAITS = {"sleep", "wait", "Thread", "Event", "Timer"}
# Statements of SQL, and changes to files, are work.
WORK = {
    "execute",
    "executemany",
    "rmtree",
    "unlink",
    "rmdir",
    "mkdir",
    "makedirs",
    "rename",
    "write_text",
    "write_bytes",
}
# McCabe's complexity of a command: its options' forms, and its forms of output.
MOST_PATHS = 7
# Branches of a function that computes a value for a command: its wording, not a decision.
MOST_BRANCHES = 3
# Errors end the command, with one message; a command may only name the file of a wrong request.
CAUGHT = {"KeyboardInterrupt", "BadRequest"}
FRAMEWORK = {"__init__.py", "catalog.py", "help.py"}

Branch = ast.If | ast.For | ast.While | ast.ExceptHandler | ast.match_case


def modules() -> list[Path]:
    return [path for path in sorted(CLI.rglob("*.py")) if "templates" not in path.parts]


def nodes(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of a module with its place."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield f"{path.name}:{getattr(node, 'lineno', 0)}", node


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for line, node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{line}: {node.name}", node


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def branches(function: ast.AST) -> int:
    """Count the branches of a function, those within its expressions too."""
    count = 0
    for node in ast.walk(function):
        count += isinstance(node, Branch | ast.IfExp)
        count += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    return count


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CLI)))
def test_a_command_has_no_thread_no_endless_loop_and_no_wait(path: Path) -> None:
    for line, node in nodes(path):
        assert not isinstance(node, ast.While), f"{line}: a loop that waits"
        if isinstance(node, ast.Import):
            assert "threading" not in {alias.name for alias in node.names}, line
        if isinstance(node, ast.Call):
            assert called(node) not in WAITS, f"{line}: {called(node)}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CLI)))
def test_a_command_has_few_paths(path: Path) -> None:
    for line, function in functions(path):
        paths = 1 + sum(isinstance(node, Branch) for node in ast.walk(function))
        assert paths <= MOST_PATHS, f"{line} has {paths} paths"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CLI)))
def test_a_command_computes_nothing(path: Path) -> None:
    for line, function in functions(path):
        if function.returns is not None and ast.unparse(function.returns) != "None":
            assert branches(function) <= MOST_BRANCHES, f"{line} has {branches(function)} branches"
    for line, node in nodes(path):
        if isinstance(node, ast.Call):
            assert called(node) not in WORK, f"{line}: {called(node)}"
        if path.name not in FRAMEWORK:
            assert not isinstance(node, ast.ClassDef), f"{line}: a class"
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, line
                assert ast.unparse(node.type) in CAUGHT, f"{line}: {ast.unparse(node.type)}"
