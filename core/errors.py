"""Tree of errors. A class docstring is the default message; the command line turns errors into exit statuses."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypergauge.core.pages import Page

__all__ = [
    "BadRequest",
    "BenchError",
    "DatabaseUnavailable",
    "ExporterUnavailable",
    "GpuUnavailable",
    "GrafanaUnavailable",
    "NoData",
    "Problems",
    "ScheduleEnded",
    "ServiceFailed",
    "TrackingUnavailable",
    "did_you_mean",
    "nearest",
]


class BenchError(Exception):
    """Something went wrong.

    Parameters
    ----------
    message
        The error; by default the first line of the class docstring.
    page
        Page of the documentation that helps; by default that of the class, if it has one. The message names it.
    """

    exit_status = 1
    page: Page | None = None

    def __init__(self, message: str | None = None, *, page: Page | None = None) -> None:
        text = message or (type(self).__doc__ or "").partition("\n")[0]
        if page is not None:
            self.page = page
        super().__init__(self.page.after(text) if self.page else text)


class BadRequest(BenchError):
    """The request itself is wrong.

    Parameters
    ----------
    message
        The error and, if there is one, the nearest valid choice.
    file, line, column
        Position in the form of editors and compilers: ``file:line:column``. Lines and columns count from 1.
    page
        See `BenchError`.

    Attributes
    ----------
    parts
        Errors that this one combines; the error itself if it combines none.
    """

    exit_status = 2

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        page: Page | None = None,
    ) -> None:
        self.file, self.line, self.column = file, line, column
        self.parts: list[BadRequest] = [self]
        where = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message, page=page)


class Problems:
    """Errors of one request, raised together."""

    def __init__(self) -> None:
        self.found: list[BadRequest] = []

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Collect an error of the block instead of raising it."""
        try:
            yield
        except BadRequest as error:
            self.found += error.parts

    def check(self) -> None:
        """Raise the errors as one, with a line each, sorted by file and line.

        Raises
        ------
        BadRequest
            There are errors.
        """
        if not self.found:
            return
        first, *others = ordered = sorted(self.found, key=lambda one: (str(one.file), one.line or 0, one.column or 0))
        if not others:
            raise first
        error = BadRequest("\n".join(str(one) for one in ordered))
        error.file, error.line, error.column, error.parts = first.file, first.line, first.column, ordered
        raise error


class NoData(BenchError):
    """There is nothing to show."""


class DatabaseUnavailable(BenchError):
    """The database does not answer."""


class ScheduleEnded(BenchError):
    """The schedule was asked to end."""


class ServiceFailed(BenchError):
    """A service of the local stack did not come up."""


class ExporterUnavailable(BenchError):
    """This exporter cannot work on this host."""


class GpuUnavailable(BenchError):
    """A GPU, or a part of it, is not available as requested."""


class GrafanaUnavailable(BenchError):
    """Grafana does not answer."""

    page = Page.GRAFANA


class TrackingUnavailable(BenchError):
    """The MLflow tracking server does not answer."""


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the choice nearest to `word`, ``None`` if none is near.

    Case is ignored, since users type ``mps`` for ``MPS``. `cutoff` is the least similarity, as in `difflib`.
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[near[0]] if near else None


def did_you_mean(word: str, choices: Iterable[str], otherwise: str | None = None) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest choice; if none is near, `otherwise`, or all choices."""
    known = list(choices)
    if (near := nearest(word, known, 0.5)) is not None:
        return f" (did you mean {near!r}?)"
    if otherwise is not None:
        return otherwise
    return f" (one of: {', '.join(known)})" if known else ""
