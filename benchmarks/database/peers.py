"""Bytes per sample of Prometheus and VictoriaMetrics, with the day of real runs that `storage` stores.

Each line of a response is a sample with the labels ``job`` and ``instance``, at the time of its scrape. Prometheus is represented by
``promtool``, which writes the blocks of a server after compaction. VictoriaMetrics imports the lines and merges its parts. Both are
measured by the sizes of their files, index included, and where the program is on the ``PATH``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.support import replay
from hypergauge.core.errors import BadRequest
from hypergauge.core.services import free_port
from hypergauge.core.system.polling import wait_until

__all__ = ["measure"]

_LINE = re.compile(rb"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: (-?\d+))?$")
_PROMTOOL, _VICTORIA = "promtool", "victoria-metrics"
_BATCH = 200_000  # lines of a request
_START_SECONDS, _MERGE_SECONDS = 30, 600


def measure() -> dict[str, float | str]:
    """Return the samples, and the bytes per sample of each program that is installed.

    Raises
    ------
    BadRequest
        None is.
    """
    found = [name for name in (_PROMTOOL, _VICTORIA) if shutil.which(name)]
    if not found:
        raise BadRequest(f"neither {_PROMTOOL} (of Prometheus) nor {_VICTORIA} is on the PATH")
    results: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        lines = Path(folder) / "lines"
        with lines.open("wb") as file:
            samples = 0
            for line in _lines():
                file.write(line)
                samples += 1
            file.write(b"# EOF\n")
        results["samples"] = float(samples)
        if _PROMTOOL in found:
            results["prometheus"] = _prometheus(lines, Path(folder) / "blocks") / samples
        if _VICTORIA in found:
            results["victoria_metrics"] = _victoria_metrics(lines, Path(folder) / "victoria") / samples
    return results


def _lines() -> Iterator[bytes]:
    """Yield the samples as lines of OpenMetrics, with times in seconds."""
    for exporter, responses in replay.by_exporter(replay.laid_out("day")).items():
        added = b'job="%s",instance="node1"' % exporter.encode()
        for at, text in responses:
            for line in text.splitlines():
                if (parts := _LINE.match(line)) is not None:
                    name, labels, value, given = parts.groups()
                    moment = int(given) / 1000 if given else at
                    yield b"%s{%s} %s %.3f\n" % (name, b",".join(filter(None, (added, labels))), value, moment)


def _prometheus(lines: Path, blocks: Path) -> int:
    subprocess.run(
        [_PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", lines, blocks], check=True, stdout=subprocess.DEVNULL
    )
    return _size(blocks)


def _victoria_metrics(lines: Path, folder: Path) -> int:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [_VICTORIA, f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            if not wait_until(lambda: _answers(address), _START_SECONDS):
                raise BadRequest(f"{_VICTORIA} did not answer within {_START_SECONDS} s")
            with lines.open("rb") as file:
                rest = _in_milliseconds(file)
                while some := b"".join(islice(rest, _BATCH)):
                    _ask(f"{address}/api/v1/import/prometheus", some)
            _ask(f"{address}/internal/force_flush")
            _ask(f"{address}/internal/force_merge")
            # Its caches are no samples.
            sizes = [0]

            def is_settled() -> bool:
                sizes.append(_size(folder / "data") + _size(folder / "indexdb"))
                return sizes[-1] == sizes[-2] and _is_merged(address)

            if not wait_until(is_settled, _MERGE_SECONDS, pause=5):
                raise BadRequest(f"{_VICTORIA} still merges after {_MERGE_SECONDS} s")
            return sizes[-1]
        finally:
            server.terminate()


def _in_milliseconds(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        rest, _, moment = line.rpartition(b" ")
        if not line.startswith(b"#"):
            yield b"%s %d\n" % (rest, round(float(moment) * 1000))


def _answers(address: str) -> bool:
    try:
        _ask(f"{address}/health")
    except OSError:
        return False
    return True


def _is_merged(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        return not re.search(rb"^vm_active_merges\S* [1-9]", answer.read(), flags=re.MULTILINE)


def _ask(url: str, body: bytes | None = None) -> None:
    with urllib.request.urlopen(url, data=body):
        pass


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
