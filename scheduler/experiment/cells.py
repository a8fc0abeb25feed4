"""Parsers of an experiment file's cells: devices, collocation, environment, exporters, parameters, actions, status."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from hypergauge.core import durations
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu.vendors import VENDORS
from hypergauge.scheduler.profilers.word import split_word
from hypergauge.sql.ingest.choices import Choice

__all__ = [
    "LISTENERS",
    "NO_EXPORTER",
    "STATUSES",
    "WRAPPERS",
    "Collocation",
    "Environment",
    "parse_actions",
    "parse_devices",
    "parse_listeners",
    "parse_number",
    "parse_params",
    "parse_status",
]

STATUSES = ("running", "finished", "failed", "stopped", "timeout")
# Statuses of MLflow runs, which radT writes back.
_MLFLOW_STATUSES = {"killed": "stopped", "scheduled": "running"}

LISTENERS = ("host", "process", "nvml", "dcgm", "rapl", "amd", "jetson", "apple", "intel")
WRAPPERS = ("nsys", "ncu", "perf", "perf-record", "py-spy", "torch")
# The word for a run that no exporter measures.
NO_EXPORTER = "none"
_RADT_LISTENERS = {
    "top": ("host", "process"),
    "ps": ("host", "process"),
    "free": ("host", "process"),
    "iostat": ("host", "process"),
    "smi": ("nvml",),
    "dcgmi": ("dcgm",),
    "macmon": ("apple",),
}

# A number, a UUID of NVIDIA or ROCm, or one of `amd-smi`.
_DEVICE = re.compile(r"[0-9]{1,4}|gpu-[0-9a-f-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MIG_PROFILE = re.compile(r"[1-7]g\.[0-9]+gb")
_BARE_PARAMETER = re.compile(r"[^\W\d][\w.-]*=")


@dataclass(frozen=True, slots=True)
class Collocation:
    """Collocation of a run: how it shares its devices.

    Attributes
    ----------
    kind
        ``shared`` without isolation, ``mps`` through an MPS daemon, or ``mig`` on a MIG instance of its own.
    percentage
        Active thread percentage of MPS, 1 to 100; ``None`` for no limit.
    profile
        Profile of the MIG instance, such as ``3g.20gb``.
    """

    kind: Literal["shared", "mps", "mig"] = "shared"
    percentage: int | None = None
    profile: str | None = None

    @classmethod
    def parse(cls, text: str) -> Collocation:
        """Parse ``-``, an empty cell, ``MPS``, ``MPS:NN`` or a MIG profile.

        Raises
        ------
        BadRequest
            The text has another form.
        """
        word = text.lower()
        if word in ("", "-"):
            return cls()
        if word == "mps":
            return cls("mps")
        if _MIG_PROFILE.fullmatch(word):
            return cls("mig", profile=word)
        if percentage := re.fullmatch(r"mps:(.*)", word):
            if not re.fullmatch(r"[0-9]{1,3}", percentage[1]) or not 1 <= int(percentage[1]) <= 100:
                raise BadRequest(f"the active thread percentage of MPS is 1 to 100, not {percentage[1]!r}")
            return cls("mps", percentage=int(percentage[1]))
        raise BadRequest(f"unknown collocation {text!r}{did_you_mean(text, ['-', 'MPS', 'MPS:50', '3g.20gb'])}")

    def __str__(self) -> str:
        if self.kind == "mps":
            return "MPS" if self.percentage is None else f"MPS:{self.percentage}"
        return self.profile or "-"


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment of a run: the origin of its interpreter and packages.

    `kind` is ``self`` for this interpreter, ``venv`` with a path, ``conda`` with a name, ``docker`` with an image, or
    ``named`` with a name from ``bench.toml``; `value` is that path, name or image.
    """

    kind: Literal["self", "venv", "conda", "docker", "named"] = "self"
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Environment:
        """Parse ``-``, an empty cell, ``conda:NAME``, ``venv:PATH``, ``docker:IMAGE`` or a bare name.

        Raises
        ------
        BadRequest
            The prefix is unknown, or the value after the colon is empty.
        """
        if text in ("", "-"):
            return cls()
        prefix, colon, value = text.partition(":")
        if not colon:
            return cls("named", text)
        value = value.strip()
        if not value:
            raise BadRequest(f"environment {text!r} has no value after the colon")
        match prefix.strip().lower():
            case "conda" | "venv" | "docker" as kind:
                return cls(kind, value)
        raise BadRequest(f"unknown kind of environment {prefix!r}{did_you_mean(prefix, ['conda', 'venv', 'docker'])}")

    def __str__(self) -> str:
        match self.kind:
            case "self":
                return "-"
            case "named":
                return self.value
        return f"{self.kind}:{self.value}"


