"""Text embeddings at equal bytes: what databases do today, and what learned codes give."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sghash.evaluation.searching import nearest_by_tables
from sghash.experiments.claims.inner_product import TABLES, asymmetric, measure_tables
from sghash.experiments.comparisons import estimates, text_of
from sghash.experiments.experiment import (
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Values,
    Verdict,
    check_rows,
)
from sghash.experiments.hashing import (
    DEPTHS,
    known_models,
    make_model,
    measure_model,
    options_of,
    recalls,
    reconstructing,
    spec_for,
)
from sghash.experiments.pictures import series_of
from sghash.experiments.sets import QUICK_CLUSTERS, TEXTS, BenchSet, load
from sghash.kernels import exact_neighbors
from sghash.models import model_class
from sghash.optional import require

STORE = "modern_embeddings"
SIZES, QUICK_SIZES = (8, 16, 32, 48, 64, 128), (4, 12)
WIDTH, QUICK_WIDTH = 384, 32
#: What RaBitQ stores beside the bits of a code.
FACTOR_BYTES = 8
VALUES = ("recall10@10", "recall10@100")
SGH, NEAR, DEEP = "SGH", "SGH(neighbors=10)", "DeepSGH"
MEAN, TURNED = "SignHashing(threshold='mean')", "SignHashing(threshold='mean', rotate=True)"
# Beyond this many bytes there is one seed only.
MANY_BYTES = 32
#: Most bytes at which a method is measured whose fits take minutes.
MOST_BYTES = {"ITQ": 48, "OPQ": 32, NEAR: 64, DEEP: 16, TABLES: 32}
SEEDS = 2


class Method(NamedTuple):
    """The model's text, how it is measured, at what sizes (None is all), whether repeatedly."""

    spec: str
    measure: Callable[[Context, BenchSet, int, int], Values]
    sizes: tuple[int, ...] | None = None
    is_repeated: bool = True


