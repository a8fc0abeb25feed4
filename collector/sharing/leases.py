"""Leases on targets in the database, so that one collector scrapes each target."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import psycopg

from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.assignment import Assignment
from hypergauge.collector.sharing.choices import needed
from hypergauge.collector.sharing.peers import PeersTargets
from hypergauge.core.errors import BenchError
from hypergauge.sql.ingest.catalog import catalog_kinds, packaged_kinds
from hypergauge.sql.ingest.choices import HostChoices, follow_choices, host_choices
from hypergauge.sql.ingest.target_errors import report_errors
from hypergauge.sql.ingest.targets import (
    Holder,
    TargetState,
    claim_targets,
    held_since,
    holders,
    release_targets,
    report_targets,
)
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.session import PASSING

__all__ = ["Leases"]

_log = logging.getLogger(__name__)


class Leases:
    """Leases of this collector on its targets, and their reports to the database. Not thread-safe.

    Parameters
    ----------
    source
        The spool's identity: a collector that is killed and restarted keeps its leases.
    shared
        Whether the collector shares targets with other collectors that have the same ones.
    memory
        File with the targets of other collectors, for the time without the database; ``None`` for no file.
    exporters
        Names of the exporters that runs choose from, see `needed`.

    Attributes
    ----------
    held
        Targets by their ids in the database; by negative numbers while the database has given none.
    held_since
        Unix seconds since when no other collector has held a target, by its id.
    kinds
        Kinds of the catalog's metrics: those of the package, until the database answers first.
    """

    def __init__(
        self,
        database: Database,
        source: str,
        metrics: CollectorMetrics,
        *,
        shared: bool = False,
        memory: Path | None = None,
        exporters: Collection[str] = (),
    ) -> None:
        self._database, self._source, self._metrics = database, source, metrics
        self._lease = database.settings.lease
        self._assignment = Assignment(source, database.settings.lease) if shared else None
        self._connection: Connection | None = None
        self._taken: dict[Key, Target] = {}
        self._leaving: set[int] = set()
        self._renewed = float("-inf")
        self._reported: dict[int, tuple[bool | None, str]] = {}
        self._away = self._answered = False
        self._peers = PeersTargets(memory)
        self._provisional: dict[Key, int] = {}  # the collector's own negative ids, until the database answers
        self._confirmed: dict[int, tuple[float | None, tuple[str, ...]]] = {}
        self.held: dict[int, Target] = {}
        self.held_since: dict[int, float] = {}
        self.kinds = dict(packaged_kinds())
        self._choices: HostChoices = {}
        self._exporters = exporters

    def begin(self, targets: Mapping[Key, Target]) -> None:
        """Claim `targets`; without the database, take the targets that no other collector is known to have.

        Raises
        ------
        BenchError, psycopg.Error
            The database is available, but the claim fails.
        """
        if not (away := "" if self._database.opened else self._database.open_or_wait()):
            try:
                self.claim(targets)
            except PASSING as error:
                away = str(error)
                self.close()
        if away:
            self._begin_provisional(targets)
            left = len(targets) - len(self.held)
            _log.warning(
                "%s; %d targets are scraped%s",
                away,
                len(self.held),
                f", {left} belong to other collectors" if left else "",
            )

    def _begin_provisional(self, targets: Mapping[Key, Target]) -> None:
        for key in targets:
            if key not in self._provisional and not self._peers.may_have(key):
                self._provisional[key] = -len(self._provisional) - 1
        self.held = {self._provisional[key]: target for key, target in targets.items() if key in self._provisional}

    def claim(self, targets: Mapping[Key, Target]) -> None:
        """Claim this collector's part of `targets`, and no others.

        A target of another collector stays there until that collector releases it. The caller stops the
        scrapes of targets that are no longer in `held`, and then calls `let_go`.

        Raises
        ------
        DatabaseUnavailable, psycopg.Error
            The database does not answer.
        """
        connection = self._connected()
        if self._assignment is not None:
            targets = self._assignment.of(connection, targets, renew=self._due)
        ids = {target.key: target_id for target_id, target in self.held.items() if target_id > 0}
        # A target with a new address is claimed again: its row has the address and the source of its host name.
        fresh = [one for one in targets.values() if one.key not in ids or self.held[ids[one.key]].row != one.row]
        if self._taken:
            kept = holders(connection, [one.row for one in self._taken.values()])
            fresh = [one for one in fresh if one.key not in kept]
        claimed = self._claimed(connection, fresh)
        self._mark_taken(connection, [one for one in fresh if one.key not in claimed])
        self._taken = {key: one for key, one in self._taken.items() if key in targets and key not in claimed}
        if claimed:
            self.held_since |= held_since(connection, list(claimed.values()))
        ids |= claimed
        self._leaving |= {target_id for key, target_id in ids.items() if key not in targets}
        self.held = {ids[key]: target for key, target in targets.items() if key in ids and key not in self._taken}
        self._choices = host_choices(connection)
        self._provisional = {}
        if not self._answered:
            self.kinds |= catalog_kinds(connection)
        self._answered = True
        self._metrics.targets.labels("taken").set(len(self._taken))
        peers = self._assignment.peers if self._assignment is not None else []
        self._peers.store(self._taken, shared=any(peer.source != self._source for peer in peers))

    @property
    def needed(self) -> dict[int, Target]:
        """Return the held targets to scrape now, with their intervals, by the choices of the runs."""
        return needed(self.held, self._choices, self._exporters)

    def confirm(self, scraped: Mapping[int, Target]) -> None:
        """Record which choices the collector follows, since schedulers wait for it before they release runs.

        Parameters
        ----------
        scraped
            The targets that are scraped, see `needed`.
        """
        self._metrics.targets.labels("paused").set(len(self.held) - len(scraped))
        runs = {host: tuple(sorted(choices)) for host, choices in self._choices.items()}
        found = {
            target_id: (_changed_interval(target, scraped.get(target_id)), runs.get(target.host, ()))
            for target_id, target in self.held.items()
            if target_id > 0
        }
        changed = {one: choice for one, choice in found.items() if self._confirmed.get(one) != choice}
        if not changed:
            return
        try:
            intervals = {one: interval for one, (interval, _) in changed.items()}
            follow_choices(self._connected(), self._source, intervals, [ids for _, ids in changed.values()])
        except (BenchError, psycopg.Error):
            return  # the next report records it
        self._confirmed = found

    def let_go(self) -> None:
        """Release the targets that are no longer held; the caller no longer scrapes them."""
        if released := self._leaving - self.held.keys():
            try:
                release_targets(self._connected(), self._source, sorted(released))
            except (BenchError, psycopg.Error):
                return  # the lease expires by itself
        self._leaving = set()

    def keep(self, targets: Mapping[Key, Target], states: Mapping[int, TargetState]) -> None:
        """Report target states, renew the held leases, and claim the others; do nothing without the database."""
        try:
            connection = self._connected()
            lost = self._report(connection, states)
            missing = [target for target_id, target in self.held.items() if target_id in lost]
            self.held = {target_id: target for target_id, target in self.held.items() if target_id not in lost}
            self._mark_taken(connection, missing)
            self.claim(targets)
            if self._due:
                self._renewed = time.monotonic()
            self._away, self._metrics.reported_at = False, time.monotonic()
        except (BenchError, psycopg.Error) as error:
            if not self._away:
                _log.warning("targets cannot be reported: %s", error)
            self._away = True
            self._renewed = float("-inf")
            self.close()
            if not self._answered:
                self._begin_provisional(targets)

    def release(self, states: Mapping[int, TargetState]) -> None:
        """Report target states and release all targets, so that another collector can claim them at once."""
        self._renewed = float("-inf")
        try:
            connection = self._connected()
            self._report(connection, states)
            if self._assignment is not None:
                self._assignment.leave(connection)
            release_targets(connection, self._source)
        except (BenchError, psycopg.Error) as error:
            _log.warning("targets cannot be released, their leases expire by themselves: %s", error)
        self.close()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _due(self) -> bool:
        """Return whether to renew the leases on targets and the collector's own; they expire together."""
        return time.monotonic() - self._renewed >= self._lease / 3

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            if not self._database.opened:  # first contact with the database, which may be empty
                self._database.open()
            self._connection = self._database.connect()
        return self._connection

    def _report(self, connection: Connection, states: Mapping[int, TargetState]) -> set[int]:
        """Report changed states, and all states every few seconds; return the targets that another collector has."""
        known = {target_id: states.get(target_id, TargetState()) for target_id in self.held if target_id > 0}
        changed = {one: state for one, state in known.items() if (state.up, state.error) != self._reported.get(one)}
        reported = known if self._due else changed
        if not reported:
            return set()
        self._reported |= {one: (state.up, state.error) for one, state in reported.items()}
        report_errors(connection, {one: state.error for one, state in reported.items()}, self._source)
        return set(report_targets(connection, reported, self._source, self._lease))

    def _claimed(self, connection: Connection, targets: list[Target]) -> dict[Key, int]:
        if not targets:
            return {}
        rows = [one.row for one in targets]
        ids = claim_targets(connection, self._source, socket.gethostname(), os.getpid(), rows, self._lease)
        return {target.key: found for target, found in zip(targets, ids, strict=True) if found is not None}

    def _mark_taken(self, connection: Connection, targets: list[Target]) -> None:
        new = [one for one in targets if one.key not in self._taken]
        found = holders(connection, [one.row for one in new]) if new else {}
        self._taken |= {one.key: one for one in new}
        peers = {(peer.host, peer.pid) for peer in self._assignment.peers} if self._assignment is not None else set()
        astray = []
        for one in new:
            holder = found.get(one.key)
            if holder is not None and holder.of_the_site:
                _log.info("%s is scraped by the site's collector on %s", one.url, holder.host)
            elif holder is None or (holder.host, holder.pid) not in peers:  # a peer releases it within a second
                astray.append(one)
        if astray:
            _log.warning("%s", _conflict(astray, found))


def _changed_interval(held: Target, scraped: Target | None) -> float | None:
    """Return the seconds between scrapes, 0 without scrapes; ``None`` if they are those of the configuration."""
    if scraped is None:
        return 0.0
    return None if scraped.interval == held.interval else scraped.interval


def _conflict(targets: Iterable[Target], found: Mapping[Key, Holder]) -> str:
    """Return a message about the collector that has the targets, with a remedy."""
    wanted = list(targets)
    first = wanted[0]
    others = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    if (holder := found.get(first.key)) is None:
        return f"{first.url}{others} was another collector's until now; this collector claims it again"
    return (
        f"{first.url}{others} is scraped by the collector with pid {holder.pid} on {holder.host}. Give both collectors the "
        f"same targets to share them. If that collector has ended, its lease expires in {holder.seconds:.0f} s"
    )
