"""Speed of SGH.encode beside the bare matrix product it contains: 500,000 x 128 x 64.

    python benchmarks/sgh_encode.py [--rounds 9] [--rows 500000] [--hidden 512] [--width 384]
    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python benchmarks/sgh_encode.py   # on one core

They take turns; the median of the rounds' ratios counts. For uint8 vectors the bare product
includes the conversion to float32, which no product can do without; the ratio to the product of
vectors that are float32 already stands beside it.

A model with a hidden layer is compared with the linear one on vectors as wide as MiniLM's, and its
time per vector with what making such a vector takes. No embedding model runs here: its time is the
arithmetic of MiniLM-L6 on a text of 128 tokens (22.7 million parameters, two operations each per
token, so 5.8 GFlop; attention itself is left out) at the rate of this machine's own float32 matrix
product. A real model is slower than that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring.verdicts import at_least, at_most, line

from sghash import SGH
from sghash.experiments.hashing import known_models

TARGET = at_least(0.85)
#: Of a model with a hidden layer, as a multiple of the linear one's time.
HIDDEN_TARGET = at_most(8.0)
EMBEDDING_FLOP = 2 * 22.7e6 * 128
#: Rows, columns and depth of the product that tells the machine's rate: a layer of MiniLM-L6.
RATE_SHAPE = (1280, 1536, 384)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of every contender, round by round, after one round that compiles."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    for _ in range(rounds):
        for name, work in contenders.items():
            times[name].append(seconds(work))
    for name, values in times.items():
        print(f"{name:<24} median {np.median(values):.4f} s, best {min(values):.4f} s")
    return {name: np.array(values) for name, values in times.items()}


def ratio(times: dict[str, np.ndarray], one: str, other: str) -> float:
    """Median over rounds of the time of `one` as a multiple of that of `other`."""
    return float(np.median(times[one] / times[other]))


def beside_products(n: int, rounds: int) -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 256, (n, 128), dtype=np.uint8)
    real = whole.astype(np.float32)
    model = SGH(n_bits=64, n_steps=50, random_state=0).fit(whole[:20_000])
    weights = model.encoder_weights_
    contenders: dict[str, Callable[[], object]] = {
        "product float32": lambda: real @ weights,
        "encode float32": lambda: model.encode(real),
        "product uint8": lambda: whole.astype(np.float32) @ weights,
        "encode uint8": lambda: model.encode(whole),
    }
    times = in_turns(contenders, rounds)
    for encode, product in (
        ("encode float32", "product float32"),
        ("encode uint8", "product uint8"),
        ("encode uint8", "product float32"),
    ):
        print(line(f"speed of {encode} / {product}", ratio(times, product, encode), TARGET))


def beside_linear(n: int, width: int, hidden: int, rounds: int) -> None:
    """A hidden layer beside none, and beside making the vectors."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, width), dtype=np.float32)

    def fitted(**options: Any) -> SGH:
        model = SGH(n_bits=64, n_steps=20, random_state=0, **options)
        return model.fit(vectors[:5000])

    linear, layered = fitted(neighbors=10), fitted(neighbors=10, hidden=hidden)
    a, b, depth = RATE_SHAPE
    left, right = (rng.standard_normal(s, dtype=np.float32) for s in ((a, depth), (depth, b)))
    contenders: dict[str, Callable[[], object]] = {
        "linear": lambda: linear.encode(vectors),
        f"hidden={hidden}": lambda: layered.encode(vectors),
        "one layer of MiniLM-L6": lambda: left @ right,
    }
    times = in_turns(contenders, rounds)
    name = f"time of hidden={hidden} / linear, {width} columns, 64 bits"
    print(line(name, ratio(times, f"hidden={hidden}", "linear"), HIDDEN_TARGET))
    rate = 2 * a * b * depth / float(np.median(times["one layer of MiniLM-L6"]))
    embedding = EMBEDDING_FLOP / rate * 1e6
    for kind in ("linear", f"hidden={hidden}"):
        each = float(np.median(times[kind])) / n * 1e6
        print(
            f"{kind}: {each:.2f} microseconds per vector, {100 * each / embedding:.3f} % of the "
            f"{embedding:,.0f} that MiniLM-L6 takes per text of 128 tokens at {rate / 1e9:.0f} "
            "GFlop/s (computed, not run: 5.8 GFlop at this machine's float32 product)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--width", type=int, default=384)
    options = parser.parse_args()
    beside_products(options.rows, options.rounds)
    if known_models([f"SGH(hidden={options.hidden})"]):
        beside_linear(options.rows // 10, options.width, options.hidden, options.rounds)
    else:
        print("this version has no SGH(hidden=...): left out")


if __name__ == "__main__":
    main()
