"""Which targets are this collector's: taken hold of in the database, so that no other one scrapes them as well."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Mapping

import psycopg

from bench.errors import BenchError
from collector.metrics import CollectorMetrics
from collector.targets import Key, Target
from sql.database import Connection, Database
from sql.targets import (
    Holder,
    TargetRow,
    TargetState,
    claim_targets,
    holders,
    release_targets,
    report_targets,
)

__all__ = ["Leases", "TargetsTaken"]

_log = logging.getLogger(__name__)

# After how many seconds targets of another collector are asked for again.
_AGAIN_SECONDS = 5.0
# Between two reports of all targets, which renew their leases: several fit into one lease.
_RENEW_SECONDS = 4.0


class TargetsTaken(BenchError):
    """Another collector scrapes these targets."""


class Leases:
    """The targets that this collector has, and what the database is told of them. Not for several threads at once.

    Parameters
    ----------
    source
        The spool's: the same collector, killed and started again, goes on at once.

    Attributes
    ----------
    held
        Targets by their ids in the database.
    """

    def __init__(self, database: Database, source: str, metrics: CollectorMetrics) -> None:
        self._database, self._source, self._metrics = database, source, metrics
        self._connection: Connection | None = None
        self._taken: dict[Key, Target] = {}
        self._asked_again = float("-inf")
        self._renewed = float("-inf")
        self._reported: dict[int, bool | None] = {}
        self._away = False
        self.held: dict[int, Target] = {}

    def claim(self, targets: Mapping[Key, Target], *, strict: bool = False) -> None:
        """Take hold of `targets`, and let go of all others.

        Parameters
        ----------
        strict
            Whether to refuse where one is another collector's. Else it is left to that one, and asked for again.

        Raises
        ------
        TargetsTaken
            One of them is, and `strict` is set.
        DatabaseUnavailable, psycopg.Error
            The database does not answer.
        """
        connection = self._connected()
        ids = {target.key: target_id for target_id, target in self.held.items()}
        # A target whose address changed is claimed anew: the row says where it is.
        fresh = [one for one in targets.values() if one.key not in ids or self.held[ids[one.key]].url != one.url]
        if time.monotonic() - self._asked_again < _AGAIN_SECONDS:
            fresh = [one for one in fresh if one.key not in self._taken]
        else:
            self._asked_again = time.monotonic()
        claimed = self._claimed(connection, fresh)
        missing = [one for one in fresh if one.key not in claimed]
        if missing and strict:
            message = _who(missing, holders(connection, [_row(one) for one in missing]))
            release_targets(connection, self._source)
            raise TargetsTaken(message)
        self._leave_to_others(connection, missing)
        self._taken = {key: one for key, one in self._taken.items() if key in targets and key not in claimed}
        ids |= claimed
        if gone := [target_id for key, target_id in ids.items() if key not in targets]:
            release_targets(connection, self._source, gone)
        self.held = {ids[key]: target for key, target in targets.items() if key in ids and key not in self._taken}
        self._metrics.targets.labels("taken").set(len(self._taken))

    def keep(self, targets: Mapping[Key, Target], states: Mapping[int, TargetState]) -> None:
        """Report how targets are, renew what is held, and claim what is not; nothing where the database is away."""
        try:
            connection = self._connected()
            lost = self._report(connection, states)
            missing = [target for target_id, target in self.held.items() if target_id in lost]
            self.held = {target_id: target for target_id, target in self.held.items() if target_id not in lost}
            self._leave_to_others(connection, missing)
            self.claim(targets)
            self._away = False
        except (BenchError, psycopg.Error) as error:
            if not self._away:
                _log.warning("targets cannot be reported: %s", error)
            self._away = True
            self._renewed = float("-inf")
            self.close()

    def release(self, states: Mapping[int, TargetState]) -> None:
        """Report how targets are, and let go of all, so that another collector may have them at once."""
        self._renewed = float("-inf")
        try:
            self._report(self._connected(), states)
            release_targets(self._connected(), self._source)
        except (BenchError, psycopg.Error) as error:
            _log.warning("targets stay this collector's for some seconds: %s", error)
        self.close()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect()
        return self._connection

    def _report(self, connection: Connection, states: Mapping[int, TargetState]) -> set[int]:
        """Report what has changed, and all every few seconds; return which are another collector's by now."""
        known = {target_id: states.get(target_id, TargetState()) for target_id in self.held}
        if time.monotonic() - self._renewed >= _RENEW_SECONDS:
            reported, self._renewed = known, time.monotonic()
        else:
            reported = {one: state for one, state in known.items() if state.up != self._reported.get(one)}
        if not reported:
            return set()
        self._reported |= {one: state.up for one, state in reported.items()}
        return set(report_targets(connection, reported, self._source))

    def _claimed(self, connection: Connection, targets: list[Target]) -> dict[Key, int]:
        if not targets:
            return {}
        rows = [_row(one) for one in targets]
        ids = claim_targets(connection, self._source, socket.gethostname(), os.getpid(), rows)
        return {target.key: found for target, found in zip(targets, ids, strict=True) if found is not None}

    def _leave_to_others(self, connection: Connection, targets: list[Target]) -> None:
        new = [one for one in targets if one.key not in self._taken]
        found = holders(connection, [_row(one) for one in new]) if new else {}
        measured = [one for one in new if one.key in found and found[one.key].of_the_site]
        for one in measured:
            _log.info("%s is left to the site's collector on %s, which measures it", one.url, found[one.key].host)
        if taken := [one for one in new if one not in measured]:
            _log.error("%s", _who(taken, found))
        self._taken |= {one.key: one for one in new}


def _row(target: Target) -> TargetRow:
    return TargetRow(target.host, target.listener, target.instance, target.url)


def _who(targets: Iterable[Target], found: Mapping[Key, Holder]) -> str:
    """Return who has the targets, and what can be done about it."""
    wanted = list(targets)
    first = wanted[0]
    others = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    if (holder := found.get(first.key)) is None:
        return f"{first.url}{others} was another collector's until now; it is asked for again"
    return (
        f"{first.url}{others} is scraped by the collector with pid {holder.pid} on {holder.host}; each sample would be "
        f"there twice. Stop that one, or give this one other targets or --shard; if that one is gone, its hold ends in "
        f"{holder.seconds:.0f} s"
    )
