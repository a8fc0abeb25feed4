"""Choice of the PostgreSQL installation for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.support.servers import Kind, installations, installed_timescale
from hypergauge.core.errors import BadRequest

Installed = Callable[[str], Path]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """Create a `pg_config` of a version, with TimescaleDB Community."""

    def install(version: str) -> Path:
        folder = tmp_path / version
        folder.mkdir()
        for name in ("initdb", "timescaledb-tsl-2.0.0.so"):
            (folder / name).touch()
        program = folder / "pg_config"
        program.write_text(f'#!/bin/sh\ncase $1 in --version) echo "PostgreSQL {version}";; *) echo {folder};; esac\n')
        program.chmod(0o755)
        return program

    return install


def test_the_newest_installation_is_chosen(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_TEST_PG_CONFIG", raising=False)
    for version in ("9.6.24", "99.1"):
        monkeypatch.setenv("PATH", str(installed(version).parent))
        majors = [one.major for one in installations()]
        assert majors == sorted(majors, reverse=True)
        newest = max(one.major for one in installations() if one.timescaledb)
        server = installed_timescale(tmp_path / "data")
        assert server is not None
        assert server.programs.major == newest
    assert newest == 99


def test_a_variable_selects_an_installation(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_TEST_PG_CONFIG", str(installed("9.6.24")))
    assert [one.major for one in installations()] == [9]
    for wrong in (tmp_path / "nowhere", tmp_path):
        monkeypatch.setenv("BENCH_TEST_PG_CONFIG", str(wrong))
        with pytest.raises(BadRequest, match="pg_config"):
            installations()


def test_a_stock_server_has_none_of_our_settings(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_TEST_PG_CONFIG", str(installed("17.2")))
    assert Kind.STOCK_POSTGRESQL.make(tmp_path / "data").configuration == ""
    stock = Kind.STOCK_TIMESCALEDB.make(tmp_path / "data").configuration
    assert stock == "shared_preload_libraries = 'timescaledb'\n"
    assert "jit = off" in Kind.TIMESCALEDB.make(tmp_path / "data").configuration
