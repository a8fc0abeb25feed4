"""Groups of targets with labels: the form of ``static_configs``, ``file_sd`` and HTTP service discovery."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hypergauge.core.config.document import Scalar
from hypergauge.core.config.model import Items, Refused, Section

__all__ = ["Group"]

# Any text, as in Prometheus 3; PostgreSQL stores neither a NUL nor invalid UTF-8.
_LABEL = re.compile("[^\0\ud800-\udfff]+")


class Group(Section):
    """Addresses and their common labels."""

    expected: ClassVar[str] = "a group, with targets and labels"

    targets: Items[Scalar] = Field(description="a list of targets, each as host:port")
    labels: dict[Scalar, Scalar] = Field({}, description="labels, each as name: value")

    @field_validator("labels")
    @classmethod
    def _names(cls, labels: dict[Scalar, Scalar]) -> dict[Scalar, Scalar]:
        for name in labels:
            if not _LABEL.fullmatch(name):
                message = f"{str(name)!r} cannot be a label's name: it is empty, or contains invalid UTF-8 or a NUL"
                raise Refused(name, message, at_key=True)
        return labels

    @model_validator(mode="after")
    def _collect(self, info: ValidationInfo) -> Self:
        """Add a group without errors to the context's ``groups``, so that its targets are checked too."""
        if info.context is not None:
            info.context.setdefault("groups", []).append(self)
        return self
