"""Numbers of models in the file of tensors."""

from __future__ import annotations

import json
from pathlib import Path

from hypergauge.client.tensors import TensorFile


class Model:
    """Model that compares by value, and so has no hash."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_a_model_keeps_its_number(tmp_path: Path) -> None:
    file = TensorFile(str(tmp_path / "tensors"))
    first, second = Model(), Model()
    assert [file.number(one) for one in (first, second, first, None, None, second)] == [1, 2, 1, 3, 4, 2]


def test_a_later_model_at_the_same_address_is_another_one(tmp_path: Path) -> None:
    file = TensorFile(str(tmp_path / "tensors"))
    assert [file.number(Model()) for _ in range(3)] == [1, 2, 3]


def test_sets_of_two_models_have_their_numbers(tmp_path: Path) -> None:
    file = TensorFile(str(tmp_path / "tensors"))
    for step, model in enumerate((1, 2, 1)):
        file.write(step, "losses", ["loss"], [1], {"mean": b"\0\0\0\0"}, model=model)
    lines = [json.loads(line) for line in (tmp_path / "tensors").read_text().splitlines()]
    models = [line["set"].split("-")[2] for line in lines]
    assert models == ["1", "1", "2", "2", "1"]
