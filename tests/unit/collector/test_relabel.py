"""Relabeling: the cases of Prometheus's own tests, and refusals."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hypergauge.collector.discovery.relabel import ACTIONS, Rule, RuleRefused, relabel

ABC = {"a": "foo", "b": "bar", "c": "baz"}

# Labels, rules and results, mostly from Prometheus's relabel_test.go.
CASES: list[tuple[dict[str, str], list[dict[str, Any]], dict[str, str] | None]] = [
    (
        ABC,
        [{"source_labels": ("a",), "regex": "f(.*)", "target_label": "d", "separator": ";", "replacement": "ch${1}-ch${1}"}],
        {**ABC, "d": "choo-choo"},
    ),
    (
        ABC,
        [
            {"source_labels": ("a", "b"), "regex": "f(.*);(.*)r", "target_label": "a", "replacement": "b${1}${2}m"},
            {"source_labels": ("c", "a"), "regex": "(b).*b(.*)ba(.*)", "target_label": "d", "replacement": "$1$2$2$3"},
        ],
        {"a": "boobam", "b": "bar", "c": "baz", "d": "boooom"},
    ),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": ".*o.*", "action": "drop"}], None),
    ({"a": "foo", "b": "bar"}, [{"source_labels": ("a",), "regex": "no-match", "action": "drop"}], {"a": "foo", "b": "bar"}),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": "f|o", "action": "drop"}], {"a": "foo"}),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": "no-match", "action": "keep"}], None),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": "f.*", "action": "keep"}], {"a": "foo"}),
    ({"a": "boo"}, [{"source_labels": ("a",), "regex": "f.*", "target_label": "b", "replacement": "bar"}], {"a": "boo"}),
    ({"a": "foo"}, [{"source_labels": ("a",), "target_label": "b"}], {"a": "foo", "b": "foo"}),
    ({"a": "foo", "b": "bar"}, [{"source_labels": ("a",), "target_label": "b", "replacement": ""}], {"a": "foo"}),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": "f(.*)", "target_label": "$1-x", "replacement": "x"}], {"a": "foo", "oo-x": "x"}),
    ({"a": "foo"}, [{"source_labels": ("a",), "regex": "foo(.*)", "target_label": "$1", "replacement": "x"}], {"a": "foo"}),
    (
        {"utf-8.label": "line1\nline2"},
        [{"source_labels": ("utf-8.label",), "regex": "line1.*line2", "target_label": "d", "replacement": "match${1}"}],
        {"utf-8.label": "line1\nline2", "d": "match"},
    ),
    (
        {"a": "line1\nline2"},
        [{"source_labels": ("a",), "regex": "line1.*line2", "target_label": "utf-8.label${1}", "replacement": "match${1}"}],
        {"a": "line1\nline2", "utf-8.label": "match"},
    ),
    (
        {"a": "line1\nline2"},
        [
            {"source_labels": ("a",), "regex": "(line1).*(?P<second>line2)", "target_label": "label1_${1}", "replacement": "val_${second}"},
            {"source_labels": ("a",), "regex": "(line1).*(?P<second>line2)", "target_label": "label2_$1", "replacement": "val_$second"},
        ],
        {"a": "line1\nline2", "label1_line1": "val_line2", "label2_line1": "val_line2"},
    ),
    (
        {"a": "some-name-value"},
        [{"source_labels": ("a",), "regex": "some-([^-]+)-([^,]+)", "target_label": "${1}", "replacement": "${2}"}],
        {"a": "some-name-value", "name": "value"},
    ),
    (
        {"a": "some-na-me-value"},
        [{"source_labels": ("a",), "regex": "some-(.+)-([^-]+)", "target_label": "${1}", "replacement": "${2}"}],
        {"a": "some-na-me-value", "na-me": "value"},
    ),
    (
        {"__meta_sd_tags": "path:/secret,job:some-job,label:foo=bar"},
        [
            {"source_labels": ("__meta_sd_tags",), "regex": "(?:.+,|^)path:(/[^,]+).*", "target_label": "__metrics_path__"},
            {"source_labels": ("__meta_sd_tags",), "regex": "(?:.+,|^)job:([^,]+).*", "target_label": "job"},
            {
                "source_labels": ("__meta_sd_tags",), "regex": "(?:.+,|^)label:([^=]+)=([^,]+).*",
                "target_label": "${1}", "replacement": "${2}",
            },
        ],
        {
            "__meta_sd_tags": "path:/secret,job:some-job,label:foo=bar",
            "__metrics_path__": "/secret", "job": "some-job", "foo": "bar",
        },
    ),
    (ABC, [{"source_labels": ("c",), "target_label": "d", "modulus": 1000, "action": "hashmod"}], {**ABC, "d": "976"}),
    (
        {"a": "foo\nbar"},
        [{"source_labels": ("a",), "target_label": "b", "modulus": 1000, "action": "hashmod"}],
        {"a": "foo\nbar", "b": "734"},
    ),
    (
        {"a": "foo", "b1": "bar", "b2": "baz"},
        [{"regex": "(b.*)", "replacement": "bar_${1}", "action": "labelmap"}],
        {"a": "foo", "b1": "bar", "b2": "baz", "bar_b1": "bar", "bar_b2": "baz"},
    ),
    (
        {"a": "foo", "__meta_my_bar": "aaa", "__meta_my_baz": "bbb", "__meta_other": "ccc"},
        [{"regex": "__meta_(my.*)", "replacement": "${1}", "action": "labelmap"}],
        {
            "a": "foo", "__meta_my_bar": "aaa", "__meta_my_baz": "bbb", "__meta_other": "ccc",
            "my_bar": "aaa", "my_baz": "bbb",
        },
    ),
    ({"a": "foo", "b1": "bar", "b2": "baz"}, [{"regex": "(b.*)", "action": "labeldrop"}], {"a": "foo"}),
    ({"a": "foo", "b1": "bar", "b2": "baz"}, [{"regex": "(b.*)", "action": "labelkeep"}], {"b1": "bar", "b2": "baz"}),
    (
        {"foo": "bAr123Foo"},
        [
            {"source_labels": ("foo",), "action": "uppercase", "target_label": "up"},
            {"source_labels": ("foo",), "action": "lowercase", "target_label": "low"},
        ],
        {"foo": "bAr123Foo", "low": "bar123foo", "up": "BAR123FOO"},
    ),
    ({"a": "x", "b": "x"}, [{"source_labels": ("a",), "target_label": "b", "action": "keepequal"}], {"a": "x", "b": "x"}),
    ({"a": "x", "b": "y"}, [{"source_labels": ("a",), "target_label": "b", "action": "keepequal"}], None),
    ({"a": "x", "b": "y"}, [{"source_labels": ("a",), "target_label": "b", "action": "dropequal"}], {"a": "x", "b": "y"}),
    ({"a": "x", "b": "x"}, [{"source_labels": ("a",), "target_label": "b", "action": "dropequal"}], None),
    ({"a": "foo", "b": ""}, [], {"a": "foo"}),
    ({"a": "1\n2"}, [{"source_labels": ("a",), "regex": "1.2", "target_label": "b", "replacement": "yes"}], {"a": "1\n2", "b": "yes"}),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "rules", "expected"), CASES)
def test_prometheus_own_cases(
    labels: dict[str, str], rules: list[dict[str, Any]], expected: dict[str, str] | None
) -> None:
    try:
        made = [Rule(**rule) for rule in rules]
    except RuleRefused:
        assert expected is None
        return
    assert relabel(labels, made) == expected


def test_hashmod_gives_prometheus_shards() -> None:
    """A shard is the last 8 bytes of MD5, big-endian. Prometheus's own tests have the values above."""
    for text in ("", "n1:9100", "ß"):
        digest = hashlib.md5(text.encode()).digest()
        rule = Rule(action="hashmod", source_labels=("a",), target_label="shard", modulus=1 << 60)
        found = relabel({"a": text, "x": "y"}, [rule])
        assert found is not None
        assert int(found["shard"]) == int.from_bytes(digest[8:], "big") % (1 << 60)


