"""Do more complex decoders do better? Recall10@100 on SIFT and GIST, by decoder.

    SGHASH_DATA=... python benchmarks/sgh_decoders.py [--bits 16 32] [--seeds 3] [--rows 20000]

The paper says that they perform like the Gaussian one. All are trained by the same general path
(same start, steps, batches and estimator), so that the decoder alone differs; Hamming ranking
over the first rows of each set. "error" is the squared error of decoding, as a share of the
variance. The Bernoulli decoder sees the vectors divided by 255.
"""

from __future__ import annotations

import argparse

import numpy as np

import sghash
from sghash.evaluation import format_table, ground_truth
from sghash.evaluation.metrics import recall, unexplained_variance
from sghash.evaluation.summary import estimate
from sghash.kernels import hamming_neighbors
from sghash.models import GeneralSGH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--datasets", nargs="+", default=["sift-photos", "cifar10-gist"])
    options = parser.parse_args()
    lines = []
    for name in options.datasets:
        data = sghash.load_dataset(name)
        base = np.asarray(data.base.read(0, options.rows), dtype=np.float32)
        top = float(base.max())
        queries = np.minimum(np.asarray(data.queries, dtype=np.float32)[:500] / top, 1)
        base /= top
        truth = ground_truth(base, queries, 10, metric="l2")
        for n_bits in options.bits:
            for decoder in ("gaussian", "two-layer", "bernoulli"):
                recalls, errors = [], []
                for seed in range(options.seeds):
                    model = GeneralSGH(
                        n_bits=n_bits, decoder=decoder, n_steps=options.steps, random_state=seed
                    ).fit(base)
                    codes = model.encode(base)
                    found = hamming_neighbors(codes, model.encode(queries), 100, n_bits=n_bits)
                    recalls.append(recall(truth.ids, found.ids, k=10, n=100))
                    errors.append(unexplained_variance(base[:5000], model.decode(codes[:5000])))
                value = estimate(recalls)
                half = "" if value.half_width is None else f" ± {value.half_width:.3f}"
                lines.append(
                    [
                        name,
                        str(n_bits),
                        decoder,
                        f"{value.mean:.3f}{half}",
                        f"{np.mean(errors):.3f}",
                    ]
                )
                print(*lines[-1], flush=True)
    headings = ["data", "bits", "decoder", "Recall10@100", "error"]
    print(format_table(headings, lines, markdown=True))


if __name__ == "__main__":
    main()
