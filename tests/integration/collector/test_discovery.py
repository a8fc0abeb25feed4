"""Targets that appear and disappear in files and over HTTP; a broken list costs nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hypergauge.collector.discovery.discovery import Discovery, read_targets
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.core.errors import BadRequest
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting, group
from tests.support.exporters.misbehaving import BadExporters
from tests.support.waiting import wait_for


class Service(ThreadingHTTPServer):
    """Service discovery that answers authenticated requests with `content`."""

    content = b"[]"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Service)
        body = self.server.content
        self.send_response(200 if self.headers.get("Authorization") == "Bearer hunter2" else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_targets_appear_and_disappear(dsn: str, new_folder: NewFolder, tmp_path: Path, service: Service) -> None:
    with BadExporters() as bad:

        def good(name: str, **labels: str) -> dict[str, Any]:
            return group(f"127.0.0.1:{bad.port}", __metrics_path__=f"/good/{name}", instance=name, **labels)

        def is_scraped(name: str) -> bool:
            before = bad.requests[f"/good/{name}"]
            wait_for(lambda: bad.requests[f"/good/{name}"] > before + 1, f"scrapes of {name}")
            return True

        def silent(name: str) -> bool:
            return collector.metric("targets")["up"] == len(up) and name not in up

        service.content = json.dumps([good("web", __meta_kind="x")]).encode()
        (tmp_path / "nodes.json").write_text(json.dumps([good("file")]))
        main = tmp_path / "prometheus.yml"
        text = f"""
scrape_configs:
  - job_name: found
    scrape_interval: 500ms
    static_configs: [{json.dumps(good("own"))}]
    file_sd_configs: [{{files: ["*.json"]}}]
    http_sd_configs: [{{url: "http://127.0.0.1:{service.server_port}/sd", refresh_interval: 500ms, bearer_token: hunter2}}]
    relabel_configs: [{{source_labels: [__meta_kind], target_label: kind}}]
"""
        main.write_text(text)
        with Collecting(dsn, new_folder() / "found", main) as collector:
            assert all(is_scraped(name) for name in ("own", "file", "web"))

            # A broken list of each kind: what it last held stays.
            (tmp_path / "nodes.json").write_text('[{"targets": ["a:1"')
            wait_for(lambda: "nodes.json:1:" in collector.output(), "the file's error")
            service.content = b"<html>"
            wait_for(lambda: "/sd: does not answer with JSON" in collector.output(), "the service's error")
            main.write_text(text.replace("http_sd_configs", "htp_sd_configs"))
            wait_for(lambda: "did you mean 'http_sd_configs'?" in collector.output(), "the configuration's error")
            assert all(is_scraped(name) for name in ("own", "file", "web"))
            assert collector.metric("discovery_errors_total")[""] >= 3

            # Each gives others, and one file more comes.
            (tmp_path / "nodes.json").write_text(json.dumps([good("file2")]))
            (tmp_path / "more.json").write_text(json.dumps([good("file3")]))
            service.content = json.dumps([good("web2")]).encode()
            main.write_text(text.replace("good/own", "good/own2"))
            up = {"own2", "file2", "file3", "web2"}
            assert all(is_scraped(name) for name in up)
            for name in ("file", "web"):
                wait_for(lambda name=name: silent(name), f"the end of {name}")  # type: ignore[misc]
            (tmp_path / "more.json").unlink()
            up.discard("file3")
            wait_for(lambda: silent("file3"), "the end of a file's targets")
            collector.stop()
            assert "hunter2" not in collector.output()


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text("scrape_configs: [{job_name: x, file_sd_configs: [{files: [absent.yml, '*.json']}]}]")
    with pytest.raises(BadRequest, match=r"absent\.yml: cannot be read: No such file"):
        read_targets(path, 1.0)
    assert Discovery(path, 1.0, CollectorMetrics()).targets == {}, "it may appear later"
