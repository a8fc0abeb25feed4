"""Assignment of shared targets to several collectors.

Each collector computes the assignment by rendezvous hashing. A host's targets belong to the collector with the highest hash of
its name and the host's. They stay together, since one of them shows the host's clock offset. Collectors
agree as soon as they know of each other, without configuration or a coordinator. The targets of a collector that ends
move to all others evenly. A new collector receives some from each, and no other target moves.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Mapping

from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.core.config.settings import LEASE_SECONDS
from hypergauge.sql.ingest.collectors import Peer, leave_collectors, live_collectors, renew_collector
from hypergauge.sql.server.database import Connection

__all__ = ["Assignment", "winner"]


def winner(host: str, sources: Iterable[str]) -> str:
    """Return the member of `sources` that the targets of `host` are assigned to."""
    return max(sources, key=lambda source: (_hashed(source, host), source))


class Assignment:
    """One collector's part of the targets, among all collectors with the same targets.

    Collectors with different targets are not peers, for instance while a changed file reaches one after the other. Each
    target is thus assigned to at least one collector. The leases ensure that it is at most one.

    Parameters
    ----------
    source
        The spool's identity, which a restart of the collector keeps.
    lease
        Seconds after which a silent collector loses its part.
    """

    def __init__(self, source: str, lease: float = LEASE_SECONDS) -> None:
        self._lease = lease
        self._me = Peer(source, socket.gethostname(), os.getpid())
        self._digest = ""
        self._keys: frozenset[Key] = frozenset()
        self._sources: set[str] = set()
        self._mine: frozenset[Key] = frozenset()
        self.peers: list[Peer] = []

    def of(self, connection: Connection, targets: Mapping[Key, Target], *, renew: bool) -> Mapping[Key, Target]:
        """Return this collector's part of `targets`.

        Parameters
        ----------
        renew
            Whether to renew the collector's own lease; a change of its targets renews it anyway.
        """
        if changed := targets.keys() != self._keys or not self._digest:
            self._keys = frozenset(targets)
            self._digest = _hashed(*(word for key in sorted(self._keys) for word in key)).hex()
        if changed or renew:
            renew_collector(connection, self._me, self._digest, self._lease)
        self.peers = live_collectors(connection, self._digest)
        sources = {self._me.source, *(peer.source for peer in self.peers)}
        if changed or sources != self._sources:
            self._sources = sources
            winners = {host: winner(host, sources) for host in {host for host, *_ in self._keys}}
            self._mine = frozenset(key for key in self._keys if winners[key[0]] == self._me.source)
        return {key: target for key, target in targets.items() if key in self._mine}

    def leave(self, connection: Connection) -> None:
        """Withdraw this collector."""
        leave_collectors(connection, self._me.source)


def _hashed(*words: str) -> bytes:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest()
