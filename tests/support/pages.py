"""Pages of the documentation as tests: the blocks of a page, run as a reader runs them, in order and in one shell.

* ``sh``, ``python`` and ``sql`` blocks run; each must succeed.
* A ``text`` block after one of them is its output. Numbers may differ, and lines be left out, as ``…`` shows.
* ``<!--- demo --->`` is the demo's experiment, which the reader has.
* ``<!--- slurm --->`` is a Slurm cluster, with the servers that its nodes reach; the reader of the page has it.
* ``<!--- store --->`` is an S3 store with the bucket ``runs``; the reader's shell has its address and its keys.
* ``<!--- skip: next "REASON" --->`` leaves out the next block, ``skip: start`` and ``skip: end`` several;
  ``<!--- skip: next if(missing("PROGRAM"), "REASON") --->`` does so where a program is not installed.
* A process that a block starts with ``&`` runs until the page ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import SkipTest

import psycopg
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, RawFencedCodeBlockLexer

from tests.support.home import Home
from tests.support.waiting import HUNG_SECONDS, wait_for

__all__ = ["Reader", "run_page"]

_FENCE = RawFencedCodeBlockLexer(re.compile(r"(?P<language>\w*)[^\n]*\n"))
_DEMO = DirectiveInHTMLCommentLexer("demo")
# A shell keeps its folder and its variables from one block to the next.
_SHELL = """
trap 'pwd > {state}/folder; export -p > {state}/variables' EXIT
[ ! -e {state}/variables ] || . {state}/variables
[ ! -e {state}/folder ] || cd "$(cat {state}/folder)"
"""


@dataclass
class Reader:
    """A reader of one page, with a home of their own.

    Attributes
    ----------
    demo
        Capsule of the demo's experiment.
    output
        What the last block wrote.
    """

    home: Home
    demo: Path
    output: str = ""
    _groups: list[int] = field(default_factory=list)

    @property
    def _state(self) -> Path:
        return self.home.path.with_name("shell")

    def shell(self, source: str) -> None:
        """Run a block in the shell."""
        self._state.mkdir(exist_ok=True)
        prelude = _SHELL.format(state=shlex.quote(str(self._state)))
        self._run(["bash", "-euo", "pipefail", "-c", prelude + source], source)

    def python(self, source: str) -> None:
        """Run a block as a script, in the shell's folder."""
        script = self._state.with_name("block.py")
        script.write_text(source)
        self.shell(f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")

    def sql(self, source: str) -> None:
        """Run a block in the database; its output is the columns' names and the rows."""
        with psycopg.connect(self.home.dsn, options="-csearch_path=bench,public") as connection:
            cursor = connection.execute(source.encode())
            lines = [
                [column.name for column in cursor.description or ()],
                *(cursor.fetchall() if cursor.description else []),
            ]
        self.output = "\n".join(" | ".join("" if value is None else str(value) for value in line) for line in lines)

    def import_demo(self) -> None:
        """Have the demo's experiment."""
        self.home.bench("import", self.demo)

    def end(self) -> None:
        """Stop what the page has started."""
        for group in self._groups:
            _end_group(group)
        self.home.end()
        self.home.bench("down")

    def _run(self, words: list[str], source: str) -> None:
        # A file instead of a pipe, whose end would wait for the processes in the background.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                words, cwd=self.home.folder, env=self.home.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self._groups.append(process.pid)
            status = process.wait(HUNG_SECONDS)
            if _has_ended(process.pid):
                self._groups.remove(process.pid)
            output.seek(0)
            self.output = output.read()
        if status:
            raise AssertionError(f"{source}\nended with status {status}:\n{self.output}")


def _end_group(group: int) -> None:
    """Stop the processes that a block has left in the background."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
    wait_for(lambda: _has_ended(group), f"the end of the processes of group {group}")


def _has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def run_page(page: Path, reader: Reader) -> int:
    """Run the blocks of a page; return how many ran."""
    blocks = {"sh": reader.shell, "python": reader.python, "sql": reader.sql}
    ran = 0

    def evaluate(example: Example) -> str | None:
        nonlocal ran
        language, source = example.parsed
        if language == "demo":
            reader.import_demo()
        elif language == "text" and (missing := missing_line(source, reader.output)) is not None:
            return f"the output lacks {missing!r}:\n{reader.output}"
        elif language in blocks:
            blocks[language](source)
            ran += 1
        return None

    def parse(document: Document) -> Iterator[Region]:
        for region in [*_FENCE(document), *_DEMO(document)]:
            language = region.lexemes.get("language") or region.lexemes.get("directive")
            region.parsed, region.evaluator = (language, str(region.lexemes["source"])), evaluate
            yield region

    document = Sybil([parse, SkipParser()]).parse(page)
    path = reader.home.environment["PATH"]
    document.namespace["missing"] = lambda program: shutil.which(program, path=path) is None
    for example in document.examples():
        with contextlib.suppress(SkipTest):  # of this block, not of the page
            example.evaluate()
    return ran


def missing_line(shown: str, output: str) -> str | None:
    """Return the first shown line that the output lacks after the lines before it; numbers may differ."""
    lines = iter(output.splitlines())
    for line in shown.splitlines():
        if line.strip() not in ("", "…") and not any(_pattern(line).search(one) for one in lines):
            return line
    return None


# A duration; one of seconds, "2.8 s", may be one of milliseconds, "652 ms", or on a busy machine one of minutes, "1:02".
_DURATION = re.compile(r"[\d.]+ s(?=\s|$)")
_SOME_DURATION = "<duration>"


def _pattern(line: str) -> re.Pattern[str]:
    words = [word for word in _DURATION.sub(_SOME_DURATION, line).split() if not set(word) <= set("─━-+|│=")]
    return re.compile(r"[\s─━|│+=-]+".join(map(_word, words)))


def _word(word: str) -> str:
    if word == _SOME_DURATION:
        return r"(?:\S+ m?s|\d+(?::\d\d)+)"
    return r"\S+" if re.search(r"\d", word) else re.escape(word)
