"""Small data that the scripts of other projects expect, made here."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

__all__ = ["MAKERS"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz     \n.,"


def _mnist(folder: Path) -> None:
    """Write 640 images for training and 128 for tests in MNIST's own format: noise, brighter by digit."""
    raw = folder / "MNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    for name, count in (("train", 640), ("t10k", 128)):
        labels = bytes(generator.randrange(10) for _ in range(count))
        images = b"".join(bytes(generator.randrange(25 * label + 1) for _ in range(784)) for label in labels)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images)
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def _lightning_mnist(folder: Path) -> None:
    """Write MNIST as Lightning's own data set reads it, and as torchvision does."""
    import torch

    _mnist(folder)
    processed = folder / "MNIST/processed"
    processed.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    for name, count in (("training.pt", 640), ("test.pt", 128)):
        images = torch.randint(0, 255, (count, 28, 28), generator=generator, dtype=torch.uint8)
        torch.save((images, torch.randint(0, 10, (count,), generator=generator)), processed / name)


def _folder(folder: Path) -> None:
    """Make the folder alone."""
    folder.mkdir(parents=True, exist_ok=True)


def _sines(path: Path) -> None:
    """Write four sine waves of 200 points."""
    import numpy as np
    import torch

    starts = np.array([[0], [7], [19], [31]])
    torch.save(torch.from_numpy(np.sin((starts + np.arange(200)) / 20.0)).numpy(), path)


def _text(folder: Path) -> None:
    """Write 6,000 words for training and fewer for tests."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    for name, count in (("train", 6000), ("valid", 600), ("test", 600)):
        words = [f"w{generator.randrange(50)}" for _ in range(count)]
        lines = (" ".join(words[start : start + 20]) for start in range(0, count, 20))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


def _characters(folder: Path) -> None:
    """Write tokens of characters as nanoGPT's preparation does."""
    import pickle

    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    for name, count in (("train.bin", 20000), ("val.bin", 4000)):
        tokens = [generator.randrange(len(_LETTERS)) for _ in range(count)]
        (folder / name).write_bytes(struct.pack(f"<{count}H", *tokens))
    index = dict(enumerate(_LETTERS))
    meta = {"vocab_size": len(_LETTERS), "itos": index, "stoi": {letter: key for key, letter in index.items()}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def _images(folder: Path) -> None:
    """Write four pictures of 280 by 280 pixels."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(4):
        pixels = random.Random(seed).randbytes(280 * 280 * 3)
        Image.frombytes("RGB", (280, 280), pixels).save(folder / f"{seed}.png")


def _language_model(folder: Path) -> None:
    """Write a Llama model of two small layers, its tokenizer, and a data set of 32 texts."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3} | {f"w{number}": number + 4 for number in range(50)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.save_pretrained(folder / "model")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    (folder / "data").mkdir(exist_ok=True)
    generator = random.Random(0)
    texts = [" ".join(f"w{generator.randrange(50)}" for _ in range(16)) for _ in range(32)]
    (folder / "data/train.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


# The scripts download data or use too much of it. This one replaces the data, then runs the script as it is.
_KERAS = """\
import runpy, sys
import numpy as np
import keras

keras.utils.set_random_seed(1)
generator = np.random.default_rng(0)


def load_data(*_, **__):
    train = generator.integers(0, 255, (256, 28, 28), dtype=np.uint8), generator.integers(0, 10, 256)
    return train, (generator.integers(0, 255, (64, 28, 28), dtype=np.uint8), generator.integers(0, 10, 64))


keras.datasets.mnist.load_data = load_data
random = np.random.random
np.random.random = lambda shape=None: random((min(shape[0], 256), *shape[1:]) if shape else None)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

_LIGHTNING_TEXT = """\
import runpy, sys
import torch
import lightning
import lightning.pytorch.demos as demos


class WikiText2(torch.utils.data.Dataset):
    vocab_size = 32

    def __len__(self):
        return 4040

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 9) % self.vocab_size
        return tokens[:-1], tokens[1:]


class Trainer(lightning.Trainer):
    def __init__(self, **options):
        options["max_epochs"] = 1
        super().__init__(
            accelerator="cpu", limit_val_batches=2, limit_test_batches=2, enable_progress_bar=False, **options
        )


demos.WikiText2 = WikiText2
lightning.Trainer = Trainer
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _writer(text: str) -> Callable[[Path], None]:
    """Return a maker that writes this text."""

    def write(path: Path) -> None:
        path.write_text(text)

    return write


MAKERS: dict[str, Callable[[Path], None]] = {
    "mnist": _mnist,
    "lightning-mnist": _lightning_mnist,
    "folder": _folder,
    "sines": _sines,
    "text": _text,
    "characters": _characters,
    "images": _images,
    "language-model": _language_model,
    "keras": _writer(_KERAS),
    "lightning-text": _writer(_LIGHTNING_TEXT),
}

if __name__ == "__main__":
    import sys

    for request in sys.argv[1:]:
        maker, _, path = request.partition(":")
        MAKERS[maker](Path(path))
