"""Training of the models of three papers in plain PyTorch, on images that it makes itself.

    python train.py --model resnet50 --pixels 64 --images 4096 --epochs 5

The defaults of `--width` and `--pixels` are a model's size in the papers. Smaller ones train on processors.
"""

import argparse
from collections.abc import Sequence
from typing import Any

try:
    import torch
except ImportError:
    raise SystemExit("this training needs PyTorch: pip install torch") from None
from torch import nn

from hypergauge import track

BLOCKS = {
    "resnet18": (2, 2, 2, 2), "resnet26": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3), "resnet152": (3, 8, 36, 3),
    "efficientnet": (1, 2, 2, 3),
}  # fmt: skip


class Residual(nn.Module):  # type: ignore[misc]
    """Layers whose input is added to their output."""

    def __init__(self, layers: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.layers, self.shortcut = layers, shortcut

    def forward(self, batch: Any) -> Any:
        """Return the sum of both paths."""
        return torch.relu(self.layers(batch) + self.shortcut(batch))


def convolution(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a convolution and its normalization."""
    return [
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
    ]


def basic(inside: int, width: int, stride: int) -> tuple[list[nn.Module], int]:
    """Return the block of ResNet18 and the number of its channels."""
    return [*convolution(inside, width, 3, stride), nn.ReLU(), *convolution(width, width, 3)], width


def bottleneck(inside: int, width: int, stride: int) -> tuple[list[nn.Module], int]:
    """Return the block of deeper ResNets and the number of its channels."""
    layers = [*convolution(inside, width, 1), nn.ReLU(), *convolution(width, width, 3, stride), nn.ReLU()]
    return [*layers, *convolution(width, 4 * width, 1)], 4 * width


def inverted(inside: int, width: int, stride: int) -> tuple[list[nn.Module], int]:
    """Return the block of EfficientNet without its attention, and the number of its channels."""
    wide = 4 * inside
    layers = [*convolution(inside, wide, 1), nn.SiLU(), *convolution(wide, wide, 3, stride, wide), nn.SiLU()]
    return [*layers, *convolution(wide, width, 1)], width


def residual_network(model: str, width: int, classes: int) -> nn.Module:
    """Return a ResNet, or a network of EfficientNet's blocks."""
    block = {"resnet18": basic, "efficientnet": inverted}.get(model, bottleneck)
    layers: list[nn.Module] = [*convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, count in enumerate(BLOCKS[model]):
        for number in range(count):
            stride = 2 if stage and not number else 1
            path, outside = block(inside, width << stage, stride)
            same = stride == 1 and inside == outside
            shortcut = nn.Identity() if same else nn.Sequential(*convolution(inside, outside, 1, stride))
            layers.append(Residual(nn.Sequential(*path), shortcut))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def digit_classifier(width: int, pixels: int, classes: int) -> nn.Module:
    """Return the small network of PyTorch's example for MNIST."""
    flat = 2 * width * ((pixels - 4) // 2) ** 2
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(flat, 4 * width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4 * width, classes),
    )  # fmt: skip


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; the last of repeated ones counts."""
    parser = argparse.ArgumentParser(description="Train a model of three papers on images made here.")
    parser.add_argument("--model", choices=["digits", *BLOCKS], required=True)
    parser.add_argument("--pixels", type=int, default=32, help="height and width of an image")
    parser.add_argument("--width", type=int, help="channels of the first layer; by default those of the paper")
    parser.add_argument("--images", type=int, default=4096, help="images of an epoch")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="threads on processors; 0 for all")
    return parser.parse_args(words)


def main() -> None:
    """Train, and report epochs and steps."""
    chosen = options()
    torch.manual_seed(0)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    width = chosen.width or (32 if chosen.model in ("digits", "efficientnet") else 64)
    if chosen.model == "digits":
        model = digit_classifier(width, chosen.pixels, chosen.classes)
    else:
        model = residual_network(chosen.model, width, chosen.classes)
    model = model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = max(1, chosen.images // chosen.batch_size)
    # One batch of images serves all steps, so that no data loader is measured and memory stays small.
    images = torch.randn(chosen.batch_size, 3, chosen.pixels, chosen.pixels, device=device)
    labels = torch.arange(chosen.batch_size, device=device) % chosen.classes
    images += labels.view(-1, 1, 1, 1) / chosen.classes
    step = 0
    for epoch in range(chosen.epochs):
        with track.epoch(epoch):
            for _ in range(batches):
                with track.step(step):
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(images), labels)
                    loss.backward()
                    optimizer.step()
                step += 1
            # The device works behind; the value waits for it, so an epoch ends when its work has ended.
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
