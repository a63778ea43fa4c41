"""Draw figures of the documentation as SVG (extra `plots`): `python docs/images/figures.py`.

recall-bytes-text.svg, from rows that `sghash reproduce modern_embeddings` keeps; memory.svg, from
bytes per row; flipped-bits.svg, from the built-in digits. Prints what each shows, and writes it as
the alternative text of the README's pictures.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

import sghash
from sghash.demo.flipping import flip_grid, flip_titles
from sghash.evaluation.rows import read_rows
from sghash.experiments.claims.modern_embeddings import STORE, kept_rows
from sghash.experiments.comparisons import estimates
from sghash.experiments.experiment import Context
from sghash.experiments.findings import listed
from sghash.experiments.memory import kept_bytes
from sghash.experiments.pictures import recall_by_bytes_drawing
from sghash.plots import images, memory_bars
from sghash.plots.memory import readable
from sghash.report import save_picture

HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
ROWS = HERE.parent / "results" / "rows" / f"{STORE}.jsonl"
VALUE = "recall10@10"
#: Methods in the picture beside those that win a budget; docs/results.md shows all.
SHOWN = (
    "SGH", "SGH, asymmetric", "GenerativeQuantizer", "Collection.build", "SignHashing", "ITQ",
    "FAISS PQ", "FAISS OPQ", "FAISS RaBitQ", "rabitqlib", "turbovec", "usearch i8",
)  # fmt: skip
N_ROWS, N_COLUMNS, LENGTHS = 3_000_000, 384, (256, 64)
N_BITS, COUNTS = 64, (2, 4, 8, 12, 16)
PAIRS = ((3, 8), (1, 7), (0, 6))


def text_figure(path: Path = ROWS) -> tuple[Any, str]:
    """Recall against bytes on text embeddings, with the winners' names."""
    rows = kept_rows(Context(path.parent))
    if not rows:
        print(f"{path} holds rows of earlier versions only: they are drawn")
        rows = read_rows(path)
    found = estimates(rows, VALUE, ("method", "bytes"))
    sizes = estimates(rows, "stored_bytes", ("method", "bytes"))
    # Rows of the first version say it only where it is not the length of the code.
    stored = {cell: sizes[cell].mean if cell in sizes else float(cell[1]) for cell in found}
    methods = list(dict.fromkeys(method for method, _ in found))
    title = "58,000 text embeddings of 384 numbers"
    drawing = recall_by_bytes_drawing(
        found, stored, methods, VALUE.capitalize(), title=title, shown=SHOWN,
        named="Collection.build",
    )  # fmt: skip
    return drawing.make(), drawing.alt


def memory_figure() -> tuple[Any, str]:
    """Three million rows of 384 numbers, as numbers and as codes."""
    kinds = kept_bytes(N_ROWS, N_COLUMNS, LENGTHS)
    title = f"{N_ROWS:,} rows of {N_COLUMNS} numbers in memory"
    told = listed([f"{kind} {readable(sum(parts.values()))}" for kind, parts in kinds.items()])
    return memory_bars(kinds, title=title), f"{title}: {told}."


def flip_figure() -> tuple[Any, str]:
    """Digits that become others as the bits of their codes flip."""
    data = sghash.load_dataset("digits")
    queries, labels = np.asarray(data.queries), data.query_labels
    model = sghash.SGH(N_BITS, random_state=0).fit(np.asarray(data.base))
    # The most usual of each digit, none of which was learned from.
    row_of = {}
    for digit in range(10):
        own = queries[labels == digit]
        row_of[digit] = own[int(np.argmin(((own - own.mean(axis=0)) ** 2).sum(axis=1)))]
    pairs = [(row_of[one], row_of[other]) for one, other in PAIRS]
    grid, n_differing = flip_grid(model, pairs, COUNTS)
    pictures = [[None if row is None else row.reshape(8, 8) / 16 for row in line] for line in grid]
    names = [
        f"{one} to {other}, {n} bits" for (one, other), n in zip(PAIRS, n_differing, strict=True)
    ]
    figure = images(
        pictures, titles=flip_titles(COUNTS), row_titles=names, value_range=(0, 1), cell=0.5
    )
    told = listed(
        [
            f"{one} becomes {other} after {n}"
            for (one, other), n in zip(PAIRS, n_differing, strict=True)
        ]
    )
    return figure, f"Digits decoded from {N_BITS} bits while bits flip one by one: {told} flips."


def with_alt(text: str, name: str, alt: str) -> str:
    """A page whose picture `name` has the alternative text `alt`."""
    picture = re.compile(rf"!\[[^\]]*\]\((\S*/{re.escape(name)})\)")
    return picture.sub(lambda found: f"![{alt}]({found[1]})", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=ROWS, help="measured rows of text embeddings")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the pictures")
    options = parser.parse_args()
    drawn = {
        "recall-bytes-text.svg": text_figure(options.rows),
        "memory.svg": memory_figure(),
        "flipped-bits.svg": flip_figure(),
    }
    page = README.read_text(encoding="utf-8")
    for name, (figure, alt) in drawn.items():
        print(f"{save_picture(figure, options.out / name)}\n  {alt}")
        page = with_alt(page, name, alt)
    if options.out == HERE:
        README.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
