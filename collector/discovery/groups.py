"""Groups of targets with labels: the form of ``static_configs``, ``file_sd`` and HTTP service discovery."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hypergauge.core.config.document import Scalar
from hypergauge.core.config.model import Items, Refused, Section

__all__ = ["Group"]

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


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
                message = f"{str(name)!r} cannot be a label's name: letters, digits and underscores only"
                raise Refused(name, message, at_key=True)
        return labels

    @model_validator(mode="after")
    def _collect(self, info: ValidationInfo) -> Self:
        """Add a group without errors to the context's ``groups``, so that its targets are checked too."""
        if info.context is not None:
            info.context.setdefault("groups", []).append(self)
        return self
