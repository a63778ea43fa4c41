"""What each bit draws, and what 64 bits give back: SGH beside PCA and ITQ on images."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import unpack_bits
from sghash.errors import MissingData
from sghash.evaluation import metrics
from sghash.experiments.by_query import KEPT, pack_shares
from sghash.experiments.claims.reconstruction import FITTED, OWN, by_rotation
from sghash.experiments.comparisons import (
    Cell,
    Difference,
    Measured,
    beside_bound,
    difference,
    estimates,
    measurements,
    scaled,
    text_of,
)
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
    PAPER,
    make_model,
    options_of,
    reconstructing,
    rows_seen,
    spec_for,
)
from sghash.experiments.sets import CIFAR, MNIST, QUICK_DIGITS, BenchSet, Loaded, load
from sghash.experiments.similarity import structural_similarity
from sghash.experiments.standings import outcome_of_bounds
from sghash.kernels import exact_neighbors
from sghash.models import model_class
from sghash.validation import Vectors, available_cores

STORE = "regenerated_images"
N_BITS, QUICK_BITS = 64, 16
N_SHOWN = 10
PCA = "PCAReconstruction"
#: Two templates are duplicates beyond this |cosine|, a bit is wasted below this entropy.
DUPLICATE, WASTED = 0.95, 0.1
#: "On par": at most so many times the error of PCA, and no further below its other two values.
ON_PAR, NOT_BELOW = 1.25, 0.05
SEEDS = 5
#: What is measured of regenerated images; names of the values of ITQ's own decoder begin with OWN_.
ERROR, ALIKE, CLASSED = "unexplained_variance", "similarity", "accuracy"
OWN_ = "own_"
_SHAPES = {784: (28, 28), 3072: (32, 32, 3), 64: (8, 8)}


def run(context: Context) -> list[Row]:
    """A fit per set, model and seed; the pictures of the first seed are kept in its row."""
    sets = context.pick((QUICK_DIGITS,), (MNIST, CIFAR))
    n_bits = context.pick(QUICK_BITS, N_BITS)
    rows = []
    for which in sets:
        for model in (PCA, PAPER, reconstructing(), "ITQ"):
            spec = model if model == PCA else spec_for(context, model)
            for seed in range(1 if model == PCA else min(context.seeds, SEEDS)):
                settings = {
                    **which.settings(),
                    "model": model,
                    "options": {} if model == PCA else options_of(spec, n_bits, which.metric),
                    "n_bits": n_bits,
                    "seed": seed,
                }
                measure = _Measure(context, which, spec, n_bits, seed)
                rows.append(context.measured(STORE, settings, measure))
    return rows


class _Measure:
    """Fits one model; of the first seed it keeps pictures."""

    def __init__(
        self, context: Context, which: BenchSet, spec: str, n_bits: int, seed: int
    ) -> None:
        self.which, self.spec, self.n_bits, self.seed = which, spec, n_bits, seed
        self.threads = context.threads or available_cores()

    def __call__(self) -> Values:
        data = _between_0_and_1(load(self.which))
        base, queries = data.base, data.queries
        if self.spec == PCA:
            pca = model_class(PCA)(n_components=self.n_bits).fit(base)
            return {
                **self._regenerated(data, pca.decode(pca.encode(queries))),
                "accuracy_of_originals": float(self._is_right(data, queries).mean()),
                "originals": pack_images(queries[:N_SHOWN]),
            }
        model: Any = make_model(self.spec, self.n_bits, self.seed, self.which.metric).fit(base)
        templates = model.decoder_ if self.spec == "ITQ" else model.decoder_weights_
        bits = unpack_bits(model.encode(base), self.n_bits)
        values = {
            **self._regenerated(data, model.decode(model.encode(queries))),
            "largest_cosine": largest_cosine(templates),
            "least_entropy": float(bit_entropies(bits).min()),
        }
        if self.seed == 0:
            values["templates"] = pack_images(templates)
        if self.spec == "ITQ":
            own = self._regenerated(data, by_rotation(model, queries))
            values |= {OWN_ + name: value for name, value in own.items()}
        return values

    def _regenerated(self, data: Loaded, decoded: Vectors) -> Values:
        """Squared error, similarity and accuracy of what codes give back, and pictures of it."""
        # A picture holds nothing darker than black; errors are those of the numbers themselves.
        pictures = np.clip(decoded, 0, 1)
        shape = (-1, *_SHAPES[decoded.shape[1]])
        alike = structural_similarity(data.queries.reshape(shape), pictures.reshape(shape))
        is_right = self._is_right(data, pictures)
        values = {
            **_errors(data.queries, decoded),
            ALIKE: float(alike.mean()),
            CLASSED: float(is_right.mean()),
            KEPT: {
                ALIKE: pack_shares(np.clip(alike, 0, 1)),
                CLASSED: pack_shares(is_right.astype(np.float64)),
            },
        }
        return {**values, "pictures": pack_images(decoded[:N_SHOWN])} if self.seed == 0 else values

    def _is_right(self, data: Loaded, pictures: Vectors) -> NDArray[np.bool_]:
        """Whether the nearest training image has the label of the image that was encoded."""
        if data.base_labels is None or data.query_labels is None:
            raise MissingData(f"{self.which.label} has no labels")
        near = exact_neighbors(data.base, pictures, 1, threads=self.threads).ids[:, 0]
        return np.asarray(data.base_labels[near] == data.query_labels)


def _between_0_and_1(data: Loaded) -> Loaded:
    largest = np.float32(np.max(data.base))
    return data._replace(base=data.base / largest, queries=data.queries / largest)


def verdict(rows: Sequence[Row]) -> Verdict:
    """Are templates distinct, is the error below ITQ's, and are images on par with PCA's?"""
    said: list[str] = []
    gaps: list[Difference | None] = []
    for name, models in _by_set(check_rows(rows)).items():
        here = [row for row in rows if row["settings"]["set"] == name]
        columns = (ERROR, ALIKE, CLASSED, OWN_ + ERROR, "largest_cosine", "least_entropy")
        found = {value: measurements(here, value, ("model",), fixed=_is_pca) for value in columns}
        if not {PAPER, PCA, "ITQ"} <= set(models):
            gaps.append(None)
            said.append(f"{name}: only {len(models)} methods were measured")
            continue
        gaps += bounded(found, PAPER)
        for model in _ours(models):
            values = models[model]
            rivals = [found[OWN_ + ERROR]["ITQ",].seeds, found[ERROR]["ITQ",].seeds]
            parts = [_beside_pca(value, found[value], model) for value in (ERROR, ALIKE, CLASSED)]
            error = found[ERROR][model,].seeds
            said.append(
                f"{name}, {model}: largest |cosine| of two templates "
                f"{values['largest_cosine']:.2f}, least entropy of a bit "
                f"{values['least_entropy']:.2f}; unexplained variance "
                f"{text_of(error)}, ITQ {text_of(rivals[0])} by its own decoder "
                f"and {text_of(rivals[1])} by the fitted one; beside PCA with 32 times the bits "
                + f"{', '.join(parts)}; {error.n} seeds"
            )
    return Verdict(outcome_of_bounds(gaps), "; ".join(said) + ".")


def bounded(found: Mapping[str, Mapping[Cell, Measured]], model: str) -> list[Difference]:
    """What has to lie below 0 for a model that is distinct, better than ITQ and on par with PCA."""
    own = {value: cells[model,] for value, cells in found.items() if (model,) in cells}
    entropy = beside_bound(own["least_entropy"], WASTED)
    return [
        beside_bound(own["largest_cosine"], DUPLICATE),
        entropy._replace(mean=-entropy.mean),
        *(difference(own[ERROR], found[rival]["ITQ",]) for rival in (ERROR, OWN_ + ERROR)),
        *(_short_of_pca(value, found[value], model) for value in (ERROR, ALIKE, CLASSED)),
    ]


def _short_of_pca(value: str, found: Mapping[Cell, Measured], model: str) -> Difference:
    """Below 0 where a model is on par with PCA."""
    if value == ERROR:
        return difference(found[model,], scaled(found[PCA,], ON_PAR))
    gap = difference(found[model,], found[PCA,])
    return gap._replace(mean=-(gap.mean + NOT_BELOW))


def _beside_pca(value: str, found: Mapping[Cell, Measured], model: str) -> str:
    """What is to be said of one value."""
    own, pca = found[model,].seeds.mean, found[PCA,].seeds.mean
    words = {
        "agrees": "on par", "differs": "not on par", "open": "open",
    }  # fmt: skip
    said = words[outcome_of_bounds([_short_of_pca(value, found, model)])]
    if value == ERROR:
        return f"{own / pca:.2f} times its error ({said})"
    names = {ALIKE: "structural similarity", CLASSED: "accuracy of the nearest training image"}
    return f"{names[value]} {own:.3f} and {pca:.3f} ({said})"


def _is_pca(settings: Mapping[str, Any]) -> bool:
    return bool(settings["model"] == PCA)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Templates and regenerated images per set, then the numbers."""
    parts: list[Table | Drawing] = []
    for name, models in _by_set(check_rows(rows)).items():
        parts += [_templates_drawing(name, model, models[model]) for model in _ours(models)]
        parts.append(_reconstructions(name, models))
    return [*parts, _table(rows)]