def parse_number(text: str) -> int:
    """Parse the id of an experiment or a workload: at most nine digits, as in a selector."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadRequest(f"must be a whole number of at most 9 digits, not {text!r}")
    return int(text)


def parse_status(text: str) -> str:
    """Return the first word of a status in lower case: ``FINISHED resnet (a)`` is ``finished``.

    An empty status marks a run to do.
    """
    word = text.split(maxsplit=1)[0].lower() if text else ""
    word = _MLFLOW_STATUSES.get(word, word)
    if word and word not in STATUSES:
        raise BadRequest(f"unknown status {word!r}{did_you_mean(word, STATUSES)}")
    return word


def parse_devices(text: str) -> tuple[str, ...]:
    """Split ``0+amd:1`` into device indices or UUIDs, with a vendor if named; an empty cell has no devices."""
    if not text:
        return ()
    words = tuple(word.strip() for word in text.split("+"))
    for word in words:
        vendor, _, name = word.rpartition(":")
        if vendor and vendor.lower() not in VENDORS:
            raise BadRequest(f"{word!r} has an unknown vendor {vendor!r}{did_you_mean(vendor, VENDORS)}")
        if not _DEVICE.fullmatch(name):
            raise BadRequest(f"{word!r} is not a device: write a GPU's index or UUID, or several as 0+1")
    if len(set(words)) < len(words):
        raise BadRequest(f"{text} names a device twice")
    return words


def parse_listeners(text: str) -> tuple[Choice | None, tuple[str, ...]]:
    """Split ``smi@100ms+perf`` into the chosen exporters and the profilers, without duplicates.

    Exporters are ``None`` where the text names none, and empty for ``none``. Unknown names are returned as exporters;
    `hypergauge.scheduler.plan.checks` validates them.

    Raises
    ------
    BadRequest
        A name is empty, an interval is invalid or missing, an exporter has two, ``none`` stands beside an exporter, or the
        options of a profiler are malformed.
    """
    words = [_lower_name(word.strip()) for word in text.split("+")] if text else []
    profilers = {split_word(word)[0]: word for word in words if word.partition("(")[0].strip() in WRAPPERS}
    if "" in words:
        raise BadRequest(f"{text!r} has an empty exporter name")
    named = [word for word in words if word not in profilers.values()]
    if divided := next((word for word in named if re.search(r"[,;]|\w\s+[a-z]", word.partition("@")[0])), None):
        raise BadRequest(f"{divided!r} is not one exporter: join them by +, as in host+process")
    if NO_EXPORTER in named and len(set(named)) > 1:
        raise BadRequest(f"{text!r} names exporters beside {NO_EXPORTER!r}, which means no exporter")
    choice: dict[str, float | None] = {}
    for word in named:
        name, interval = _interval(word)
        for exporter in () if name == NO_EXPORTER else _RADT_LISTENERS.get(name, (name,)):
            if choice.setdefault(exporter, interval) != interval:
                raise BadRequest(f"{text!r} gives {exporter} two intervals")
    return choice if named else None, tuple(profilers.values())


def _lower_name(word: str) -> str:
    """Return a word whose name is in lower case; options may name kernels."""
    name, opened, options = word.partition("(")
    return name.lower() + opened + options


def _interval(word: str) -> tuple[str, float | None]:
    """Split ``smi@100ms`` into a name and seconds; ``None`` without an interval."""
    name, at, written = (part.strip() for part in word.partition("@"))
    if not at:
        return name, None
    if name in WRAPPERS or name == NO_EXPORTER:
        raise BadRequest(f"{word!r} has an interval, which only exporters have")
    try:
        seconds = durations.parse(written).total_seconds()
    except BadRequest as error:
        raise BadRequest(f"the interval of {word!r} is invalid: {error}") from None
    if not 0.1 <= seconds <= 60:
        raise BadRequest(f"the interval of {word!r} must lie between 100 ms and 60 s")
    return name, seconds


def parse_actions(text: str) -> tuple[tuple[str, str], ...]:
    """Split ``IdleDevice:stop-run+CpuSaturated:tell-us`` into pairs of a rule and an action, without duplicates.

    `hypergauge.scheduler.plan.checks` validates the names.
    """
    pairs = []
    for word in text.split("+") if text else []:
        rule, colon, action = (part.strip() for part in word.partition(":"))
        if not (rule and colon and action):
            raise BadRequest(
                f"{word.strip()!r} is not an action: write RULE:ACTION, or several as RULE:ACTION+RULE:ACTION"
            )
        pairs.append((rule, action))
    return tuple(dict.fromkeys(pairs))


def listener_words() -> list[str]:
    """Return all accepted spellings of exporters and profilers, for suggestions in error messages."""
    return [*LISTENERS, *_RADT_LISTENERS, *WRAPPERS, NO_EXPORTER]


def parse_params(text: str) -> list[str]:
    """Split parameters into words as a shell does; a bare ``batch-size=128`` becomes ``--batch-size=128``.

    After an option without ``=`` (``--define batch-size=128``) the bare word is the option's value and stays unchanged.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadRequest(f"the parameters cannot be split into words: {str(error).lower()}") from error
    params: list[str] = []
    for word in words:
        is_value = bool(params) and params[-1].startswith("-") and "=" not in params[-1]
        params.append(f"--{word}" if _BARE_PARAMETER.match(word) and not is_value else word)
    return params
