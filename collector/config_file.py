"""A targets file: a list in ``file_sd`` form, or ``scrape_configs`` as a prometheus.yml has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bench.document import Document, Fields
from bench.errors import BadRequest, did_you_mean
from collector import foreign
from collector.access import TLS, Access, Secret
from collector.groups import read_groups
from collector.relabel import ACTIONS, Rule, RuleRefused
from collector.scrape_config import Announced, Files, Limits, ScrapeConfig, Scraping, Slurm, Web

__all__ = ["read_config"]

_LIMITS = tuple(limit.name for limit in fields(Limits))
_ACCESS = ("basic_auth", "authorization", "bearer_token", "bearer_token_file", "tls_config", "follow_redirects")
_JOB = (
    "job_name", "scrape_interval", "scrape_timeout", "metrics_path", "scheme", "params", "honor_labels",
    "honor_timestamps", "static_configs", "file_sd_configs", "http_sd_configs", "announced_sd_configs",
    "slurm_sd_configs", "relabel_configs", "metric_relabel_configs", *_ACCESS, *_LIMITS,
)  # fmt: skip
_PATTERN = re.compile(r".*\.(json|yml|yaml)")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def read_config(path: Path, default_interval: float) -> tuple[ScrapeConfig, ...]:
    """Read a targets file, YAML or JSON; a list is a job that is named as the file and found in it.

    Parameters
    ----------
    default_interval
        Seconds, where nothing says ``scrape_interval``.

    Raises
    ------
    BadRequest
        It cannot be read or has an error, with its line and column.
    """
    document = Document.read(path)
    if document.root is None:
        raise BadRequest("holds no list of targets, and no scrape_configs", file=path)
    if isinstance(document.root, yaml.MappingNode):
        return _Reader(document, path.parent, default_interval).configs(document.root)
    if not isinstance(document.root, yaml.SequenceNode):
        document.fail(document.root, "expected a list of groups, each with targets and labels, or scrape_configs")
    groups = read_groups(document, document.root)
    return (ScrapeConfig(path.stem, default_interval, static=groups, document=document, folder=path.parent),)


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    folder: Path
    interval: float

    def configs(self, root: yaml.Node) -> tuple[ScrapeConfig, ...]:
        """Return what ``scrape_configs`` says. What does not concern scraping is passed over."""
        if "targets" in self.document.fields(root, "a mapping with scrape_configs"):
            self.document.fail(root, "expected a list of groups, each with targets and labels, or scrape_configs")
        known = ("global", "scrape_configs", *foreign.PASSED_OVER)
        sections = self.document.fields(root, "a mapping with scrape_configs", known, foreign.SECTIONS)
        if "scrape_configs" not in sections:
            self.document.fail(root, "there are no scrape_configs")
        common: Fields = {}
        if "global" in sections:
            names = ("scrape_interval", "scrape_timeout", *_LIMITS, *foreign.GLOBAL_PASSED_OVER)
            common = self.document.fields(sections["global"][1], "a mapping", names, foreign.GLOBAL)
        jobs: dict[str, ScrapeConfig] = {}
        for node in self.document.items(sections["scrape_configs"][1], "a list of scrape configurations"):
            given = self.document.fields(node, "a scrape configuration", _JOB, foreign.JOB)
            if "job_name" not in given or not (name := self._text(given["job_name"][1])):
                self.document.fail(node, "the scrape configuration has no job_name")
            if name in jobs:
                self.document.fail(given["job_name"][1], f"there are two jobs {name!r}")
            jobs[name] = self._job(name, given, common)
        return tuple(jobs.values())

    def _job(self, name: str, given: Fields, common: Fields) -> ScrapeConfig:
        inherited = {key: value for key, value in common.items() if key in _JOB}
        interval, timeout = self._times(given, inherited)
        path = self._text(given["metrics_path"][1]) if "metrics_path" in given else "/metrics"
        if not re.fullmatch(r"/[^?#\s]*", path):
            self.document.fail(given["metrics_path"][1], f"{path!r} is not a path: it begins with /, and has no params")
        return ScrapeConfig(
            job_name=name,
            interval=interval,
            timeout=timeout,
            metrics_path=path,
            scheme=self._choice(given["scheme"][1], ("http", "https")) if "scheme" in given else "http",
            params=self._params(given),
            scraping=Scraping(
                honor_labels=self._flag(given, "honor_labels", default=False),
                honor_timestamps=self._flag(given, "honor_timestamps", default=True),
                access=self._access(given),
                limits=self._limits({**inherited, **given}),
                metric_relabel=self._rules(given, "metric_relabel_configs"),
            ),
            relabel=self._rules(given, "relabel_configs"),
            static=read_groups(self.document, given["static_configs"][1]) if "static_configs" in given else (),
            files=tuple(self._files(node) for node in self._each(given, "file_sd_configs")),
            services=(
                *(self._web(node) for node in self._each(given, "http_sd_configs")),
                *(self._announced(node) for node in self._each(given, "announced_sd_configs")),
                *(self._slurm(node) for node in self._each(given, "slurm_sd_configs")),
            ),
            document=self.document,
            folder=self.folder,
        )

    def _times(self, given: Fields, inherited: Fields) -> tuple[float, float | None]:
        both = {**inherited, **given}
        interval, timeout = self.interval, None
        if "scrape_interval" in both:
            node = both["scrape_interval"][1]
            interval = self.document.seconds(node, "an interval")
            if not 0.1 <= interval <= 60:
                text = self._text(node)
                self.document.fail(node, f"the interval is {text}, but must lie between 100ms and 1m")
        if "scrape_timeout" in both:
            node = both["scrape_timeout"][1]
            timeout = self.document.seconds(node, "a timeout")
            if "scrape_timeout" not in given:  # of all jobs: as much of it as this one's interval allows
                timeout = min(timeout, interval)
            if not 0 < timeout <= interval:
                self.document.fail(node, f"the timeout must lie above 0 and not above the interval, {interval:g}s")
        return interval, timeout

    def _params(self, given: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if "params" not in given:
            return ()
        named = self.document.fields(given["params"][1], "parameters, each as name: [value, …]")
        return tuple((name, self._texts(node, "a list of values")) for name, (_, node) in named.items())

    def _limits(self, given: Fields) -> Limits:
        found = {name: self.document.count(given[name][1]) for name in _LIMITS[1:] if name in given}
        if "body_size_limit" in given:
            found["body_size_limit"] = self.document.size(given["body_size_limit"][1])
        return Limits(**found)

    def _access(self, given: Fields) -> Access:
        found: dict[str, Any] = {"follow_redirects": self._flag(given, "follow_redirects", default=True)}
        ways = [given[name][0] for name in _ACCESS[:4] if name in given]
        if len(ways) > 1:
            self.document.fail(max(ways, key=lambda key: key.start_mark.index), "there is a second way to log in")
        if "basic_auth" in given:
            names = ("username", "username_file", "password", "password_file")
            login = self.document.fields(given["basic_auth"][1], "a mapping", names)
            found["username"], found["password"] = self._secret(login, "username"), self._secret(login, "password")
        elif "authorization" in given:
            login = self.document.fields(
                given["authorization"][1], "a mapping", ("type", "credentials", "credentials_file")
            )
            found["scheme"] = self._text(login["type"][1]) if "type" in login else "Bearer"
            if not _TOKEN.fullmatch(found["scheme"]):
                self.document.fail(login["type"][1], "the type of an authorization is one word")
            if found["scheme"].lower() == "basic":
                self.document.fail(login["type"][1], "for the type Basic there is basic_auth")
            found["credentials"] = self._secret(login, "credentials")
        else:
            found["credentials"] = self._secret(given, "bearer_token")
        if "tls_config" in given:
            found["tls"] = self._tls(given["tls_config"][1])
        return Access(**found)

    def _tls(self, node: yaml.Node) -> TLS:
        secrets = ("ca", "cert", "key")
        known = (*secrets, *(f"{name}_file" for name in secrets), "server_name", "insecure_skip_verify")
        given = self.document.fields(node, "a mapping", known, foreign.TLS)
        ca, cert, key = (self._secret(given, name) for name in secrets)
        if (cert is None) != (key is None):
            self.document.fail(node, "a certificate and its key go together: cert or cert_file, and key or key_file")
        return TLS(
            ca,
            cert,
            key,
            self._text(given["server_name"][1]) or None if "server_name" in given else None,
            self._flag(given, "insecure_skip_verify", default=False),
        )

    def _secret(self, given: Fields, name: str) -> Secret | None:
        file = f"{name}_file"
        if name in given and file in given:
            self.document.fail(given[file][0], f"there are both {name} and {file}")
        if file in given:
            return Secret(file=self.folder / self._text(given[file][1]))
        return Secret(self._text(given[name][1])) if name in given else None

    def _rules(self, given: Fields, name: str) -> tuple[Rule, ...]:
        return tuple(self._rule(node) for node in self._each(given, name))

    def _rule(self, node: yaml.Node) -> Rule:
        reading: dict[str, Callable[[yaml.Node], Any]] = {
            "action": lambda one: self._choice(one, ACTIONS, fold=True),
            "source_labels": lambda one: self._texts(one, "a list of labels' names"),
            "separator": self._text,
            "regex": self._text,
            "target_label": self._text,
            "replacement": self._text,
            "modulus": self.document.count,
        }
        given = self.document.fields(node, "a rule", reading)
        try:
            return Rule(**{name: reading[name](value) for name, (_, value) in given.items()})
        except RuleRefused as error:
            self.document.fail(given[error.field][1] if error.field in given else node, str(error))

    def _files(self, node: yaml.Node) -> Files:
        given = self.document.fields(node, "a mapping with files", ("files", "refresh_interval"))
        if "files" not in given:
            self.document.fail(node, "there are no files")
        for one in self.document.items(given["files"][1], "a list of files"):
            pattern = self._text(one)
            if not _PATTERN.fullmatch(pattern):
                self.document.fail(one, f"{pattern!r} does not end in .json, .yml or .yaml")
            if any(letter in pattern.rpartition("/")[0] for letter in "*?["):
                self.document.fail(one, f"{pattern!r} has a wildcard that is not in its last part")
        return Files(self._texts(given["files"][1], "a list of files"), self._refresh(given, 300.0))

    def _web(self, node: yaml.Node) -> Web:
        given = self.document.fields(node, "a mapping with url", ("url", "refresh_interval", *_ACCESS), foreign.WEB)
        if "url" not in given:
            self.document.fail(node, "there is no url")
        url = self._text(given["url"][1])
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.password is not None:
            why = "log in by basic_auth" if usable else "write http://host/path"
            self.document.fail(given["url"][1], f"this is no address of a service discovery: {why}")
        return Web(url, self._refresh(given, 60.0), self._access(given))

    def _announced(self, node: yaml.Node) -> Announced:
        given = self.document.fields(node, "a mapping, which may be empty", ("refresh_interval",))
        return Announced(self._refresh(given, 5.0))

    def _slurm(self, node: yaml.Node) -> Slurm:
        known = ("port", "partitions", "refresh_interval")
        given = self.document.fields(node, "a mapping with port", known)
        if "port" not in given:
            self.document.fail(node, "there is no port: that of the listeners on the nodes")
        port = self.document.count(given["port"][1])
        if not 1 <= port <= 65535:
            self.document.fail(given["port"][1], f"the port is {port}, but must lie between 1 and 65535")
        partitions = self._texts(given["partitions"][1], "a list of partitions") if "partitions" in given else ()
        return Slurm(port, partitions, self._refresh(given, 60.0))

    def _refresh(self, given: Fields, default: float) -> float:
        if "refresh_interval" not in given:
            return default
        node = given["refresh_interval"][1]
        if (seconds := self.document.seconds(node, "an interval")) <= 0:
            self.document.fail(node, "the interval must be longer than 0")
        return seconds

    def _each(self, given: Fields, name: str) -> list[yaml.Node]:
        return self.document.items(given[name][1], "a list") if name in given else []

    def _texts(self, node: yaml.Node, expected: str) -> tuple[str, ...]:
        return tuple(self._text(one) for one in self.document.items(node, expected))

    def _text(self, node: yaml.Node) -> str:
        return self.document.text(node, "a string")

    def _flag(self, given: Fields, name: str, *, default: bool) -> bool:
        return self.document.boolean(given[name][1]) if name in given else default

    def _choice(self, node: yaml.Node, choices: tuple[str, ...], *, fold: bool = False) -> str:
        text = self._text(node)
        text = text.lower() if fold else text
        if text not in choices:
            self.document.fail(node, f"unknown {text!r}{did_you_mean(text, choices)}")
        return text
