"""Precedence of settings: flag, environment, bench.toml, default."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.config.environments import named_environments
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest


def test_defaults(tmp_path: Path) -> None:
    settings = Settings.load({}, tmp_path)
    assert (settings.dsn, settings.tracking_uri, settings.simulate, settings.interval) == (None, None, None, 1.0)
    assert settings.home.name == "hypergauge"


def test_flags_precede_the_environment_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text('dsn = "file"\nread_dsn = "file"\nsimulate = "file"\ninterval = 5\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    settings = Settings.load({"BENCH_READ_DSN": "environment", "BENCH_SIMULATE": "environment"}, below, simulate="flag")
    assert (settings.dsn, settings.read_dsn, settings.simulate) == ("file", "environment", "flag")
    assert settings.interval == 5


def test_home_in_a_file_is_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text('home = "data"\n')
    below = tmp_path / "a"
    below.mkdir()
    assert Settings.load({}, below).home == tmp_path.resolve() / "data"


def test_environments_have_names(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(
        "interval = 2\n[environments.torch]\ndocker = 'torch:1'\npython = 'python3'\nmounts = ['/data:ro']\n[environments.plain]\n"
    )
    below = tmp_path / "a"
    below.mkdir()
    found = named_environments(below)
    assert Settings.load({}, below).interval == 2
    assert (found["torch"].docker, found["torch"].python, found["torch"].mounts) == (
        "torch:1",
        "python3",
        ("/data:ro",),
    )
    assert (found["plain"].folder, found["plain"].entry_point) == (tmp_path, None)
    assert named_environments(tmp_path.parent) == {}


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("postgresql://u:p@h/d\n")
    assert Settings.load({"BENCH_DSN_FILE": str(tmp_path / "secret")}, tmp_path).dsn == "postgresql://u:p@h/d"


def test_a_child_gets_the_same_settings(tmp_path: Path) -> None:
    settings = Settings.load({"BENCH_DSN": "x", "BENCH_HOME": str(tmp_path), "BENCH_SIMULATE": "1xT4"}, tmp_path)
    assert Settings.load(settings.environment(), tmp_path) == settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dns = 'x'\n", r"bench\.toml: unknown setting 'dns' \(did you mean 'dsn'\?\)"),
        ("dsn = \n", r"bench\.toml: not valid TOML: .*line 1"),
        ("interval = 'x'\n", r"bench\.toml: interval is 'x', but must be a number"),
        ("home = 3\n", r"bench\.toml: home is 3, but must be a string"),
        ("lease = 'long'\n", r"bench\.toml: lease is 'long', but must be a number of seconds"),
        ("lease = 0.5\n", r"lease is 0\.5 s, but must lie between 1 s and an hour"),
        ("peak_flops = 0\n", r"peak_flops is 0, but must be a number of FLOPS above 0"),
        (
            "peak_flops = '1e12'\n",
            r"peak_flops is '1e12', but must be a number of floating-point operations per second",
        ),
        ("grace = -1\n", r"grace is -1 s, but must lie between 0 s and a day"),
        ("profilers = 3\n", r"bench\.toml: profilers is not a section: write \[profilers\]"),
        ("[profilers]\nperf = 3\n", r"bench\.toml: \[profilers\]: perf must be a string"),
        ("output_limit = 'much'\n", r"output_limit is 'much', but must be a size such as 512MiB"),
        ("output_limit = 1.5\n", r"bench\.toml: output_limit is 1\.5, but must be a size such as 512MiB"),
        ("output_limit = '4 KiB'\n", r"output_limit is 4096 bytes, but must be at least 1 MiB, or 0 for no limit"),
        ("environments = 3\n", r"bench\.toml: environments is not a section: write \[environments.NAME\]"),
        ("[environments]\nx = 3\n", r"environments\.x is 3, but must be a section \[environments\.x\]"),
        (
            "[environments.x]\nentrypoint = 'a'\n",
            r"\[environments\.x\]: unknown setting 'entrypoint' \(did you mean 'entry_point'\?\)",
        ),
        ("[environments.x]\nvariables = {A = 1}\n", r"\[environments\.x\]: variables must be a table of strings"),
        ("[environments.x]\nconda = 'a'\nvenv = 'b'\n", r"\[environments\.x\]: conda and venv contradict each other"),
        (
            "[environments.x]\nconda = 'a'\npython = 'b'\n",
            r"\[environments\.x\]: conda and python contradict each other",
        ),
        (
            "[environments.x]\nmounts = ['a']\n",
            r"\[environments\.x\]: mounts are for a container, but there is no docker",
        ),
        ("interval = 0.01\n", r"interval is 0\.01 s, but must lie between 0\.1 s and 60 s"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bench.toml").write_text(content)
    with pytest.raises(BadRequest, match=message):
        Settings.load({}, tmp_path)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1048576", 2**20), ("0", 0), ("2MiB", 2**21), ("1.5 GB", 1_500_000_000), ("3 gib", 3 * 2**30),
        ("2000kB", 2_000_000), ("1TiB", 2**40), ("5000000 B", 5_000_000),
    ],
)  # fmt: skip
def test_a_size_is_read_with_its_unit(tmp_path: Path, written: str, expected: int) -> None:
    settings = Settings.load({"BENCH_OUTPUT_LIMIT": written}, tmp_path)
    assert settings.output_limit == expected
    assert Settings.load(settings.environment(), tmp_path) == settings


def test_a_missing_secret_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="BENCH_DSN_FILE cannot be read: No such file"):
        Settings.load({"BENCH_DSN_FILE": str(tmp_path / "nothing")}, tmp_path)


def test_a_file_counts_from_bench_toml_and_a_bucket_is_none(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "bench.toml").write_text('web_config = "tls/web.yml"\nartifacts = "kept"\n')
    settings = Settings.load({}, below)
    assert (settings.web_config, settings.artifacts) == (tmp_path / "tls/web.yml", str(tmp_path / "kept"))
    settings = Settings.load({"BENCH_ARTIFACTS": "s3://runs/lab"}, below)
    assert settings.artifacts == "s3://runs/lab"
    assert Settings.load(settings.environment(), tmp_path) == settings
