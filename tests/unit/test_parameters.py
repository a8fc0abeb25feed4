"""Parameters as recorded: by name, and without what looks secret."""

from __future__ import annotations

import pytest

from scheduler.parameters import named, shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--lr", "0.1", "--fast", "data"], {"lr": "0.1", "fast": "data"}),
        (["data", "--fast"], {"arg1": "data", "fast": "true"}),
        (["--batch-size=128", "-n", "-3"], {"batch-size": "128", "n": "-3"}),
        (["--api-key", "abc", "--hub_token=xyz"], {"api-key": "***", "hub_token": "***"}),
        ([], {}),
    ],
)
def test_names(words: list[str], expected: dict[str, str]) -> None:
    assert named(words) == expected


def test_a_secret_is_in_no_recorded_command() -> None:
    assert shown(["env", "API_KEY=x", "A=1", "train.py"]) == "env 'API_KEY=***' A=1 train.py"
    assert shown(["train.py", "--password", "hunter2", "--lr=0.1"]) == "train.py --password '***' --lr 0.1"
