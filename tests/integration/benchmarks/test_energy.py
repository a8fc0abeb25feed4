"""Energies of runs against the counter of a simulated GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measurement.energy import energies

SCRIPT = """\
import sys, time

end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_the_parts_of_each_workload_add_up_to_the_counter(tmp_path: Path) -> None:
    script = tmp_path / "spin.py"
    script.write_text(SCRIPT)
    found = energies(script, "5", simulate="1xH100")
    assert {name for name in found if name.endswith("_divided")} == {
        "energy_alone_divided",
        "energy_turns_divided",
        "energy_mps_divided",
    }
    assert all(value == pytest.approx(1, rel=0.1) for name, value in found.items() if name.endswith("_divided"))
    # A sample over the start or the end of a run has its mean power in both parts.
    assert all(0.5 < float(value) < 1.5 for value in found.values())
