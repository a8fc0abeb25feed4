"""Target discovery: the targets file, the files that it names, and service discovery."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.collector.discovery.config_file import read_config
from hypergauge.collector.discovery.group_targets import read_groups, targets_of
from hypergauge.collector.discovery.scrape_config import Announced, ScrapeConfig, Service
from hypergauge.collector.discovery.service_discovery import AnnouncementSource, discover
from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.collector.http.fetch import Fetcher
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.core.config.document import Document
from hypergauge.core.errors import BadRequest, BenchError, Problems
from hypergauge.core.files.stamps import stamp_of

__all__ = ["Discovery", "check_targets", "read_targets"]

_log = logging.getLogger(__name__)

# Interval between checks for changed files, in seconds.
_LOOK_SECONDS = 1.0


def read_targets(path: Path, default_interval: float, notice: Callable[[str], None] = lambda _: None) -> list[Target]:
    """Return the targets in the file `path` and in the files that it names.

    Parameters
    ----------
    default_interval
        Seconds, if the file sets no interval.
    notice
        Callback for the ignored fields, if there are any.

    Raises
    ------
    BadRequest
        Files are unreadable or have errors; the message lists all with line and column.
    """
    lists, problems = [], Problems()
    for config in read_config(path, default_interval, notice):
        lists.append(_own(config))
        for file in (file for files in config.files for file in _paths(config, files.patterns, named=True)):
            with problems.attempt():
                lists.append(_of_file(config, file))
    problems.check()
    return list(_merged(lists))


def check_targets(path: Path, notice: Callable[[str], None] = lambda _: None) -> list[Target]:
    """Return the targets of the file `path`, or raise the errors of `read_targets`."""
    return read_targets(path, 1.0, notice)


@dataclass(slots=True)
class _Watched:
    """A file with its last valid content."""

    targets: list[Target] = field(default_factory=list)
    stamp: object = None
    read_at: float = float("-inf")


class Discovery:
    """Current targets of a targets file.

    If a file is broken or a service does not answer, discovery logs and counts the error and keeps the last valid
    targets.

    Parameters
    ----------
    path
        The targets file.
    announced
        Returns the announced exporters.

    Attributes
    ----------
    targets
        By key.

    Raises
    ------
    BadRequest
        A file has an error at the start.
    """

    def __init__(
        self,
        path: Path,
        default_interval: float,
        metrics: CollectorMetrics,
        announced: AnnouncementSource = tuple,
    ) -> None:
        self._path, self._interval, self._metrics = path, default_interval, metrics
        self._announced = announced
        self._stamp: object = None
        self._configs: tuple[ScrapeConfig, ...] = ()
        self._files: dict[tuple[str, Path], _Watched] = {}
        self._answers: dict[tuple[str, Service], list[Target]] = {}
        self._own: list[Target] = []
        self._refused: dict[object, str] = {}
        self.targets: dict[Key, Target] = {}
        self._look(strict=True)
        self._merge()

    async def run(self, fetcher: Fetcher) -> None:
        """Update the targets until cancelled."""
        queries: dict[tuple[str, Service], asyncio.Task[None]] = {}
        thread = ThreadPoolExecutor(1, "discovery")
        try:
            while True:
                wanted = {(config.job_name, one) for config in self._configs for one in config.services}
                for removed in queries.keys() - wanted:
                    queries.pop(removed).cancel()
                for key in wanted - queries.keys():
                    queries[key] = asyncio.create_task(self._query(fetcher, *key))
                await asyncio.sleep(_LOOK_SECONDS)
                # In a thread: reads may block on slow file systems.
                await asyncio.get_running_loop().run_in_executor(thread, self._look)
                self._merge()
        finally:
            for task in queries.values():
                task.cancel()
            thread.shutdown(wait=False, cancel_futures=True)

    def _look(self, *, strict: bool = False) -> None:
        """Read the changed files."""
        stamp = stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            with self._logged_errors(self._path, strict=strict):
                configs = read_config(self._path, self._interval)
                self._own = [target for config in configs for target in _own(config)]
                self._configs = configs
        self._read_files(strict=strict)

    def _read_files(self, *, strict: bool) -> None:
        wanted: dict[tuple[str, Path], tuple[ScrapeConfig, float]] = {
            (config.job_name, path): (config, files.refresh_interval)
            for config in self._configs
            for files in config.files
            for path in _paths(config, files.patterns)
        }
        watched = {key: self._files.get(key, _Watched()) for key in wanted}
        for (job, path), (config, refresh) in wanted.items():
            one = watched[job, path]
            stamp = (stamp_of(path), config)
            if stamp != one.stamp or time.monotonic() - one.read_at >= refresh:
                one.stamp, one.read_at = stamp, time.monotonic()
                with self._logged_errors((job, path), strict=strict):
                    one.targets = _of_file(config, path)
        self._files = watched

    async def _query(self, fetcher: Fetcher, job: str, service: Service) -> None:
        """Query a service periodically."""
        while True:
            with self._logged_errors((job, service)):
                [config] = [one for one in self._configs if one.job_name == job]
                self._answers[job, service] = await discover(service, config, fetcher, self._announced)
            self._merge()
            await asyncio.sleep(service.refresh_interval)

    @contextlib.contextmanager
    def _logged_errors(self, what: object, *, strict: bool = False) -> Iterator[None]:
        """Log an error once and count it each time, instead of raising it."""
        try:
            yield
        except BenchError as error:
            if strict:
                raise
            self._metrics.discovery_errors.inc()
            if self._refused.get(what) != str(error):
                _log.warning("%s (what it last held stays)", error)
            self._refused[what] = str(error)
        else:
            self._refused.pop(what, None)

    def _merge(self) -> None:
        answers = [
            (service, self._answers.get((one.job_name, service), []))
            for one in self._configs
            for service in one.services
        ]
        lists = [self._own, *(one.targets for one in self._files.values())]
        lists += [targets for service, targets in answers if not isinstance(service, Announced)]
        # Configured targets take precedence over announced ones: the file also has credentials and labels.
        written = {name for targets in lists for target in targets for name in _names(target)}
        lists += [
            [target for target in targets if written.isdisjoint(_names(target))]
            for service, targets in answers
            if isinstance(service, Announced)
        ]
        self.targets = {target.key: target for target in _merged(lists)}


def _names(target: Target) -> tuple[object, object]:
    """Return the two identities of an exporter: its host and name, and its address."""
    return (target.host, target.listener), target.url


def _merged(lists: Iterable[Sequence[Target]]) -> Iterator[Target]:
    """Yield all targets; of several with the same host, job and instance only the first."""
    seen: set[Key] = set()
    for targets in lists:
        for target in targets:
            if target.key not in seen:
                seen.add(target.key)
                yield target


def _own(config: ScrapeConfig) -> list[Target]:
    assert config.document is not None
    return targets_of(config, config.document, config.static)


def _of_file(config: ScrapeConfig, path: Path) -> list[Target]:
    document = Document.read(path)
    if document.content is None:
        raise BadRequest("holds no list of targets", file=path)
    return read_groups(config, document, {"__meta_filepath": str(path)})[1]


def _paths(config: ScrapeConfig, patterns: Iterable[str], *, named: bool = False) -> list[Path]:
    """Return the existing files; if `named`, also missing files that a pattern names without a wildcard."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        full = config.folder / pattern
        if named and not glob.has_magic(full.name):
            found[full] = None
        found |= dict.fromkeys(sorted(full.parent.glob(full.name)))
    return list(found)
