"""Queries of every dashboard, as Grafana sends them, in both flavours: each fits its panel."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from benchmarks.support import grafana
from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from tests.conftest import own_database
from tests.support.data.answers import run_query
from tests.support.data.gallery import hang

BOARDS: dict[str, grafana.Json] = {
    board["uid"]: board
    for board in (json.loads(path.read_text()) for path in sorted(Path("dashboards/generated").rglob("*.json")))
}
HOURS = 3600.0
# Panels without rows where all is idle or well.
MAY_BE_EMPTY = re.compile(r"Notices")
CHOICES = ("as it opens", "one", "several", "all", "none")


def filled(server: str, folder: Path, *, timescaledb: bool, runs: int) -> Iterator[str]:
    """Yield a database with so many runs, read as Grafana does: as `bench_reader`, for half a minute at most."""
    with own_database(server, timescaledb=timescaledb) as dsn:
        with Database(Settings(home=folder, dsn=dsn)) as database:
            if timescaledb:
                with database.connect() as connection:
                    connection.execute("select alter_job(job_id, scheduled => false) from timescaledb_information.jobs")
            hang(database, folder / "spool", runs, interval=5.0)
        yield dsn


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Flavour.POSTGRESQL, id="postgresql"),
        pytest.param(Flavour.TIMESCALEDB, id="timescaledb", marks=pytest.mark.timescale),
    ],
)
def gallery(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with runs alone and side by side, in each flavour."""
    server = request.getfixturevalue(f"{request.param}_dsn")
    yield from filled(server, tmp_path_factory.mktemp("gallery"), timescaledb="timescale" in request.param, runs=8)


