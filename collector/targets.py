"""What is scraped, and when: targets files in Prometheus's ``file_sd`` form, and the schedule of one target."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode

import yaml

from bench.errors import BadRequest, did_you_mean

__all__ = ["Target", "aligned", "check_targets", "offset", "read_targets"]

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>.*))?")
_DURATION = re.compile(r"(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """One place to scrape.

    Attributes
    ----------
    url
        With scheme, port, path and parameters; no two targets share it.
    host
        The host that its figures are about, by the name that runs are placed on.
    listener
        What Prometheus calls the job.
    instance
        ``host:port``, or what the label of this name says.
    labels
        What is added to each of its series; a label of the series' own goes before it.
    interval
        Seconds from one scrape to the next, 0.1 to 60.
    """

    url: str
    host: str
    listener: str
    instance: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    interval: float = 1.0


def read_targets(path: Path, default_interval: float) -> list[Target]:
    """Read a targets file, YAML or JSON, in the form of Prometheus's ``file_sd``.

    Parameters
    ----------
    default_interval
        Seconds, for targets without ``__scrape_interval__``.

    Raises
    ------
    BadRequest
        It cannot be read or has an error, with its line and column.
    """
    return list(_Reader(path, default_interval).targets())


def check_targets(path: Path) -> list[Target]:
    """Return the targets of the file `path`, or raise what `read_targets` would."""
    return read_targets(path, default_interval=1.0)


def offset(target: Target) -> float:
    """Return the seconds by which `target`'s scrapes lie behind the multiples of its interval in Unix time.

    It follows from the URL alone, as in Prometheus, so that targets are spread and a restart moves none.
    """
    digest = hashlib.blake2b(target.url.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * target.interval


def aligned(scheduled: float, actual: float, interval: float) -> float:
    """Return the time that a scrape's samples get: `scheduled` if `actual` is near, else `actual`. Unix seconds.

    Even times compress to almost nothing where a jitter of milliseconds costs two bytes a sample. Near is within 1 %
    of the interval, and 10 ms at most; Prometheus allows 2 ms, which Go's timers keep and a Python event loop with
    hundreds of targets does not.
    """
    return scheduled if abs(actual - scheduled) <= min(0.010, 0.01 * interval) else actual


class _Reader:
    """Reads one file. Works on YAML's nodes, since only these know where they stand."""

    def __init__(self, path: Path, default_interval: float) -> None:
        self._path = path
        self._default_interval = default_interval
        self._seen: dict[str, int] = {}

    def targets(self) -> Iterator[Target]:
        root = self._compose()
        if root is None:
            raise BadRequest("holds no list of targets", file=self._path)
        for group in self._items(root, "a list of groups, each with targets and labels"):
            fields = self._fields(group, "a group, with targets and labels")
            for name, (key, _) in fields.items():
                if name not in ("targets", "labels"):
                    self._fail(key, f"unknown key {name!r}{did_you_mean(name, ['targets', 'labels'])}")
            if "targets" not in fields:
                self._fail(group, "the group has no targets")
            labels = self._labels(fields["labels"][1]) if "labels" in fields else {}
            for node in self._items(fields["targets"][1], "a list of targets, each as host:port"):
                yield self._target(node, labels)

    def _compose(self) -> yaml.Node | None:
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise BadRequest(f"cannot be read: {error.strerror}", file=self._path) from error
        except UnicodeDecodeError as error:
            raise BadRequest("is not a text in UTF-8", file=self._path) from error
        if self._path.suffix == ".json":  # YAML knows no tabs for indentation; a raw one stands nowhere else in JSON
            text = text.replace("\t", " ")
        try:
            node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
            raise BadRequest(f"not valid YAML: {error.problem}", file=self._path, line=line, column=column) from error
        except yaml.YAMLError as error:
            raise BadRequest(f"not valid YAML: {error}", file=self._path) from error
        return node

    def _labels(self, node: yaml.Node) -> dict[str, tuple[yaml.Node, str]]:
        labels: dict[str, tuple[yaml.Node, str]] = {}
        for name, (key, value) in self._fields(node, "labels, each as name: value").items():
            if not _LABEL.fullmatch(name):
                self._fail(key, f"{name!r} cannot be a label's name: letters, digits and underscores only")
            if not isinstance(value, yaml.ScalarNode) or value.tag != "tag:yaml.org,2002:str":
                written = f", write {name}: '{value.value}'" if isinstance(value, yaml.ScalarNode) else ""
                self._fail(value, f"the value of label {name!r} is not a string{written}")
            labels[name] = (value, value.value)
        return labels

    def _target(self, node: yaml.Node, labels: dict[str, tuple[yaml.Node, str]]) -> Target:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, "expected a target as host:port")
        given = {name: value for name, (_, value) in labels.items()}
        scheme = given.get("__scheme__", "http")
        if scheme not in _PORTS:
            self._fail(labels["__scheme__"][0], f"unknown scheme {scheme!r}{did_you_mean(scheme, _PORTS)}")
        path = given.get("__metrics_path__", "/metrics")
        if not re.fullmatch(r"/[^?#\s]*", path):
            self._fail(
                labels["__metrics_path__"][0],
                f"{path!r} is not a path: it begins with / and its parameters are labels __param_NAME",
            )
        host, address = self._address(node, node.value, _PORTS[scheme])
        parameters = {name[8:]: value for name, value in given.items() if name.startswith("__param_")}
        url = f"{scheme}://{address}{path}{'?' if parameters else ''}{urlencode(parameters)}"
        if url in self._seen:
            self._fail(node, f"target {node.value!r} stands already in line {self._seen[url]}")
        self._seen[url] = node.start_mark.line + 1
        instance = given.get("instance", address)
        named = _ADDRESS.fullmatch(instance)
        interval = labels.get("__scrape_interval__")
        return Target(
            url=url,
            host=given.get("host") or _host((named["six"] or named["name"]) if named else host),
            listener=given.get("job", self._path.stem),
            instance=instance,
            labels={name: value for name, value in given.items() if not name.startswith("__")},
            interval=self._interval(*interval) if interval else self._default_interval,
        )

    def _address(self, node: yaml.Node, text: str, default_port: int) -> tuple[str, str]:
        """Return the host alone, and ``host:port``."""
        if "://" in text:
            bare = text.partition("://")[2].partition("/")[0]
            self._fail(node, f"{text!r} has a scheme: write {bare!r}, and https as the label __scheme__")
        if "/" in text:
            bare = text.partition("/")[0]
            self._fail(node, f"{text!r} has a path: write {bare!r}, and the path as the label __metrics_path__")
        if not (match := _ADDRESS.fullmatch(text)):
            self._fail(node, f"{text!r} is not a target: write host:port, or [address]:port for IPv6")
        port = match["port"]
        if port is None:
            return match["six"] or match["name"], f"{text}:{default_port}"
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
            self._fail(node, f"the port of {text!r} is not a number from 1 to 65535")
        return match["six"] or match["name"], text

    def _interval(self, node: yaml.Node, text: str) -> float:
        match = _DURATION.fullmatch(text)
        if not match or not text:
            self._fail(node, f"{text!r} is not an interval: write 500ms, 5s or 1m")
        minutes, seconds, milliseconds = (int(part or 0) for part in match.groups())
        interval = minutes * 60 + seconds + milliseconds / 1000
        if not 0.1 <= interval <= 60:
            self._fail(node, f"the interval is {text}, but must lie between 100ms and 1m")
        return interval

    def _items(self, node: yaml.Node, expected: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, f"expected {expected}")
        return list(node.value)

    def _fields(self, node: yaml.Node, expected: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, f"expected {expected}")
        fields: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._fail(key, "expected a name")
            if key.value in fields:
                self._fail(key, f"{key.value!r} stands here twice")
            fields[key.value] = key, value
        return fields

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        mark = node.start_mark
        raise BadRequest(message, file=self._path, line=mark.line + 1, column=mark.column + 1)


def _host(name: str) -> str:
    """Return `name`, or this host's own where it means that."""
    try:
        local = ipaddress.ip_address(name).is_loopback
    except ValueError:
        local = name == "localhost" or name.endswith(".localhost")
    return socket.gethostname() if local else name
