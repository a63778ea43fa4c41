"""Draw docs/images/reconstructions.png: `python docs/images/reconstructions.py` (extra `plots`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sghash
from sghash.plots import images

N_BITS, N_SHOWN = 64, 10

digits = sghash.load_dataset("digits")
vectors, queries = np.asarray(digits.base), np.asarray(digits.queries)
# One of each digit, 0 to 9; none of them was learned from.
shown = queries[[int(np.argmax(digits.query_labels == label)) for label in range(N_SHOWN)]]
rows = {"original": shown / 16}
for name in ("SGH", "ITQ"):
    model = sghash.models.model_class(name)(n_bits=N_BITS, random_state=0).fit(vectors)
    codes = model.encode(shown)
    rows.setdefault(f"{N_BITS} bits", sghash.unpack_bits(codes, N_BITS).astype(np.float64))
    rows[f"{name} draws"] = model.decode(codes) / 16
grid = [[row.reshape(8, 8) for row in pictures] for pictures in rows.values()]
figure = images(grid, row_titles=list(rows), value_range=(0, 1), cell=0.5)
# White paper: the labels must be readable on dark pages, too.
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, facecolor="white")