def _table(rows: Sequence[Row]) -> Table:
    """A line per set and decoder."""
    cells = []
    for name, models in _by_set(rows).items():
        here = [row for row in rows if row["settings"]["set"] == name]
        columns = (ERROR, ALIKE, CLASSED, "largest_cosine", "least_entropy")
        found = {value: estimates(here, value, ("model",)) for value in columns}
        own = {value: estimates(here, OWN_ + value, ("model",)) for value in columns}
        originals = models[PCA]["accuracy_of_originals"]
        cells.append(["the images themselves", name, "0", "1", f"{originals:.3f}", *4 * [""]])
        for model in models:
            about = _about(here, model)
            said = FITTED if model == "ITQ" else model
            cells.append([said, name, *(text_of(found[v].get((model,))) for v in columns), *about])
            if model == "ITQ":
                cells.append([OWN, name, *(text_of(own[v].get((model,))) for v in columns), *about])
    headings = [
        "method", "set", "unexplained variance", "structural similarity",
        "accuracy of the nearest training image", "largest |cosine|", "least bit entropy",
        "learned from", "seeds",
    ]  # fmt: skip
    caption = (
        "Regenerated unseen images: squared error as a share of the variance; SSIM in windows of "
        "7 x 7; how often the nearest training image has the right label. Templates are compared "
        "by |cosine|, bits by their entropy. Means over seeds ± half of their 95 % interval."
    )
    return Table(headings, cells, caption)


