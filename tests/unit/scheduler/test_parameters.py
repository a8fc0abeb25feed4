"""Recorded parameters: by name, and without secrets."""

from __future__ import annotations

import shlex

import pytest

from hypergauge.scheduler.experiment.parameters import named, shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--lr", "0.1", "--fast", "data"], {"lr": "0.1", "fast": "data"}),
        (["data", "--fast"], {"arg1": "data", "fast": "true"}),
        (["--batch-size=128", "-n", "-3"], {"batch-size": "128", "n": "-3"}),
        (["--api-key", "abc", "--hub_token=xyz"], {"api-key": "***", "hub_token": "***"}),
        (["--tokenizer", "gpt2", "--tokenize=bpe"], {"tokenizer": "gpt2", "tokenize": "bpe"}),
        (["--max-tokens", "4096", "total_tokens=1e9"], {"max-tokens": "4096", "arg1": "total_tokens=1e9"}),
        (["--tokens", "abc1", "tokens=abc", "--token", "12"], {"tokens": "***", "arg1": "tokens=***", "token": "***"}),
        (["--flag", "--é", "3"], {"flag": "true", "é": "3"}),
        (["--flag", "--ключ=a", "-ß", "--学习率", "0.1"], {"flag": "true", "ключ": "a", "ß": "true", "学习率": "0.1"}),
        (["--flag", "--4bit", "--_private", "--3d=x", "-_"], {"flag": "true", "4bit": "true", "_private": "true", "3d": "x", "_": "true"}),
        (["--note", "-a text", "--offset", "-.5", "--range", "-1e-3"], {"note": "-a text", "offset": "-.5", "range": "-1e-3"}),
        (["--flag", "--_api_key", "abc"], {"flag": "true", "_api_key": "***"}),
        (["--note=two\nlines and = more"], {"note": "two\nlines and = more"}),
        (["-", "--", "---"], {"arg1": "-", "arg2": "--", "arg3": "---"}),
        ([], {}),
    ],
)  # fmt: skip
def test_names(words: list[str], expected: dict[str, str]) -> None:
    assert named(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["env", "API_KEY=x", "A=1", "train.py"], ["env", "API_KEY=***", "A=1", "train.py"]),
        (["train.py", "--password", "hunter2", "--lr=0.1"], ["train.py", "--password", "***", "--lr=0.1"]),
        (["train.py", "--password=hunter2"], ["train.py", "--password=***"]),
        (["train.py", "--ssh-passphrase", "x"], ["train.py", "--ssh-passphrase", "***"]),
        (["docker", "run", "-e", "HF_TOKEN=x", "--env=API_KEY=y"], ["docker", "run", "-e", "HF_TOKEN=***", "--env=API_KEY=***"]),
        (["train.py", "--set", "model.api_key=x=y"], ["train.py", "--set", "model.api_key=***"]),
        (["train.py", "--url=http://host/?lr=1&token=x"], ["train.py", "--url=http://host/?lr=1&token=***"]),
    ],
)  # fmt: skip
def test_a_secret_is_in_no_recorded_command(words: list[str], expected: list[str]) -> None:
    assert shlex.split(shown(words)) == expected
    assert not set(named(words).values()) & {"x", "y", "hunter2", "HF_TOKEN=x", "API_KEY=y", "model.api_key=x=y"}


@pytest.mark.parametrize(
    "words",
    [
        ["java", "-Dn=1", "-jar", "x.jar"],  # `-D n=1` would be another command
        ["train.py", "--color=always", "--lr", "0.1", "--fast", "data", "--name=", "--", "-x=1", "-3", "a=b=c", ""],
    ],
)
def test_a_command_without_a_secret_is_shown_word_for_word(words: list[str]) -> None:
    assert shlex.split(shown(words)) == words
