"""Cost of one training step beside its matrix products alone; growth in n, d and n_bits.

    python benchmarks/sgh_step_cost.py [--rounds 15]

Both take turns in short rounds on one thread; the median of the rounds' ratios counts, so that
other programs on the machine hit both alike. The fit of time to n, d and n_bits is printed with
its residual: linear means an exponent near 1 once the fixed cost is taken off.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from sghash import SGH
from sghash.models.sgh.options import settings_of
from sghash.models.sgh.training.batches import make_batches
from sghash.models.sgh.training.fitting import begin
from sghash.models.shared.blockwise import single_threaded_blas

TARGET = 2.5
BATCH = 500


def seconds(work: Callable[[], object], n: int) -> float:
    # Processor time of this thread, so that other programs on the machine count less.
    start = time.thread_time()
    for _ in range(n):
        work()
    return (time.thread_time() - start) / n


def step_of(vectors: np.ndarray, n_bits: int, gradient: str) -> Callable[[], object]:
    """One whole step: draw the batch, gradient, update."""
    model = SGH(n_bits=n_bits, gradient=gradient, n_steps=10**6, random_state=0)
    rng = np.random.default_rng(0)
    batches, _ = make_batches(vectors, batch_size=BATCH, sampling="passes", held_out=0, rng=rng)
    trainer = begin(settings_of(model), batches.take(2000, rng), 10**6, rng)
    return lambda: trainer.advance(batches)


def products_of(width: int, n_bits: int) -> Callable[[], object]:
    """The five products of a step: x W, h U, r U', h' r, x' g."""
    rng = np.random.default_rng(0)
    x, r = (rng.standard_normal((BATCH, width), dtype=np.float32) for _ in range(2))
    h, g = (rng.standard_normal((BATCH, n_bits), dtype=np.float32) for _ in range(2))
    w, u = rng.standard_normal((width, n_bits), dtype=np.float32), np.empty((n_bits, width), "f4")
    u[...] = w.T
    z, by_w, by_u = np.empty_like(h), np.empty_like(w), np.empty_like(u)

    def products() -> None:
        np.matmul(x, w, out=z)
        np.matmul(h, u, out=r)
        np.matmul(r, u.T, out=z)
        np.matmul(h.T, r, out=by_u)
        np.matmul(x.T, g, out=by_w)

    return products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(1)
    vectors = rng.integers(0, 256, (200_000, 128), dtype=np.uint8)
    with single_threaded_blas():
        print(f"d = 128, 64 bits, batch {BATCH}; microseconds per step, medians")
        for gradient in ("approximate", "distributional", "exact", "straight-through"):
            step, products = step_of(vectors, 64, gradient), products_of(128, 64)
            seconds(step, 20)
            pairs = np.array([(seconds(step, 40), seconds(products, 40)) for _ in range(rounds)])
            ratio = float(np.median(pairs[:, 0] / pairs[:, 1]))
            verdict = "met" if ratio <= TARGET else "MISSED"
            medians = np.median(pairs, axis=0) * 1e6
            print(
                f"  {gradient:<17} step {medians[0]:7.0f}  products {medians[1]:7.0f}  "
                f"ratio {ratio:.2f}  target <= {TARGET}: {verdict}"
            )
        print("growth of a step (approximate), best of the rounds, microseconds")
        for name, cells in (
            ("d", [(width, 64) for width in (64, 128, 256, 512, 1024)]),
            ("n_bits", [(128, n_bits) for n_bits in (16, 32, 64, 128, 256)]),
        ):
            sizes, times = [], []
            for width, n_bits in cells:
                data = rng.standard_normal((20_000, width), dtype=np.float32)
                step = step_of(data, n_bits, "approximate")
                seconds(step, 10)
                times.append(min(seconds(step, 20) for _ in range(rounds)) * 1e6)
                sizes.append(width if name == "d" else n_bits)
            report_growth(name, np.array(sizes, float), np.array(times))
        growth_in_n(rng, rounds)


def growth_in_n(rng: np.random.Generator, rounds: int) -> None:
    """A pass over n vectors, in steps of one batch."""
    sizes, times = [], []
    for n in (10_000, 20_000, 40_000, 80_000):
        data = rng.standard_normal((n, 64), dtype=np.float32)
        step = step_of(data, 32, "approximate")
        seconds(step, 10)
        times.append(min(seconds(step, n // BATCH) for _ in range(rounds)) * (n // BATCH) * 1e6)
        sizes.append(n)
    report_growth("n (one pass)", np.array(sizes, float), np.array(times))


def report_growth(name: str, sizes: np.ndarray, times: np.ndarray) -> None:
    slope, fixed = np.polyfit(sizes, times, 1, w=1 / times)
    error = np.abs(fixed + slope * sizes - times) / times
    exponent = np.polyfit(np.log(sizes), np.log(np.maximum(times - max(fixed, 0), 1e-9)), 1)[0]
    cells = "  ".join(f"{int(s)}: {t:.0f}" for s, t in zip(sizes, times, strict=True))
    print(
        f"  {name:<13} {cells}   = {fixed:.0f} + {slope:.3f} {name.split()[0]}, "
        f"off by at most {100 * error.max():.0f} %, exponent {exponent:.2f}"
    )


if __name__ == "__main__":
    main()
