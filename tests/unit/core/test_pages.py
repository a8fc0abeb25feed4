"""Pages that errors and findings name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.pages import BASE, Page
from hypergauge.gpu.mig import NotPermitted

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", Page)
def test_a_page_and_its_anchor_exist(page: Page) -> None:
    file, _, anchor = page.address.partition("#")
    headings = re.findall(r"^##+ (.*)$", (ROOT / file).read_text(), re.MULTILINE)
    assert anchor in {"", *(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)}


def test_an_error_names_its_page_once() -> None:
    named = f" (see {BASE}how-to/mig.md)"
    assert str(NotPermitted("no")) == f"no{named}"
    assert str(NotPermitted(str(NotPermitted("no")))) == f"no{named}"
    assert str(NotPermitted("no", page=Page.TLS)).endswith("tls.md)")
    assert str(BadRequest("no", file="a.csv", line=2, page=Page.MIG)) == f"a.csv:2: no{named}"
    assert str(BenchError()) == "Something went wrong."