@pytest.fixture(scope="module")
def empty(postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database in which nothing was ever run."""
    yield from filled(postgresql_dsn, tmp_path_factory.mktemp("empty"), timescaledb=False, runs=0)


@pytest.fixture
def reader(gallery: str) -> Iterator[Connection]:
    """A connection to the gallery as Grafana has it."""
    with reading(gallery) as connection:
        yield connection


def reading(dsn: str) -> Connection:
    options = "-crole=bench_reader -csearch_path=bench,bench_internal,bench_dashboard,public -cstatement_timeout=240s -cTimeZone=UTC"
    return psycopg.connect(conninfo.make_conninfo(dsn, options=options), autocommit=True)


def spans(board: grafana.Json) -> grafana.Span:
    """Return what a dashboard shows at first, or two hours until now where it shows the present."""
    now = time.time()
    if board["time"]["from"].startswith("now"):
        return grafana.Span(now - 2 * HOURS, now)
    return grafana.Span(0, HOURS)


def choose(connection: Connection, board: grafana.Json, how: str | int) -> dict[str, grafana.Value]:
    """Choose in each variable, one after the other, as people do: each depends on those before it.

    `how` is one of `CHOICES`, or which option to choose, counted from 0 and round and round.
    """
    chosen: dict[str, grafana.Value] = {}
    repeated = {panel.get("repeat") for panel in board["panels"]}
    for variable in board["templating"]["list"]:
        name, several = variable["name"], bool(variable.get("multi"))
        sent = grafana.variable_query(board, variable, chosen, spans(board))
        if sent is None:
            fixed = [option["value"] for option in variable.get("options", [])]
            chosen[name] = fixed if several else variable["current"]["value"]
            continue
        there = [row[0] for row in run_query(connection, sent).rows]
        # Of what is repeated, some: it is the same query again.
        there = there[:: max(1, len(there) // 4)] if name in repeated else there
        value = _chosen(variable["current"].get("value"), there, how)
        chosen[name] = value if several else (value or [""])[-1]
    return chosen


def _chosen(first: grafana.Value | None, there: list[str], how: str | int) -> list[str]:
    if isinstance(how, int):
        return [there[how % len(there)]] if there else []
    if how == "as it opens" and first != ["$__all"]:
        return [value for value in there if value in (first or [])] or there[:1]
    return {"none": [], "one": there[:1], "several": there[:3]}.get(how, there)


@pytest.mark.parametrize("how", CHOICES)
@pytest.mark.parametrize("uid", BOARDS)
def test_every_query_answers_with_what_its_panel_can_draw(reader: Connection, uid: str, how: str) -> None:
    board = BOARDS[uid]
    chosen = choose(reader, board, how)
    for sent in grafana.queries(board, chosen, spans(board)):
        assert ":raw" not in json.dumps(sent.panel), sent.where
        run_query(reader, sent)


@pytest.mark.parametrize("uid", BOARDS)
def test_every_panel_has_something_to_show(reader: Connection, uid: str) -> None:
    board = BOARDS[uid]
    silent = {panel["id"]: panel.get("title", "") for panel in grafana.panels(board) if panel.get("targets")}
    silent = {one: title for one, title in silent.items() if not MAY_BE_EMPTY.search(title)}
    for how in ("all", *range(8)):
        for sent in grafana.queries(board, choose(reader, board, how), spans(board)):
            if sent.panel.get("id") in silent and run_query(reader, sent).rows:
                del silent[sent.panel["id"]]
        if not silent:
            return
    raise AssertionError(f"nothing was ever shown in {list(silent.values())}")


@pytest.mark.parametrize("how", ["as it opens", "all", "none"])
@pytest.mark.parametrize("uid", BOARDS)
def test_every_query_answers_where_nothing_was_ever_run(empty: str, uid: str, how: str) -> None:
    board = BOARDS[uid]
    with reading(empty) as connection:
        for sent in grafana.queries(board, choose(connection, board, how), spans(board)):
            run_query(connection, sent)


CONDITIONS = ("Index Cond", "Recheck Cond", "Filter", "Vectorized Filter")


def scans(node: grafana.Json, guarded: Mapping[str, str]) -> Iterator[str]:
    """Yield how a plan reads relations with samples."""
    name = node.get("Relation Name", "")
    if name in guarded and node.get("Custom Plan Provider") != "ChunkAppend":  # its parts define how
        conditions = " ".join(node.get(key, "") for key in CONDITIONS)
        yield f"{node['Node Type']} of {guarded[name]} by {conditions or 'nothing'}"
    for child in node.get("Plans", []):
        yield from scans(child, guarded)


def bounded(scan: str) -> bool:
    """Return whether a scan has a lower bound of time."""
    return bool(re.search(r'(?:"time"|bucket)\)? >=? (?!\'-infinity)|<=? (?:\w+\.)?(?:"time"|bucket)\b', scan))


@pytest.fixture(scope="module", params=[False, True], ids=["postgresql", "timescaledb"])
def watched(
    request: pytest.FixtureRequest, complete_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The gallery on a server that reports the plan of each statement, inside of functions too: the wheel's cannot."""
    yield from filled(complete_dsn, tmp_path_factory.mktemp("watched"), timescaledb=request.param, runs=8)


@pytest.mark.timescale
@pytest.mark.parametrize("uid", BOARDS)
def test_no_query_reads_samples_without_a_bound_in_time(watched: str, uid: str) -> None:
    board = BOARDS[uid]
    plans: list[grafana.Json] = []
    with psycopg.connect(watched, autocommit=True) as connection:
        guarded = relations(connection)
        connection.execute("load 'auto_explain'")
        for setting, value in {
            "auto_explain.log_min_duration": "0", "auto_explain.log_nested_statements": "on",
            "auto_explain.log_format": "json", "auto_explain.log_level": "notice", "client_min_messages": "notice",
            "search_path": "bench, bench_internal, bench_dashboard, public", "role": "bench_reader",
        }.items():  # fmt: skip
            connection.execute(sql.SQL("select set_config({}, {}, false)").format(setting, value))
        chosen = choose(connection, board, "all")
        connection.add_notice_handler(lambda notice: plans.append(_plan(notice.message_primary or "")))
        seen: set[str] = set()
        for query in grafana.queries(board, chosen, spans(board)):
            plans.clear()
            connection.execute(query.sql.encode(), prepare=True)
            found = {scan for plan in plans for scan in scans(plan.get("Plan", {}), guarded)}
            unbounded = sorted(scan for scan in found if not bounded(scan))
            assert not unbounded, f"{query.where}: {unbounded}\n{query.sql}"
            seen |= found
        assert seen, "no plan was seen"


def _plan(message: str) -> grafana.Json:
    found: grafana.Json = json.loads(message[message.index("{") :]) if "plan:" in message else {}
    return found


def relations(connection: Connection) -> dict[str, str]:
    """Return the relations that hold samples or buckets of them, chunks included, with what they are part of."""
    found = {"samples": "samples"}
    if connection.execute("select to_regclass('timescaledb_information.chunks')").fetchone() != (None,):
        found |= dict(
            connection.execute(
                """
                select c.chunk_name, coalesce(a.view_name, c.hypertable_name) from timescaledb_information.chunks c
                left join timescaledb_information.continuous_aggregates a
                       on a.materialization_hypertable_name = c.hypertable_name
                """
            ).fetchall()
        )
    return found


def test_scans_with_and_without_a_bound_are_distinguished() -> None:
    node = {"Node Type": "Index Scan", "Relation Name": "samples"}
    for condition, good in (
        ("(series_id = 1)", False),
        ("((series_id = 1) AND (\"time\" >= '-infinity'::timestamptz))", False),
        ('("time" < now())', False),
        ('("time" >= r.started_at)', True),
        ("((series_id = 1) AND (\"time\" > (now() - '1 day'::interval)))", True),
    ):
        [scan] = scans({"Plans": [{**node, "Index Cond": condition}]}, {"samples": "samples"})
        assert bounded(scan) is good, condition
