"""Exporters over real HTTP, and their registry."""

from __future__ import annotations

import contextlib
import http.client
import logging
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.errors import BadRequest, ExporterUnavailable, ServiceFailed
from hypergauge.exporters.host.exporter import HostExporter
from hypergauge.exporters.process.exporter import ProcessExporter
from hypergauge.exporters.serving.registry import GROUP, ExporterOptions, Registry
from hypergauge.exporters.serving.server import ExporterServer
from tests.support.waiting import HUNG_SECONDS, wait_for


class Thermometer:
    """Exporter with a source that can fail or be slow. It detects concurrent reads."""

    name = "thermometer"

    def __init__(self, options: ExporterOptions | None = None) -> None:
        self.error: Exception | None = None
        self.reason: str | None = None
        self.pause = 0.0
        self.reads_at_once = self.most_at_once = 0

    def check(self) -> str | None:
        return self.reason

    def collect(self) -> Iterator[Metric]:
        self.reads_at_once += 1
        self.most_at_once = max(self.most_at_once, self.reads_at_once)
        time.sleep(self.pause)
        self.reads_at_once -= 1
        yield GaugeMetricFamily("room_celsius", "Temperature.", 21.5)
        if self.error is not None:
            raise self.error


class Hanging(Thermometer):
    """Exporter with a source that blocks until released."""

    name = "hanging"
    hangs = threading.Event()

    def collect(self) -> Iterator[Metric]:
        self.hangs.wait()
        yield from ()


def get(url: str, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=HUNG_SECONDS) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def samples(exposition: str) -> dict[str, float]:
    """Return values by series."""
    values = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            values[f"{sample.name}{{{labels}}}"] = sample.value
    return values


def test_an_exporter_and_its_own_metrics() -> None:
    with ExporterServer(Thermometer()) as server:
        status, content_type, exposition = get(server.url)
    assert status == 200
    assert content_type.startswith("text/plain; version=0.0.4")
    values = samples(exposition)
    assert values.pop("bench_exporter_read_seconds{exporter=thermometer}") >= 0
    assert values.pop("bench_exporter_cpu_seconds_total{exporter=thermometer}") > 0
    assert values == {"room_celsius{}": 21.5, "bench_exporter_up{exporter=thermometer}": 1}, "and no others"
    assert "_created" not in exposition


