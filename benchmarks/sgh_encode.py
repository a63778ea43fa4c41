"""Speed of SGH.encode beside the bare matrix product it contains: 500,000 x 128 x 64.

    python benchmarks/sgh_encode.py [--rounds 9]
    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python benchmarks/sgh_encode.py   # on one core

They take turns; the median of the rounds' ratios counts. For uint8 vectors the bare product
includes the conversion to float32, which no product can do without; the ratio to the product of
vectors that are float32 already stands beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from sghash import SGH

TARGET = 0.85


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 256, (500_000, 128), dtype=np.uint8)
    real = whole.astype(np.float32)
    model = SGH(n_bits=64, n_steps=50, random_state=0).fit(whole[:20_000])
    weights = model.encoder_weights_
    contenders: dict[str, Callable[[], object]] = {
        "product float32": lambda: real @ weights,
        "encode float32": lambda: model.encode(real),
        "product uint8": lambda: whole.astype(np.float32) @ weights,
        "encode uint8": lambda: model.encode(whole),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    for _ in range(rounds):
        for name, work in contenders.items():
            times[name].append(seconds(work))
    for name, values in times.items():
        print(f"{name:<16} median {np.median(values):.3f} s, best {min(values):.3f} s")
    for encode, product in (
        ("encode float32", "product float32"),
        ("encode uint8", "product uint8"),
        ("encode uint8", "product float32"),
    ):
        speed = float(np.median(np.array(times[product]) / np.array(times[encode])))
        verdict = "met" if speed >= TARGET else "MISSED"
        print(f"{encode} / {product}: {speed:.2f} of its speed, target >= {TARGET}: {verdict}")


if __name__ == "__main__":
    main()
