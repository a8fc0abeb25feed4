"""Rules and actions in bench.toml."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hypergauge.core.config.rule_sections import read_rules
from hypergauge.core.config.rule_settings import RuleSection, RuleSettings
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest

WHOLE = """
interval = 2

[rules]
preset = "aws-docs"
folder = "own"
every = "1 s"
limit = "500 ms"

[rules.LowGPUUtilization]
threshold = 0.5
actions = ["mark", "stop-run", "tell-us", "tell-us"]

[rules.Dataloader]
enabled = false

[actions.tell-us]
webhook = "https://example.org/hook?token=s3cret"

[actions.note]
command = ["logger", "it fired"]
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(WHOLE)
    (tmp_path / "own").mkdir()
    found = read_rules(file)
    assert (found.preset, found.folder) == ("aws-docs", tmp_path / "own")
    assert (found.every, found.limit) == (timedelta(seconds=1), timedelta(seconds=0.5))
    assert found.rules == {
        "LowGPUUtilization": RuleSection({"threshold": 0.5}, ("mark", "stop-run", "tell-us")),
        "Dataloader": RuleSection(enabled=False),
    }
    assert found.action_names() == ("mark", "profile", "stop-run", "stop-workload", "tell-us", "note")
    assert found.actions["note"].command == ("logger", "it fired")
    assert Settings.load({}, tmp_path).interval == 2


def test_an_address_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(WHOLE.replace('folder = "own"', ""))
    assert "s3cret" not in repr(read_rules(file))


def test_defaults_need_no_file(tmp_path: Path) -> None:
    assert read_rules(None) == RuleSettings()
    (tmp_path / "bench.toml").write_text("interval = 2\n")
    assert read_rules(tmp_path / "bench.toml").folder == tmp_path / "rules"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rules = 3\n", r"rules is not a section"),
        ("[rules]\nevry = '1 s'\n", r"bench\.toml: \[rules\]: unknown setting 'evry' \(did you mean 'every'\?\)"),
        ("[rules]\nevery = 10\n", r"\[rules\]: every must be a duration such as '10 s'"),
        ("[rules]\nevery = '10 ms'\n", r"\[rules\]: every is 10 ms, but must lie between 500 ms and 1 h"),
        ("[rules]\nevery = '10 sec'\n", r"\[rules\]: '10 sec' is not a duration: there is no unit 'sec'"),
        ("[rules]\npreset = 3\n", r"\[rules\]: preset must be a string"),
        ("[rules]\nfolder = 'none'\n", r"\[rules\]: there is no folder '.*none'"),
        (
            "[rules.X]\nactions = ['stop-runs']\n",
            r"\[rules\.X\]: there is no action 'stop-runs' \(did you mean 'stop-run'",
        ),
        ("[rules.X]\nactions = 'mark'\n", r"\[rules\.X\]: actions must be a list of strings"),
        ("[rules.X]\nenabled = 1\n", r"\[rules\.X\]: enabled must be true or false"),
        ("actions = 3\n", r"actions is not a section"),
        ("[actions.mark]\ncommand = ['a']\n", r"\[actions\.mark\]: there is an action 'mark' already"),
        ("[actions.'a:b']\ncommand = ['a']\n", r"'a:b' is not a valid name"),
        ("[actions.x]\n", r"\[actions\.x\]: it must have a webhook or a command"),
        ("[actions.x]\ncommand = []\n", r"\[actions\.x\]: command must be a list of strings, the program first"),
        ("[actions.x]\ncommand = 'rm -r /'\n", r"\[actions\.x\]: command must be a list of strings"),
        ("[actions.x]\nwebhok = 'http://a'\n", r"unknown setting 'webhok' \(did you mean 'webhook'\?\)"),
        ("[actions.x]\nwebhook = 'file:///etc/passwd'\n", r"\[actions\.x\]: webhook must be an http or https URL$"),
        ("[actions.x]\nwebhook = 'http://[s3cret'\n", r"\[actions\.x\]: webhook must be an http or https URL$"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bench.toml").write_text(content)
    with pytest.raises(BadRequest, match=message):
        read_rules(tmp_path / "bench.toml")