def test_a_failing_source_is_counted_and_the_exporter_answers(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Thermometer()
    with ExporterServer(exporter) as server, caplog.at_level(logging.WARNING):
        exporter.error = PermissionError("not yours")
        get(server.url)
        status, _, exposition = get(server.url)
        assert status == 200
        values = samples(exposition)
        assert values["bench_exporter_up{exporter=thermometer}"] == 0
        assert values["bench_exporter_errors_total{exporter=thermometer,reason=PermissionError}"] == 2
        assert "room_celsius{}" not in values, "no partial results"
        exporter.error = None
        values = samples(get(server.url)[2])
    assert values["bench_exporter_up{exporter=thermometer}"] == 1
    assert values["bench_exporter_errors_total{exporter=thermometer,reason=PermissionError}"] == 2
    assert values["room_celsius{}"] == 21.5
    assert len(caplog.records) == 1, "an outage is logged once"


def test_requests_read_the_source_one_at_a_time() -> None:
    exporter = Thermometer()
    exporter.pause = 0.1
    with ExporterServer(exporter) as server:
        threads = [threading.Thread(target=get, args=[server.url]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert exporter.most_at_once == 1


class Valve(Thermometer):
    """Exporter with an open source. It detects a read or a second close after a close."""

    name = "valve"

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = 0
        self.is_open = False

    def collect(self) -> Iterator[Metric]:
        if not self.is_open:
            self.opened, self.is_open = self.opened + 1, True
        yield from super().collect()
        assert self.is_open, "closed during a read"

    def close(self) -> None:
        self.closed, self.is_open = self.closed + 1, False


def test_a_hanging_source_collects_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a driver during a reset of its GPU: a scraper gives up after a second, and retries."""
    monkeypatch.setattr("hypergauge.exporters.serving.server._BUSY_SECONDS", 0.2)
    exporter, answers = Hanging(), threading.Event()
    exporter.hangs = answers
    threads = threading.active_count()
    with ExporterServer(exporter) as server:
        for _ in range(10):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=0.05)) as scraper:
                scraper.request("GET", "/metrics")
                with contextlib.suppress(TimeoutError):
                    scraper.getresponse()
        values = samples(get(server.url)[2])
        assert values.pop("bench_exporter_errors_total{exporter=hanging,reason=busy}") > 0
        assert values.pop("bench_exporter_read_seconds{exporter=hanging}") >= 0.2
        assert values.pop("bench_exporter_cpu_seconds_total{exporter=hanging}") > 0
        assert values == {"bench_exporter_up{exporter=hanging}": 0}
        deadline = time.monotonic() + HUNG_SECONDS
        while threading.active_count() > threads + 2:  # the server's, and the hanging one
            assert time.monotonic() < deadline
            time.sleep(0.01)
        answers.set()
        while not samples(get(server.url)[2])["bench_exporter_up{exporter=hanging}"]:
            assert time.monotonic() < deadline


def test_stop_closes_the_source() -> None:
    exporter = Valve()
    server = ExporterServer(exporter)
    server.stop()
    assert exporter.closed == 0
    server.start()
    get(server.url)
    server.stop()
    server.stop()
    assert (exporter.opened, exporter.closed) == (1, 1)
    with server:
        assert samples(get(server.url)[2])["room_celsius{}"] == 21.5, "and opened by a later read"
    assert (exporter.opened, exporter.closed) == (2, 2)


def test_a_source_that_nobody_scrapes_is_closed_until_the_next_request() -> None:
    exporter = Valve()
    with ExporterServer(exporter, rest=0.05) as server:
        for time_of_it in (1, 2):
            assert samples(get(server.url)[2])["room_celsius{}"] == 21.5
            wait_for(lambda: exporter.closed == time_of_it, "a closed source")  # noqa: B023 - called at once
            assert (exporter.opened, exporter.closed) == (time_of_it, time_of_it)
    assert (exporter.opened, exporter.is_open) == (2, False)


def test_a_source_that_is_scraped_slowly_stays_open() -> None:
    exporter = Valve()
    with ExporterServer(exporter, rest=0.01) as server:
        server._source.requested_at -= 60  # a minute since the last scrape
        get(server.url)
        time.sleep(0.1)
        assert (exporter.opened, exporter.closed) == (1, 0)


def test_stop_waits_for_a_read_and_allows_no_later_one() -> None:
    exporter = Valve()
    exporter.pause = 0.2

    def fetch(url: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # hung up
            get(url)

    with ExporterServer(exporter) as server:
        threads = [threading.Thread(target=fetch, args=[server.url]) for _ in range(4)]
        for thread in threads:
            thread.start()
        while not exporter.is_open:
            time.sleep(0.001)
    for thread in threads:
        thread.join(HUNG_SECONDS)
    assert (exporter.opened, exporter.closed, exporter.is_open) == (1, 1, False)


def test_a_failing_close_is_logged_and_the_exporter_stops(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Valve):
        def close(self) -> None:
            raise OSError("driver lost")

    with caplog.at_level(logging.WARNING), ExporterServer(Stuck()):
        pass
    assert [record.getMessage() for record in caplog.records] == ["exporter 'valve' cannot be closed"]


def test_start_and_stop_are_safe_twice_and_before_a_start() -> None:
    server = ExporterServer(Thermometer())
    server.stop()
    server.start()
    url = server.url
    server.start()
    assert server.url == url
    assert get(url)[0] == 200
    server.stop()
    server.stop()
    with pytest.raises(urllib.error.URLError):
        get(url)
    server.start()
    assert get(server.url)[0] == 200
    server.stop()


def test_a_connection_is_kept_until_the_server_stops() -> None:
    server = ExporterServer(Thermometer())
    server.start()
    connection = http.client.HTTPConnection(server.bind, server.port, timeout=HUNG_SECONDS)
    local = set()
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert bool(answer.read()) == (method == "GET"), "uncompressed: compression would cost more than it saves"
        local.add(connection.sock.getsockname())
    assert len(local) == 1
    server.stop()
    connection.auto_open = 0
    with pytest.raises((http.client.HTTPException, OSError)):  # noqa: PT012 - either of the two finds out
        connection.request("GET", "/metrics")
        connection.getresponse()


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.0.2.1", "node7", ""])
def test_an_address_reachable_from_other_hosts_is_refused(bind: str) -> None:
    with pytest.raises(BadRequest, match="--insecure"):
        ExporterServer(Thermometer(), bind=bind)


def test_such_an_address_is_served_with_insecure() -> None:
    with ExporterServer(Thermometer(), bind="0.0.0.0", insecure=True) as server:
        assert get(f"http://127.0.0.1:{server.port}/metrics")[0] == 200


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_loopback_is_served(bind: str) -> None:
    with ExporterServer(Thermometer(), bind=bind) as server:
        assert get(server.url)[0] == 200


def test_a_taken_port_is_named() -> None:
    with (
        ExporterServer(Thermometer()) as server,
        pytest.raises(ServiceFailed, match=str(server.port)),
    ):
        ExporterServer(Thermometer(), port=server.port).start()


def test_an_unavailable_exporter_names_the_reason() -> None:
    exporter = Thermometer()
    exporter.reason = "there is no room"
    with pytest.raises(ExporterUnavailable, match=r"thermometer.*there is no room"):
        ExporterServer(exporter).start()


@pytest.mark.parametrize("factory", [HostExporter, ProcessExporter])
@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"])
def test_our_exporters_serve_one_format(
    factory: type[HostExporter] | type[ProcessExporter], accept: str, tmp_path: Path
) -> None:
    with ExporterServer(factory(ExporterOptions(home=tmp_path))) as server:
        status, content_type, exposition = get(server.url, Accept=accept)
    assert status == 200
    assert content_type.startswith("text/plain; version=0.0.4"), "one format for any Accept header"
    assert samples(exposition)[f"bench_exporter_up{{exporter={server.exporter.name}}}"] == 1


def test_our_names_follow_the_rules(tmp_path: Path) -> None:
    """As ``promtool check metrics`` wants them: counters end in ``_total`` and no others does, units are base units."""
    with ExporterServer(ProcessExporter(ExporterOptions(home=tmp_path))) as server:
        exposition = get(server.url)[2]
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposition, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", exposition, re.MULTILINE))
    assert types.keys() == helps.keys()
    for name, kind in types.items():
        assert re.fullmatch(r"bench_(process|exporter|services)_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (kind == "counter")
        assert not re.search(r"_(ms|millis|kb|mb|percent|count|sum|bucket|info|counter|gauge)(_|$)", name)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a third party's module with an exporter, and one that cannot be imported."""
    name = "third_party_listeners"
    (tmp_path / f"{name}.py").write_text("def room(options): return ('room', options)\n")
    (tmp_path / f"{name}_broken.py").write_text("import no_such_driver\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_exporters_are_found_by_entry_point(module: str, tmp_path: Path) -> None:
    registry = Registry.load(
        [entry("room", f"{module}:room"), entry("host", "hypergauge.exporters.host.exporter:HostExporter")]
    )
    assert list(registry) == ["host", "room"]
    assert registry.create("host", ExporterOptions(home=tmp_path)).name == "host"
    with pytest.raises(BadRequest, match=r"'hots'.*'host'"):
        registry.create("hots", ExporterOptions(home=tmp_path))


def test_a_broken_exporter_is_logged_and_left_out(module: str, caplog: pytest.LogCaptureFixture) -> None:
    broken = [entry("absent", f"{module}_broken:x"), entry("typo", f"{module}:rom"), entry("never", "no.such:thing")]
    with caplog.at_level(logging.WARNING):
        registry = Registry.load([*broken, entry("room", f"{module}:room")])
    assert list(registry) == ["room"]
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        "absent",
        "typo",
        "never",
    ]


def test_a_duplicate_name_is_refused(module: str) -> None:
    taken = [entry("host", "hypergauge.exporters.host.exporter:HostExporter"), entry("host", f"{module}:room")]
    with pytest.raises(BadRequest, match=rf"'host'.*HostExporter.*{module}:room"):
        Registry.load(taken)
