"""Status of the database, the services, the GPUs and the running runs."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.services import Service, Stack
from hypergauge.gpu import Gpu, inventory
from hypergauge.sql.ingest.target_errors import FailingTarget, failing_targets
from hypergauge.sql.ingest.targets import ClockOffset, clock_offsets, unmeasured_hosts
from hypergauge.sql.queries.report import findings
from hypergauge.sql.queries.summaries import Live, live_values
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.lock_waits import LockWait, lock_waits
from hypergauge.sql.server.server_status import ServerStatus
from hypergauge.stack.collector_status import CollectorStatus
from hypergauge.stack.services.start_settings import Difference, differences

__all__ = ["Measured", "Status"]

_WAITING = "bench_rules_runs_without_highlights"


@dataclass(frozen=True, slots=True)
class Measured:
    """Current content of the database.

    Attributes
    ----------
    metrics
        Live values by run; a run without samples has none.
    firing
        Names of the firing rules, by run.
    clocks
        Offsets of all hosts' clocks.
    failing
        Targets that cannot be scraped.
    unmeasured
        Hosts with runs but without an exporter that answers.
    lock_waits
        Sessions that have waited for a lock for some seconds.
    """

    running: Sequence[RunInfo]
    metrics: Mapping[str, Live]
    firing: Mapping[str, Sequence[str]]
    clocks: Sequence[ClockOffset]
    failing: Sequence[FailingTarget]
    unmeasured: Sequence[str]
    lock_waits: Sequence[LockWait]

    @classmethod
    def read(cls, connection: Connection) -> Measured:
        """Read the content from the database."""
        running = [run for run in select_runs(connection, []) if run.status == "running"]
        ids = [run.run_id for run in running]
        return cls(
            running=running,
            metrics=live_values(connection, ids),
            clocks=clock_offsets(connection),
            failing=failing_targets(connection),
            unmeasured=unmeasured_hosts(connection),
            lock_waits=lock_waits(connection),
            firing=_firing(connection, ids),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON."""
        return {
            "clocks": [asdict(clock) for clock in self.clocks],
            "failing": [asdict(one) | {"url": without_login(one.url)} for one in self.failing],
            "unmeasured": self.unmeasured,
            "lock_waits": [asdict(wait) for wait in self.lock_waits],
            "runs": [
                {
                    **asdict(run),
                    "run": run.label,
                    "live": asdict(self.metrics[run.run_id]) if run.run_id in self.metrics else None,
                    "firing": self.firing[run.run_id],
                }
                for run in self.running
            ],
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Status of everything that `bench status` shows.

    Attributes
    ----------
    reads
        Server of reads, if it is another one than the primary.
    services
        Whether each service answers, and its address, by name.
    outdated
        Settings that running services were started with and these settings have differently, by service.
    collector
        Status of the collector, if it answers.
    runs_without_highlights
        Number of ended runs whose highlights are not stored yet, if the rule engine answers.
    measured
        Content of the database, ``None`` if the database does not answer.
    """

    gpus: Sequence[Gpu]
    database: ServerStatus
    reads: ServerStatus | None
    services: Mapping[str, tuple[bool, str]]
    outdated: Mapping[str, Sequence[Difference]]
    collector: CollectorStatus | None
    runs_without_highlights: int | None
    measured: Measured | None

    @classmethod
    def read(cls, settings: Settings) -> Status:
        """Query the services and the database."""
        recorded = Stack(settings).recorded()
        services = _services(settings, recorded)
        rules_up, rules_url = services.get("rules", (False, ""))
        waiting = _runs_without_highlights(rules_url) if rules_up else None
        up, url = services.get("collector", (False, ""))
        collector = CollectorStatus.read(url) if up else None
        measured = None
        try:
            with Database(settings, reading=True) as opened, opened.session() as connection:
                server = ServerStatus.of(connection, opened.restarts)
                measured = Measured.read(connection)
        except BenchError as error:
            server = ServerStatus(False, str(error))
        database, reads = server.and_primary(settings)
        # The exporters may measure other GPUs than this command's settings name.
        simulated = (one.simulate for name, one in recorded.items() if name.startswith("exporter-") and one.alive)
        gpus = inventory(next(simulated, settings.simulate), settings.home).gpus
        outdated = {
            name: found for name, one in recorded.items() if one.alive and (found := differences(one, settings))
        }
        return cls(gpus, database, reads, services, outdated, collector, waiting, measured)

    def as_dict(self) -> dict[str, Any]:
        """Return the status for JSON; what only the database knows is null if it does not answer."""
        unknown = dict.fromkeys(("clocks", "failing", "unmeasured", "lock_waits", "runs"))
        return {
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "database": self.database.as_dict(),
            "reads": self.reads and self.reads.reads_as_dict(),
            "services": {
                name: {"up": up, "url": url, "differs": [asdict(one) for one in self.outdated.get(name, ())]}
                for name, (up, url) in self.services.items()
            },
            "collector": asdict(self.collector) if self.collector else None,
            "runs_without_highlights": self.runs_without_highlights,
            **(self.measured.as_dict() if self.measured else unknown),
        }


def _firing(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the rules that fire now, by run."""
    holding = [one for one in findings(connection, run_ids) if one.ended is None]
    return {run_id: [one.rule for one in holding if one.run_id == run_id] for run_id in run_ids}


def _runs_without_highlights(url: str) -> int | None:
    """Return the number of ended runs whose highlights the rule engine has not stored yet."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:  # noqa: S310 - our own address
            families = text_string_to_metric_families(response.read().decode())
            return next((int(one.samples[0].value) for one in families if one.name == _WAITING), None)
    except (OSError, ValueError):
        return None


def _services(settings: Settings, recorded: Mapping[str, Service]) -> dict[str, tuple[bool, str]]:
    """Return whether each service of the stack and each configured one answers, and its address, by name."""
    found = {name: (service.answers(), service.url) for name, service in recorded.items()}
    for name, url, health in (
        ("mlflow", settings.tracking_uri, "/health"),
        ("grafana", settings.grafana_url, "/api/health"),
    ):
        if url and name not in found:
            shown = without_login(url).rstrip("/")
            found[name] = (Service(name, 0, 0.0, shown, shown + health).answers(), shown)
    return found