def _about(rows: Sequence[Row], model: str) -> list[str]:
    """From how many images a method learned, and how many seeds it has."""
    settings = [row["settings"] for row in rows if row["settings"]["model"] == model]
    n = settings[0]["n_vectors"]
    if model == PCA:
        return [f"{n:,}", "deterministic"]
    return [rows_seen(model, n), str(len(settings))]


def largest_cosine(templates: Vectors) -> float:
    """Largest |cosine| between two rows; 1 if a row is zero."""
    lengths = np.linalg.norm(templates, axis=1)
    if not lengths.all():
        return 1.0
    unit = templates / lengths[:, None]
    cosines = np.abs(unit @ unit.T)
    np.fill_diagonal(cosines, 0)
    return float(cosines.max())


def bit_entropies(bits: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Entropy in bits of how often each column is set."""
    share = np.clip(bits.mean(axis=0), 1e-12, 1 - 1e-12)
    entropies: NDArray[np.float64] = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return entropies


def pack_images(images: NDArray[Any]) -> dict[str, Any]:
    """Images (n, d) as text: bytes between the smallest and the largest value, compressed."""
    low, high = float(images.min()), float(images.max())
    scaled = np.rint((images - low) * (255 / ((high - low) or 1))).astype(np.uint8)
    text = base64.b64encode(zlib.compress(scaled.tobytes(), 9)).decode()
    return {"low": low, "high": high, "shape": list(images.shape), "bytes": text}


def unpack_images(packed: dict[str, Any]) -> NDArray[np.float32]:
    """What `pack_images` packed, to within a 255th of its range, as (n, height, width[, 3])."""
    content = zlib.decompress(base64.b64decode(packed["bytes"]))
    n, width = packed["shape"]
    flat = np.frombuffer(content, dtype=np.uint8).reshape(n, width).astype(np.float32)
    values = packed["low"] + flat / 255 * (packed["high"] - packed["low"])
    images: NDArray[np.float32] = values.reshape(n, *_SHAPES[width])
    return images


def _errors(queries: Vectors, decoded: Vectors) -> Values:
    return {
        "unexplained_variance": metrics.unexplained_variance(queries, decoded),
        "reconstruction_error": metrics.reconstruction_error(queries, decoded),
    }


def _by_set(rows: Sequence[Row]) -> dict[str, dict[str, Values]]:
    """Set -> model -> the values of its first seed, numbers as means over seeds."""
    groups: dict[str, dict[str, list[Values]]] = {}
    for row in rows:
        models = groups.setdefault(row["settings"]["set"], {})
        models.setdefault(row["settings"]["model"], []).append(row["values"])
    return {name: {model: _mean(found) for model, found in models.items()}
            for name, models in groups.items()}  # fmt: skip


def _mean(found: Sequence[Values]) -> Values:
    numbers = [name for name, value in found[0].items() if isinstance(value, (int, float))]
    return {**found[0], **{n: float(np.mean([values[n] for values in found])) for n in numbers}}


def _ours(models: dict[str, Values]) -> list[str]:
    return [model for model in models if model.startswith("SGH")]


def _templates_drawing(name: str, model: str, values: Values) -> Drawing:
    def make() -> Any:
        from sghash.plots import images

        pictures = unpack_images(values["templates"])
        if pictures.ndim == 4:
            # Colours cannot be negative: each template on its own scale around grey.
            reach = np.abs(pictures).max(axis=(1, 2, 3), keepdims=True)
            pictures = 0.5 + pictures / (2 * reach)
        # No wider than a phone can show.
        grid = [list(pictures[first : first + 8]) for first in range(0, len(pictures), 8)]
        return images(grid, signed=pictures.ndim == 3, cell=0.5)

    caption = f"{name}, {model}: the template of every bit."
    told = (
        f"{len(unpack_images(values['templates']))} of them; the two most alike have |cosine| "
        f"{values['largest_cosine']:.2f}, and the rarest bit {values['least_entropy']:.2f} bits of "
        "entropy"
    )
    return Drawing(make, caption, f"{caption} {told}.")


def _reconstructions(name: str, models: dict[str, Values]) -> Drawing:
    lines = {
        "original": models[PCA]["originals"],
        "PCA, 32 bits per number": models[PCA]["pictures"],
        **{model: models[model]["pictures"] for model in _ours(models)},
        OWN: models["ITQ"]["own_pictures"],
        FITTED: models["ITQ"]["pictures"],
    }

    def make() -> Any:
        from sghash.plots import images

        grid = [list(np.clip(unpack_images(packed), 0, 1)) for packed in lines.values()]
        return images(grid, row_titles=list(lines), value_range=(0, 1), cell=0.56)

    caption = f"{name}: images and what their codes give back."
    errors = {
        "PCA": models[PCA]["unexplained_variance"],
        **{model: models[model]["unexplained_variance"] for model in _ours(models)},
        OWN: models["ITQ"][OWN_ + ERROR],
        FITTED: models["ITQ"]["unexplained_variance"],
    }
    ranked = sorted(errors, key=lambda one: errors[one])
    told = "; ".join(f"{one} {errors[one]:.3f}" for one in ranked)
    return Drawing(make, caption, f"{caption} Share of the variance that is lost: {told}.")


EXPERIMENT = Experiment(
    name="templates",
    title="Templates and regenerated images",
    claim="Each bit's template is distinct, none is wasted or duplicated; from 64 bits SGH "
    "regenerates images much better than ITQ and on par with PCA, which uses 32 times the bits.",
    shown="Figure 3",
    setup="MNIST (60,000 images) and CIFAR-10 (50,000 JPEG-compressed images, 32 x 32 where the "
    f"paper has 30 x 30), 1,000 unseen images each, 64 bits, {SEEDS} seeds; PCA is deterministic. "
    f"Distinct: no two templates with |cosine| above {DUPLICATE}, no bit with less than {WASTED} "
    "bits of entropy (means over seeds). Better than ITQ: a lower squared error than both of its "
    "decoders. On par with PCA, by all three: at most "
    f"{ON_PAR} times its squared error; structural similarity (SSIM) to the original at most "
    f"{NOT_BELOW} lower; and as a label read from the nearest training image is right, at most "
    f"{100 * NOT_BELOW:.0f} in 100 less often. Every bound holds or fails only with the whole 95 % "
    "interval over seeds and, for similarity and accuracy, over images. Bounds "
    "were set before what they bound was measured, those of similarity and accuracy after errors.",
    notes='What may explain a difference: the paper judges "on par" by eye; 64 signs do not carry '
    "what 64 real numbers do.",
    run=run,
    verdict=verdict,
    draw=draw,
)
