"""GPU training: a transformer in PyTorch on the first GPU, large enough that the GPU limits it, not the CPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from benchmarks.training.members import Members
from hypergauge.gpu.inventory import inventory

__all__ = ["members", "runs_here"]

WIDTH, HEADS, LAYERS = 2048, 16, 4
BATCH, TOKENS = 16, 512


def runs_here() -> bool:
    """Return whether this host has a GPU and PyTorch."""
    return importlib.util.find_spec("torch") is not None and bool(inventory().gpus)


def members(_: int, __: Path) -> Members:
    """Return one trainer."""
    return {"trainer-0": _steps}


def _steps() -> Iterator[None]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randn(BATCH, TOKENS, WIDTH, device="cuda")
    while True:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = (model(tokens) - tokens).pow(2).mean()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the GPU
        yield
