"""Names of software metrics: which matter most, and whether more or less of them is better."""

from __future__ import annotations

import re

__all__ = ["better", "relevance"]

# By relevance: names, and 1 where more is better, -1 where less is.
_KINDS = tuple(
    (re.compile(words, re.IGNORECASE), sign)
    for words, sign in (
        ("loss", -1),
        (r"(?<![a-z])acc(uracy)?(?![a-z])", 1),
        (r"(?<![a-z])(error|rmse|mse|mae|perplexity|ppl)(?![a-z])", -1),
        (r"(?<![a-z])(f1|auc|bleu|score|r2|precision|recall)(?![a-z])", 1),
    )
)
# MLflow's autologging adds many names with this prefix.
_AUTOLOGGED = "training_"


def relevance(name: str) -> tuple[bool, int]:
    """Return the sort key of a software metric: loss and accuracy first, autologged names last."""
    return name.startswith(_AUTOLOGGED), next(
        (at for at, (words, _) in enumerate(_KINDS) if words.search(name)), len(_KINDS)
    )


def better(name: str) -> int | None:
    """Return 1 if more of a metric is better, -1 if less is, ``None`` if its name does not show it."""
    return next((sign for words, sign in _KINDS if words.search(name)), None)