def test_rules_after_a_drop_are_skipped() -> None:
    rules = [Rule(action="drop", source_labels=("a",), regex="x"), Rule(target_label="b", replacement="y")]
    assert relabel({"a": "x"}, rules) is None


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({"action": "replace"}, "target_label", "replace needs a target_label"),
        ({"action": "hashmod", "target_label": "a"}, "modulus", "hashmod needs a modulus above 0"),
        ({"action": "lowercase"}, "target_label", "lowercase needs a target_label"),
        ({"target_label": "a\0b"}, "target_label", r"'a\x00b' cannot be a label's name"),
        ({"action": "lowercase", "target_label": "a\ud800"}, "target_label", "cannot be a label's name"),
        ({"action": "uppercase", "target_label": "a", "replacement": "x"}, "replacement", "uppercase does not use"),
        ({"action": "labelmap", "replacement": ""}, "replacement", "'' cannot be a label's name"),
        ({"action": "labeldrop", "source_labels": ("a",)}, "source_labels", "labeldrop does not use source_labels"),
        ({"action": "labelkeep", "separator": ","}, "separator", "labelkeep does not use separator"),
        ({"action": "keepequal", "target_label": "a", "regex": "x"}, "regex", "keepequal does not use regex"),
        ({"target_label": "a", "regex": "("}, "regex", "not a regular expression of RE2: missing )"),
        ({"target_label": "a", "regex": "(?=x)"}, "regex", "not a regular expression of RE2"),
        ({"target_label": "a", "regex": r"(a)\1"}, "regex", "not a regular expression of RE2"),
    ],
)
def test_invalid_rules_are_refused(rule: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(RuleRefused) as refused:
        Rule(**rule)
    assert refused.value.field == field
    assert message in str(refused.value)


def test_matching_is_linear() -> None:
    """Python's regular expressions would take longer than the age of the universe."""
    rule = Rule(action="keep", source_labels=("a",), regex="(a+)+b")
    assert relabel({"a": "a" * 5000}, [rule]) is None


def test_all_actions_of_prometheus_exist() -> None:
    assert len(ACTIONS) == 11
