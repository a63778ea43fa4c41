"""How long every method takes to learn 100,000 vectors of 128 numbers at 64 bits.

    python benchmarks/rivals_training_time.py
    python benchmarks/rivals_training_time.py --methods ITQ BinaryAutoencoder

Draws a progress bar per method, prints one line each, and ends with an error if a method takes
more than five minutes. The vectors are the first of SIFT photos if the folder SGHASH_DATA holds
them, else synthetic ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from tqdm import tqdm

import sghash
from sghash.errors import MissingData
from sghash.models import model_class
from sghash.models.base import Progress

LIMIT_SECONDS = 300.0
QUANTIZERS = {"PQ": False, "OPQ": True}
HASHING = [
    name
    for name in sorted(sghash.MODELS)
    if (can := model_class(name)().capabilities).codes == "bits" and can.extra is None
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    every = [*HASHING, *QUANTIZERS]
    parser.add_argument("--methods", nargs="+", default=every, choices=every, metavar="METHOD")
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--bits", type=int, default=64)
    options = parser.parse_args()
    vectors = training_vectors(options.vectors)
    late = []
    for method in options.methods:
        start = time.perf_counter()
        with Bar(method) as bar:
            model = make(method, options.bits, bar).fit(vectors)
        trained = time.perf_counter()
        model.encode(vectors)
        encoded = time.perf_counter() - trained
        print(f"{method:20} trained in {trained - start:6.1f} s, encoded in {encoded:5.2f} s")
        if trained - start > LIMIT_SECONDS:
            late.append(method)
    if late:
        sys.exit(f"more than {LIMIT_SECONDS:.0f} s: {', '.join(late)}")


def make(method: str, n_bits: int, bar: Bar) -> Any:
    if method in QUANTIZERS:
        return sghash.ProductQuantizer(
            n_parts=n_bits // 8, rotate=QUANTIZERS[method], callback=bar, random_state=0
        )
    model = model_class(method)(n_bits=n_bits)
    wanted = {"callback": bar, "random_state": 0}
    return model.set_params(**{k: v for k, v in wanted.items() if k in model.get_params()})


def training_vectors(n: int) -> np.ndarray:
    try:
        return sghash.load_dataset("sift-photos", fetch=False).base.read(0, n).astype(np.float32)
    except MissingData:
        rng = np.random.default_rng(0)
        return (rng.normal(size=(n, 128)) * np.linspace(3, 0.3, 128)).astype(np.float32)


class Bar:
    """A progress bar that takes a model's reports."""

    def __init__(self, label: str) -> None:
        self._bar = tqdm(desc=label, leave=False, file=sys.stderr)

    def __call__(self, progress: Progress) -> None:
        self._bar.total = progress.total
        self._bar.n = progress.step
        self._bar.set_postfix({k: f"{v:.4g}" for k, v in progress.values.items()}, refresh=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()


if __name__ == "__main__":
    main()
