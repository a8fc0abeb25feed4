"""Collector in its own process, and its metrics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.services import free_port
from tests.support.servers.certificates import Site
from tests.support.waiting import HUNG_SECONDS, wait_for

COMMAND = [sys.executable, "-P", "-m", "hypergauge.cli", "collector"]


@dataclass
class Collecting:
    """Context that runs a collector with its own home."""

    dsn: str
    home: Path
    targets: Path
    options: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    web: Site | None = None
    """Authority of its server certificate; clients need the certificate ``client``."""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)

    def start(self) -> subprocess.Popen[bytes]:
        others = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        words = ["run", "--targets", str(self.targets), "--port", str(self.port), *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *words],
                env={**others, "BENCH_HOME": str(self.home), "BENCH_DSN": self.dsn},
                stdout=log, stderr=log, cwd=self.home,
            )  # fmt: skip
        return self.process

    def __enter__(self) -> Collecting:
        self.start()
        wait_for(self.answers, "the collector's metrics")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def log(self) -> Path:
        return self.home / "collector.txt"

    def output(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        """Stop the collector gracefully."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HUNG_SECONDS) == 0, self.output()

    def answers(self) -> bool:
        assert self.process.poll() is None, self.output()
        try:
            self.exposition()
        except OSError:
            return False
        return True

    def exposition(self) -> str:
        context = self.web.client_context("client") if self.web is not None else None
        scheme = "http" if self.web is None else "https"
        with urllib.request.urlopen(
            f"{scheme}://127.0.0.1:{self.port}/metrics", timeout=HUNG_SECONDS, context=context
        ) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> Counter[str]:
        """Return one of the collector's own metrics by the value of its label; the key is empty without a label."""
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(self.exposition()):
            for sample in family.samples:
                if sample.name == f"bench_collector_{name}":
                    found[next(iter(sample.labels.values()), "")] = int(sample.value)
        return found

    def peak_memory(self) -> int:
        """Return the collector's peak memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        return int(match[1]) * 1024


def group(address: str, **labels: Any) -> dict[str, Any]:
    """Return a group of one target in file_sd form."""
    return {"targets": [address], "labels": {name: str(value) for name, value in labels.items()}}
