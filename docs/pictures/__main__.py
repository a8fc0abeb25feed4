"""Make the pictures of the documentation anew: `python -m docs.pictures`, or `make pictures`.

Recorded sessions and the pictures of dashboards show real runs, so a quiet machine makes better ones. Dashboards need a
running Grafana with our dashboards on the same database: `bench up`, where Grafana is installed, or any other one.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from docs.pictures import dashboards, diagrams
from docs.pictures.sessions import SESSIONS, record_session

_FOLDER = Path(__file__).parent
_PARTS = ("diagrams", "sessions", "experiment", "files", "dashboards")


def main() -> None:
    """Make the chosen pictures, and print their names."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.pictures", description=__doc__.split("\n", 1)[0] if __doc__ else ""
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join((*_PARTS, *SESSIONS))}; by default all")
    parser.add_argument(
        "--home", type=Path, default=os.environ.get("BENCH_HOME", "build/pictures"), help="BENCH_HOME of the runs"
    )
    parser.add_argument("--grafana", help="address of a Grafana with the dashboards, such as http://127.0.0.1:3000")
    options = parser.parse_args()
    home = options.home.resolve()
    experiment = dashboards.Experiment(home)
    for part in options.parts or _PARTS:
        for file in make(part, home, experiment, options.grafana):
            print(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def make(part: str, home: Path, experiment: dashboards.Experiment, grafana: str | None) -> list[Path]:
    """Make one part of the pictures, and return their files."""
    match part:
        case "diagrams":
            return diagrams.draw_all(_FOLDER)
        case "sessions":
            return [record_session(name, _FOLDER, home) for name in SESSIONS]
        case "experiment":
            experiment.run()
            return []
        case "files":
            return dashboards.picture_files(_FOLDER, experiment)
        case "dashboards" if grafana:
            ended = [dashboards.picture_board(name, _FOLDER, grafana, experiment) for name in dashboards.BOARDS]
            return [*ended, dashboards.picture_fleet(_FOLDER, grafana, experiment)]
        case "dashboards":
            print("no pictures of dashboards: --grafana names none")
            return []
        case _ if part in SESSIONS:
            return [record_session(part, _FOLDER, home)]
    raise SystemExit(f"there is no part {part!r}: {', '.join((*_PARTS, *SESSIONS))}")


if __name__ == "__main__":
    main()
