"""Hostile answers of an MLflow server: each call succeeds, or reports that MLflow does not work."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.scheduler.tracking import mlflow_rest
from hypergauge.scheduler.tracking import tracking as tracking_module
from hypergauge.scheduler.tracking.tracking import Tracking
from tests.support.fuzzing import damaged_bytes, fuzzed, mutated, refusal

RUN = {
    "info": {
        "run_id": "a" * 32, "experiment_id": "1", "status": "RUNNING", "artifact_uri": "mlflow-artifacts:/1/a/artifacts",
        "lifecycle_stage": "active",
    },
    "data": {
        "tags": [{"key": "hypergauge.run_id", "value": "b" * 32}, {"key": "hypergauge.run", "value": "1/1/1"}],
        "metrics": [{"key": "loss", "value": 0.5, "timestamp": 1_700_000_000_000, "step": 3}],
    },
}  # fmt: skip
EXPERIMENT = {"experiment_id": "1", "name": "e", "lifecycle_stage": "active"}
ANSWERS = {
    "runs/create": {"run": RUN},
    "runs/get": {"run": RUN},
    "runs/search": {"runs": [RUN]},
    "runs/log-batch": {},
    "runs/update": {},
    "experiments/search": {"experiments": [EXPERIMENT]},
    "experiments/get": {"experiment": EXPERIMENT},
    "experiments/get-by-name": {"experiment": EXPERIMENT},
    "experiments/create": {"experiment_id": "1"},
    "metrics/get-history": {"metrics": [{"key": "loss", "value": 0.5, "timestamp": 1_700_000_000_000, "step": 3}]},
}


class Server(ThreadingHTTPServer):
    """Server with a status and a response for each endpoint."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.answers: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    """Handler of a request."""

    server: Server

    def do_GET(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = self.server.answers.get(self.path.partition("?")[0].removeprefix("/api/2.0/mlflow/"), b"{}")
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the base class calls it so

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def use(server: Server) -> None:
    """Call what runs call; a failure is one that they expect."""
    tracking = Tracking(f"http://127.0.0.1:{server.server_port}")
    run_id = "b" * 32

    def metrics() -> None:
        for one in tracking.new_metrics(run_id):
            assert isinstance(one.key, str)
            assert math.isfinite(one.time)
            assert isinstance(one.step, int)

    def finish() -> None:
        tracking.finish(tracking.runs_of(run_id), "a" * 32, "finished", 1e9, [], {"t": "v"})

    calls: list[Callable[[], object]] = [
        lambda: tracking.create_run(run_id, "e", "n", {"a": "1"}, {"t": "v"}),
        lambda: tracking.find_run(run_id), lambda: tracking.deletion("a" * 32),
        lambda: tracking.log_metrics("a" * 32, {"m": 1.0}, 1e9), metrics, finish, tracking.take_notices,
    ]  # fmt: skip
    for call in calls:
        message = refusal(call, TrackingUnavailable)
        assert message is None or message.startswith("MLflow"), message


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_rest, "pauses", lambda *_, **__: ())


@fuzzed(100)
@given(
    st.dictionaries(st.sampled_from(sorted(ANSWERS)), st.data(), min_size=1, max_size=2),
    st.sampled_from([200, 200, 200, 200, 400, 404, 500]),
)
def test_hostile_answers(server: Server, changes: dict[str, st.DataObject], status: int) -> None:
    answers: dict[str, Any] = dict(ANSWERS)
    for endpoint, data in changes.items():
        answers[endpoint] = data.draw(mutated(ANSWERS[endpoint]))
    server.status = status
    server.answers = {name: json.dumps(answer).encode() for name, answer in answers.items()}
    use(server)


@fuzzed(60)
@given(st.sampled_from(sorted(ANSWERS)), st.data(), st.sampled_from([200, 200, 404]))
def test_damaged_answers(server: Server, endpoint: str, data: st.DataObject, status: int) -> None:
    server.status = status
    server.answers = {name: json.dumps(answer).encode() for name, answer in ANSWERS.items()}
    server.answers[endpoint] = data.draw(st.one_of(damaged_bytes(server.answers[endpoint]), st.binary(max_size=20)))
    use(server)


@pytest.mark.parametrize("endpoint", sorted(ANSWERS))
@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"<html>", b"\xff", b"[" * 100_000, b'{"metrics": {"a": 1}, "runs": 3}']
)
def test_an_answer_of_another_kind(server: Server, endpoint: str, content: bytes) -> None:
    server.status = 200
    server.answers = {name: json.dumps(answer).encode() for name, answer in ANSWERS.items()}
    server.answers[endpoint] = content
    use(server)


def test_a_list_without_an_end_is_refused(server: Server) -> None:
    server.status = 200
    server.answers = {"experiments/search": b'{"experiments": [], "next_page_token": "again"}'}
    tracking = Tracking(f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(TrackingUnavailable, match="without an end"):
        tracking.runs_of("b" * 32)


def test_a_server_where_all_names_are_deleted_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking_module, "_MOST_DELETED", 5)
    server.status = 200
    deleted = {"experiment": {**EXPERIMENT, "lifecycle_stage": "deleted"}}
    server.answers = {"experiments/get-by-name": json.dumps(deleted).encode()}
    tracking = Tracking(f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(TrackingUnavailable, match="are deleted"):
        tracking.create_run("b" * 32, "e", "n", {}, {})
