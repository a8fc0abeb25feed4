"""Repeated product of two bfloat16 matrices on the GPU: work with a known number of operations.

It prints ``ready`` once the GPU is warm, and at the end in JSON the number of products, the seconds, and the FLOP/s.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

SIZE = 8192


def main() -> None:
    """Multiply for some seconds, or a number of times."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--products", type=int, default=1 << 60)
    options = arguments.parse_args()
    one, two = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(20):
        one @ two
    torch.cuda.synchronize()
    print("ready", flush=True)
    began, products = time.monotonic(), 0
    while products < options.products and time.monotonic() - began < options.seconds:
        for _ in range(min(20, options.products - products)):
            one @ two
            products += 1
        torch.cuda.synchronize()
    seconds = time.monotonic() - began
    print(json.dumps({"products": products, "seconds": seconds, "flops": 2 * SIZE**3 * products / seconds}))


if __name__ == "__main__":
    main()
