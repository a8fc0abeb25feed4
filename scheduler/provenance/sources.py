"""Source code of a run: commit of its repository, and diff."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hypergauge.scheduler.experiment.parameters import HIDDEN, SECRET

__all__ = ["Sources"]

_GIT_SECONDS = 10.0
MOST_CHARACTERS = 1 << 20

# Bounded, and without the text before it, because lines may be very long.
_NAME = rf"(?:{SECRET})[\w.-]{{0,40}}"
_SECRETS = [
    # Literals after a name that looks secret: `api_key = "…"`, `"token": "…"`, `API_KEY=…`, `password: …`, `--token …`.
    re.compile(
        rf"""({_NAME}["']?\]?\s*(?::\s*\w+\s*)?[:=]\s*)(\"{{3}}|'{{3}}|["'])(?:\\.|(?!\2).)*\2""", re.IGNORECASE
    ),
    re.compile(
        rf"""({_NAME}\s*[:=]\s*|--?[\w-]{{0,40}}{_NAME}\s+)(?![\d.]+\s*$)([^\s"'()\[\]{{}},*]+)(?=\s*$|\s+[#-])""",
        re.I | re.M,
    ),
    re.compile(r"(://[^/\s:@]*:)([^/\s@]+)(?=@)"),
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)([\s\S]*?)(?=-----END|\Z)"),
]


@dataclass(frozen=True, slots=True)
class Sources:
    """State of a folder in git.

    Attributes
    ----------
    root, commit, branch
        Root, commit and branch of the repository. `commit` is ``None`` before the first commit, `branch` if no branch
        is checked out.
    diff
        Diff of tracked files against the commit, with secrets masked and without ``.env`` files.
    digest
        SHA-256 of the full diff in hex, before masking; ``None`` without changes.
    whole
        Whether `diff` is complete; it is cut at `MOST_CHARACTERS` characters.
    problem
        Reason if nothing is known.
    """

    root: str = ""
    commit: str | None = None
    branch: str | None = None
    diff: str = ""
    digest: str | None = None
    whole: bool = True
    problem: str | None = None

    @classmethod
    def of(cls, folders: tuple[Path, ...]) -> Sources | None:
        """Return the state of the first of `folders` that is in a repository; ``None`` if there is none."""
        try:
            for folder in folders:
                lines = _git(folder, "rev-parse", "--show-toplevel", "HEAD", "--abbrev-ref", "HEAD").splitlines()
                if len(lines) == 3 and re.fullmatch(r"[0-9a-f]{40,64}", lines[1]):
                    return cls._with_diff(folder, *lines)
                if lines:
                    return cls(lines[0])
        except FileNotFoundError:
            return None  # git is not installed
        except (OSError, subprocess.TimeoutExpired) as error:
            return cls(problem=str(error))
        return None

    @classmethod
    def _with_diff(cls, folder: Path, root: str, commit: str, branch: str) -> Sources:
        without = [f":(exclude,top,icase,glob)**/{name}" for name in (".env", ".env.*", "*.env", ".envrc")]
        words = ["--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--", ":/", *without]
        whole = _git(folder, "diff", *words)
        diff = _without_secrets(whole[:MOST_CHARACTERS])
        if cut := len(whole) > MOST_CHARACTERS:
            diff += "\n(cut here)\n"
        digest = hashlib.sha256(whole.encode()).hexdigest() if whole else None
        return cls(root, commit, None if branch == "HEAD" else branch, diff, digest, not cut)


def _git(folder: Path, *words: str) -> str:
    """Return the output of a git command."""
    done = subprocess.run(
        ["git", "--no-optional-locks", "-C", str(folder), *words],
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_GIT_SECONDS,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def _without_secrets(diff: str) -> str:
    quoted, *others = _SECRETS
    diff = quoted.sub(rf"\1\2{HIDDEN}\2", diff)
    for pattern in others:
        diff = pattern.sub(rf"\1{HIDDEN}", diff)
    return diff
