"""Assignment of shared targets to several collectors.

Each computes it for itself, by rendezvous hashing: a host's targets are that collector's whose name, hashed together with
the host's, is the highest. They stay together, since one of them tells how far the host's clock is off. So all agree as soon as they know of each other, with nothing to configure and nobody to decide; one
that ends leaves its targets to all others alike, one that comes gets some of each, and no other target moves.
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
    """Return the one of `sources` that the targets of `host` are for."""
    return max(sources, key=lambda source: (_hashed(source, host), source))


class Assignment:
    """One collector's share of the targets that it is given, among all that are given the same.

    Those with other targets, as while a changed file comes to one after the other, are no peers: whatever is given to
    anybody is somebody's. That no target is two collectors' is the leases' affair.

    Parameters
    ----------
    source
        The spool's: what tells the collector from others, also after it was started again.
    lease
        Seconds that it may be silent and still have its share.
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
        """Return this collector's share of `targets`.

        Parameters
        ----------
        renew
            Whether to say that it lives; where its targets have changed it does anyway.
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
        """Say that this collector has ended."""
        leave_collectors(connection, self._me.source)


def _hashed(*words: str) -> bytes:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest()
