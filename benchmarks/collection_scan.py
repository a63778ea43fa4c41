"""Scores of real queries against every code, beside FAISS's product quantiser, in one run.

    python benchmarks/collection_scan.py            # 1,000,000 codes of 64 bits, one thread
    python benchmarks/collection_scan.py --quick    # small, for a look

Both look at 8 bytes per vector and rank by inner product: FAISS's `IndexPQFastScan` with 16 x 4
bits in approximate 8-bit sums, ours in exact float32 scores. Contenders take turns, the best of
several repetitions counts. Read the ratios: rates depend on the machine and its neighbours.
"""

from __future__ import annotations

import argparse
import time

import faiss
import numpy as np

import sghash
from sghash.kernels import hamming_neighbors
from sghash.kernels.tables import nibbles, rescoring, terms as code_terms
from sghash.kernels.tables.search import asymmetric_neighbors, make_terms

TARGET = 1.0


def best_of(contenders, repetitions):
    for run in contenders.values():
        run()
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repetitions):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 codes, two repetitions")
    quick = parser.parse_args().quick
    n, repetitions = (100_000, 2) if quick else (1_000_000, 7)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, 64), dtype=np.float32)
    queries = rng.standard_normal((200, 64), dtype=np.float32)
    faiss.omp_set_num_threads(1)
    index = faiss.IndexPQFastScan(64, 16, 4, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:20_000])
    index.add(vectors)
    codes, query_codes = np.packbits(vectors > 0, axis=1), np.packbits(queries > 0, axis=1)
    tables = rescoring.nibble_tables(-queries.astype(np.float64), 8)
    mixing = rng.standard_normal((64, 48))
    gram = code_terms.gram_tables(mixing @ mixing.T, 8)
    started = time.perf_counter()
    terms = make_terms(code_terms.code_terms(codes, gram), gram)
    seconds = time.perf_counter() - started
    way = "byte shuffles" if nibbles.AVAILABLE else "a row at a time (no AVX2 here)"
    print(f"sghash {sghash.__version__} by {way}, FAISS {faiss.__version__}")
    print(f"{n:,} codes of 64 bits, one thread; 10^9 codes per second")
    print(
        f"{'queries':>8}{'k':>6}{'ip':>8}{'l2':>8}{'FAISS':>8}{'Hamming':>9}{'ip/FAISS':>10}{'target':>8}"
    )
    for n_queries in (200, 1):
        for k in (10, 100):
            some = slice(0, n_queries)
            best = best_of(
                {
                    "ip": lambda s=some, k=k: asymmetric_neighbors(codes, tables[s], k),
                    "l2": lambda s=some, k=k: asymmetric_neighbors(
                        codes, tables[s], k, terms=terms
                    ),
                    "faiss": lambda s=some, k=k: index.search(queries[s], k),
                    "hamming": lambda s=some, k=k: hamming_neighbors(
                        codes, query_codes[s], k, n_bits=64, threads=1
                    ),
                },
                repetitions if n_queries > 1 else 10 * repetitions,
            )
            rates = {name: n * n_queries / took / 1e9 for name, took in best.items()}
            ratio = rates["ip"] / rates["faiss"]
            print(f"{n_queries:>8}{k:>6}{rates['ip']:8.2f}{rates['l2']:8.2f}{rates['faiss']:8.2f}"
                  f"{rates['hamming']:9.2f}{ratio:9.2f}x{TARGET:7.1f}x")  # fmt: skip
    print(f"l2 keeps 1 byte per code in memory, computed once in {seconds:.2f} s")


if __name__ == "__main__":
    main()
