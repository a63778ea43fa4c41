"""The story as figures; nothing is measured here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash import plots
from sghash.bits import unpack_bits
from sghash.demo.flipping import flip_grid, flip_titles
from sghash.demo.story import K, Story
from sghash.plots.canvas import HALF

# Templates to draw, and how many in a row: no figure is wider than a phone can show.
_TEMPLATES, _PER_ROW = 64, 8
# After how many flipped bits a picture is shown on its way to another.
_FLIPS = (4, 8, 16)


def recall_figures(story: Story) -> list[Any]:
    """Recall against depth, a figure per code length."""
    return [plots.recall_curves({n_bits: curves}, k=K) for n_bits, curves in story.curves.items()]


def reconstruction_figure(story: Story) -> Any:
    """Originals, their codes as pictures, and what models make of the codes."""
    material, rows = story.material, story.material.shown
    queries = material.queries[rows]
    side = int(np.ceil(np.sqrt(story.n_bits)))
    bits = np.zeros((len(rows), side * side))
    bits[:, : story.n_bits] = story.bits(rows)
    grid = [
        [material.picture(query) for query in queries],
        [code.reshape(side, side) for code in bits],
    ]
    for name in ("SGH", "ITQ"):
        model = story.model(name)
        grid.append([material.picture(row) for row in model.decode(model.encode(queries))])
    names = ["original", f"{story.n_bits} bits", "SGH draws", "ITQ draws"]
    return plots.images(grid, row_titles=names, value_range=(0, 1), cell=0.52)


def template_figure(story: Story) -> Any:
    """What each bit of SGH adds to a reconstruction."""
    shape = story.material.set.picture or ()
    weights = story.model().decoder_weights_[:_TEMPLATES]
    if story.material.data.name == "cifar10":
        pictures = weights.reshape(-1, 3, *shape[:2]).transpose(0, 2, 3, 1)
    else:
        pictures = weights.reshape(-1, *shape)
    # Colours cannot be negative: a template in colours is shown by its brightness.
    grey = pictures if pictures.ndim == 3 else pictures.mean(axis=3)
    rows = [list(grey[first : first + _PER_ROW]) for first in range(0, len(grey), _PER_ROW)]
    return plots.images(rows, signed=True, cell=0.5)


def training_figures(story: Story) -> list[Any]:
    """What SGH reported while it learned."""
    history = story.model().history_
    labels = {
        "reconstruction_error": "squared error of a reconstruction",
        "description_length": "bits to describe one row",
    }
    return [
        plots.lines([("SGH", history["step"], history[name])], x_label="step", y_label=label)
        for name, label in labels.items()
    ]


def bit_figures(story: Story) -> list[Any]:
    """How often each bit of SGH is set, and how bits go together."""
    shares, correlations = bit_facts(story)
    return [plots.bit_report(shares, size=HALF), plots.bit_correlations(correlations)]


def bit_facts(story: Story) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The share of rows that set each bit of SGH, and the correlation of each pair of bits."""
    bits = unpack_bits(story.model().encode(story.material.base), story.n_bits)
    used = bits.astype(np.float64)
    spread = used.std(axis=0)
    together = np.cov(used, rowvar=False, bias=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = np.nan_to_num(together / np.outer(spread, spread))
    return used.mean(axis=0), correlations


def flip_figure(story: Story) -> Any:
    """What becomes of pictures while their codes turn into those of others, bit by bit."""
    material, rows = story.material, story.material.shown
    pairs = list(zip(rows[::2], rows[1::2], strict=False))[:3]
    queries = material.queries
    grid, n_differing = flip_grid(
        story.model(), [(queries[a], queries[b]) for a, b in pairs], _FLIPS
    )
    pictures = [[None if row is None else material.picture(row) for row in line] for line in grid]
    names = [f"{n} bits" for n in n_differing]
    return plots.images(
        pictures, titles=flip_titles(_FLIPS), row_titles=names, value_range=(0, 1), cell=0.6
    )


def neighbor_figure(story: Story) -> Any:
    """Queries, and the nearest rows that the collection found for them."""
    material, rows = story.material, story.material.shown
    grid = [
        [
            material.picture(material.queries[row]),
            None,
            *(material.picture(material.base[found]) for found in story.shelf.scored.ids[row, :8]),
        ]
        for row in rows[:6]
    ]
    return plots.images(
        grid, titles=["query", "", *(str(n) for n in range(1, 9))], value_range=(0, 1), cell=0.6
    )
