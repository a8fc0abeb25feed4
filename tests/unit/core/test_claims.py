"""What one process of a host may use at a time."""

from __future__ import annotations

import os

from hypergauge.core.files.host_lock import HostLock


def test_a_claim_is_one_processs_and_goes_with_it() -> None:
    name = f"test/{os.getpid()}"
    with HostLock(name) as claim:
        assert claim.take()
        assert not HostLock(name).take()
        if (child := os.fork()) == 0:
            os._exit(int(HostLock(name).take()))
        assert os.waitpid(child, 0)[1] == 0
    with HostLock(name) as claim:
        assert claim.take()
