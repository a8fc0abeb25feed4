"""Settings of a server that the user should change."""

from __future__ import annotations

import re

from tests.conftest import Command


def settings_to_change(command: Command) -> set[str]:
    """Return the settings to change by `bench db status` and `bench doctor`, which agree with each other."""
    shown = [command("db", "status")[1], command("db", "status", "--json")[1], command("doctor", "--json")[1]]
    found = [set(re.findall(r"\bset ([\w.]+) =", " ".join(text.split()))) for text in shown]
    assert found[0] == found[1] == found[2]
    return found[0]