def methods(context: Context) -> dict[str, Method]:
    """Every method of the table, by name."""
    every = context.pick(QUICK_SIZES, SIZES)

    def up_to(name: str) -> tuple[int, ...]:
        return tuple(size for size in every if size <= MOST_BYTES[name])

    own = (context.pick(QUICK_WIDTH, WIDTH) // 8,)
    rows = {
        "SignHashing": _hamming("SignHashing", own, False),
        "SignHashing, mean": _hamming(MEAN, own, False),
        "SignHashing, turned": _hamming(TURNED),
        "ITQ": _hamming("ITQ", up_to("ITQ")),
        SGH: _hamming(SGH),
        asymmetric(SGH): _asymmetric(reconstructing()),
        NEAR: _hamming(NEAR, up_to(NEAR)),
        TABLES: Method("", measure_tables, up_to(TABLES), False),
        "ProductQuantizer": Method("", _quantizer(rotate=False), None, False),
        "OPQ": Method("", _quantizer(rotate=True), up_to("OPQ"), False),
        "RaBitQ": Method("", _rabitq, tuple(s for s in every if s > FACTOR_BYTES), False),
    }
    if importlib.util.find_spec("torch") is not None and not context.quick:
        rows[DEEP] = Method("", _deep, up_to(DEEP), False)
    if not known_models([NEAR]):
        rows = {name: method for name, method in rows.items() if NEAR not in name}
    return rows


def run(context: Context) -> list[Row]:
    """Every method at every number of bytes it can have."""
    which, rows = _set_of(context), []
    for size in context.pick(QUICK_SIZES, SIZES):
        for name, method in methods(context).items():
            if context.quick and name in (NEAR, TABLES, "OPQ"):
                continue
            if method.sizes is not None and size not in method.sizes:
                continue
            n_seeds = 1 if not method.is_repeated or size > MANY_BYTES else SEEDS
            for seed in range(min(context.seeds, n_seeds)):
                settings = {
                    **which.settings(),
                    "method": name,
                    "bytes": size,
                    "options": _options(context, method.spec, size, which.metric),
                    "seed": seed,
                }
                rows.append(
                    context.measured(
                        STORE,
                        settings,
                        lambda m=method, s=size, r=seed: m.measure(context, which, s, r),  # type: ignore[misc]
                    )
                )
    return rows


def verdict(rows: Sequence[Row]) -> Verdict:
    """No claim of the paper: who is best at how many bytes."""
    found = estimates(check_rows(rows), "recall10@100", ("bytes", "method"))
    said = []
    for size in dict.fromkeys(cell[0] for cell in found):
        here = {cell[1]: value.mean for cell, value in found.items() if cell[0] == size}
        ranked = sorted(here, key=lambda name: -here[name])[:3]
        said.append(f"{size} bytes: " + ", ".join(f"{name} {here[name]:.3f}" for name in ranked))
    return Verdict(
        "open",
        "The paper makes no claim here; the three best by Recall10@100 at equal bytes are "
        + "; ".join(said)
        + ".",
    )


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall by bytes, and both tables."""
    sizes = sorted({row["settings"]["bytes"] for row in check_rows(rows)})
    names = list(dict.fromkeys(row["settings"]["method"] for row in rows))
    parts: list[Table | Drawing] = []
    for value in VALUES:
        found = estimates(rows, value, ("method", "bytes"))
        parts.append(_drawing(found, names, value))
        cells = [[name, *(text_of(found.get((name, s))) for s in sizes)] for name in names]
        headings = ["method", *(f"{size} bytes" for size in sizes)]
        parts.append(Table(headings, cells, f"{value.capitalize()}, all bytes counted"))
    return parts


def _drawing(found: dict[Any, Any], names: Sequence[str], value: str) -> Drawing:
    def make() -> Any:
        from sghash.plots import lines

        curves = []
        for name in names:
            sizes = sorted(cell[1] for cell in found if cell[0] == name)
            curves.append(series_of(name, sizes, [found[name, size] for size in sizes]))
        return lines(
            curves, x_label="bytes per vector", y_label=value.capitalize(), x_scale="log2",
            title="Text embeddings", size=(7.4, 5.0),
        )  # fmt: skip

    caption = f"{value.capitalize()} by bytes per vector, everything stored counted."
    return Drawing(make, caption, f"{caption} Rising curves, one per method.")


def _set_of(context: Context) -> BenchSet:
    which: BenchSet = context.pick(QUICK_CLUSTERS._replace(metric="cosine"), TEXTS)
    return which


def _options(context: Context, spec: str, size: int, metric: str) -> dict[str, str]:
    return options_of(spec_for(context, spec), 8 * size, metric) if spec else {}


def _hamming(spec: str, sizes: tuple[int, ...] | None = None, is_repeated: bool = True) -> Method:
    def measure(context: Context, which: BenchSet, size: int, seed: int) -> Values:
        model = make_model(spec_for(context, spec), 8 * size, seed, which.metric)
        return measure_model(context, which, model, neighbors=(10,))

    return Method(spec, measure, sizes, is_repeated)


def _deep(context: Context, which: BenchSet, size: int, seed: int) -> Values:
    """Networks with neighbours, by Hamming distance."""
    model = model_class(DEEP)(n_bits=8 * size, metric=which.metric, random_state=seed)
    return measure_model(context, which, model, neighbors=(10,))


def _asymmetric(spec: str) -> Method:
    """Scores of real queries; for "cosine" a code needs no term of its own, so bytes stay."""

    def measure(context: Context, which: BenchSet, size: int, seed: int) -> Values:
        data = load(which)
        start = time.perf_counter()
        model: Any = make_model(spec_for(context, spec), 8 * size, seed, which.metric).fit(
            data.base
        )
        seconds = time.perf_counter() - start
        decoded = model.decode(model.encode(data.base, sweeps=3))
        # q.x(h), as `query_tables` scores: what codes stand for is not brought to length one.
        depth = min(DEPTHS[-1], len(decoded))
        found = exact_neighbors(decoded, _unit(data.queries), depth, metric="ip")
        return {"train_seconds": seconds, **recalls(which, found.ids, neighbors=(10,))}

    return Method(spec, measure)


def _quantizer(*, rotate: bool) -> Callable[[Context, BenchSet, int, int], Values]:
    def measure(context: Context, which: BenchSet, size: int, seed: int) -> Values:
        data = load(which)
        base = _unit(data.base)
        start = time.perf_counter()
        model = model_class("ProductQuantizer")(n_parts=size, rotate=rotate, random_state=seed)
        codes = model.fit(base).encode(base)
        seconds = time.perf_counter() - start
        found = nearest_by_tables(
            model, codes, _unit(data.queries), DEPTHS[-1], metric="ip", threads=context.threads
        )
        return {"train_seconds": seconds, **recalls(which, found.ids, neighbors=(10,))}

    return measure


def _rabitq(context: Context, which: BenchSet, size: int, seed: int) -> Values:
    """FAISS's RaBitQ with one bit per direction and real queries.

    It stores 8 bytes of factors per code, so `size` leaves 8 * (size - 8) directions: the
    principal ones, turned at random, or random ones where there are more than columns.
    """
    faiss = require("faiss", extra="faiss")
    data = load(which)
    base, queries = _unit(data.base), _unit(data.queries)
    width = base.shape[1]
    n_directions = 8 * (size - FACTOR_BYTES)
    start = time.perf_counter()
    if n_directions < width:
        turn = faiss.PCAMatrix(width, n_directions, 0, True)
    else:
        turn = faiss.RandomRotationMatrix(width, n_directions)
        turn.init(seed)
    index = faiss.IndexPreTransform(turn, faiss.IndexRaBitQ(n_directions))
    index.train(base)
    index.add(base)
    seconds = time.perf_counter() - start
    _, ids = index.search(queries, min(DEPTHS[-1], len(base)))
    stored = faiss.downcast_index(index.index).code_size
    return {
        "train_seconds": seconds,
        "stored_bytes": float(stored),
        **recalls(which, ids.astype(np.int64), neighbors=(10,)),
    }


def _unit(vectors: Any) -> Any:
    rows = np.asarray(vectors, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


EXPERIMENT = Experiment(
    name="modern_embeddings",
    title="Text embeddings at equal bytes",
    claim="Beyond the paper: how learned codes stand to what vector databases store today, at "
    "equal bytes.",
    shown="not in the paper",
    setup="58,000 MiniLM embeddings of 384 numbers (1,536 bytes), 500 queries, cosine. Bytes count "
    "everything stored per vector: RaBitQ (FAISS) spends 8 on factors, codes of SGH need nothing "
    "beside their bits. Sign hashing has one bit per column, 48 bytes; turned at random, any. "
    "Asymmetric: SGH trained for reconstruction alone, real queries "
    f"against codes sharpened by three sweeps. {SEEDS} seeds up to {MANY_BYTES} bytes, one "
    "beyond and for quantizers. Where a fit takes minutes a method is left out: OPQ "
    "and GenerativeQuantizer beyond 32 bytes, ITQ beyond 48, neighbours beyond 64, DeepSGH (only "
    "with PyTorch) beyond 16.",
    run=run,
    verdict=verdict,
    draw=draw,
)
