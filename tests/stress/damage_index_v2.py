"""Damage to index files of the second format, every checksum right again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "index"))
from damage_index_v1 import NUMBERS, OTHERS, TEXTS
from version_2 import Parts, aligned

NAMES = ["codes", "ids", "options.gram", "options.n_bits", "options.", "gram", "", "x", None]
TYPES = ["|u1", "|b1", "<i8", "<u8", "<f2", "<f4", "<f8", "|O", "<U4", ">i8", "|V3", None, 7]
GRAMS = [
    lambda gram, at: gram * np.nan,
    lambda gram, at: gram * 1e300,
    lambda gram, at: gram * 1e35,
    lambda gram, at: gram * 1e-300,
    lambda gram, at: np.triu(gram),
    lambda gram, at: gram[:-1],
    lambda gram, at: gram[:-1, :-1],
    lambda gram, at: gram.reshape(-1),
    lambda gram, at: gram.astype("<f4"),
    lambda gram, at: gram + np.where(np.arange(gram.size).reshape(gram.shape) == at, 1e-12, 0),
    lambda gram, at: gram + np.where(np.arange(gram.size).reshape(gram.shape) == at, 1, 0),
    lambda gram, at: gram * 3,
]


def another(value, rng):
    """Another value, near the right one, far from it, or of another type."""
    near = []
    if type(value) is int:
        near = [value + step for step in (-64, -8, -1, 1, 8, 64)]
    choices = [*NUMBERS, *OTHERS, *near, *near, *near]
    return choices[rng.integers(len(choices))]


def change_field(parts: Parts, rng: np.random.Generator) -> None:
    """A field of the header, or an option: another value, none, or one too many."""
    fields = parts.about
    if rng.random() < 0.4 and isinstance(fields["options"], dict):
        fields = fields["options"]
    names = sorted(fields) or ["n_bits"]
    name = names[rng.integers(len(names))]
    fields[name] = another(fields.get(name), rng)
    how = rng.random()
    if how < 0.05:
        del fields[name]
    elif how < 0.1:
        fields[["extra", "gram", "n_bytes", "n_bits", "n_parts"][rng.integers(5)]] = another(8, rng)


def change_kind(parts: Parts, rng: np.random.Generator) -> None:
    """The word for the kind, with options that may fit it."""
    kinds = ["hamming", "tables", "multi", "", None, 7]
    parts.about["kind"] = kinds[rng.integers(len(kinds))]
    if rng.random() < 0.5:
        width = parts.array("codes").shape[1]
        options = [{"n_bits": 8 * width}, {"n_bytes": width}, {"n_bytes": width, "n_bits": 8}]
        parts.about["options"] = options[rng.integers(3)]
    if rng.random() < 0.3:
        parts.drop("options.gram", missing=True)


def change_table(parts: Parts, rng: np.random.Generator) -> None:
    """What the table of sections says; the sections stay as they are."""
    place = int(rng.integers(len(parts.table)))
    entry = list(parts.table[place])
    how = int(rng.integers(6))
    if how == 0:
        entry[0] = NAMES[rng.integers(len(NAMES))]
    elif how == 1:
        entry[1] = TYPES[rng.integers(len(TYPES))]
    elif how == 2:
        shape = list(entry[2])
        shape[rng.integers(len(shape))] = another(shape[0], rng)
        entry[2] = shape
    elif how == 3:
        entry[2] = [[], [1, 2, 3], None, 7, entry[2][::-1], [0, 2**47]][rng.integers(6)]
    elif how == 4:
        entry = entry[: rng.integers(3)]
    parts.table[place] = entry
    if how == 5:
        rng.shuffle(parts.table)


def change_size(parts: Parts, rng: np.random.Generator) -> None:
    """Another number of rows or of bytes, in all places that say so, or in all but one."""
    codes = parts.array("codes")
    n = max(0, len(codes) + int(rng.integers(-3, 4)))
    width = codes.shape[1] + int(rng.integers(0, 2))
    codes = np.resize(codes, (n, width)) if codes.size else np.zeros((n, width), np.uint8)
    parts.put("codes", codes & np.uint8(128 if rng.random() < 0.5 else 255))
    changes = [
        lambda: parts.about.update(n=n),
        lambda: parts.put("ids", parts.array("ids")[:n]) if "ids" in parts.data else None,
        lambda: parts.about["options"].update({"n_bits": 8 * width}),
        lambda: parts.about["options"].update({"n_bytes": width}),
        lambda: parts.drop("options.gram", missing=True),
    ]
    skipped = int(rng.integers(-2, len(changes)))
    for place, change in enumerate(changes):
        if place != skipped:
            change()


def change_ids(parts: Parts, rng: np.random.Generator) -> None:
    """Ids that fall, repeat, are negative, the largest of all, or not there."""
    if "ids" not in parts.data or rng.random() < 0.1:
        parts.drop("ids", missing=True)
        parts.about["first"] = int(rng.choice([0, 1, 5, 2**62, 2**63 - 2, 2**63 - 1]))
        if rng.random() < 0.7:
            parts.about["next_id"] = parts.about["first"] + parts.about["n"]
        return
    ids = parts.array("ids")
    extremes = [-1, 0, 2**63 - 1, 2**63 - 2, -(2**63), int(ids[-1]) + 1, int(ids[0])]
    ids[rng.integers(len(ids))] = extremes[rng.integers(len(extremes))]
    if rng.random() < 0.5:
        ids = np.sort(ids)
    if rng.random() < 0.5:
        parts.about["next_id"] = int(ids[-1]) + int(rng.integers(0, 2))
    if rng.random() < 0.5:
        parts.about["first"] = int(ids[0])
    parts.put("ids", ids)


def change_codes(parts: Parts, rng: np.random.Generator) -> None:
    """Other bits, those of the padding as well."""
    codes = parts.array("codes")
    if codes.size:
        codes.reshape(-1)[rng.integers(codes.size, size=3)] ^= np.uint8(1 << rng.integers(8))
    parts.put("codes", codes)


def change_gram(parts: Parts, rng: np.random.Generator) -> None:
    """No numbers, too large ones, not symmetric, of another size or type."""
    width = parts.array("codes").shape[1]
    gram = np.eye(8 * width)
    if "options.gram" in parts.data:
        gram = parts.array("options.gram")
    with np.errstate(over="ignore", invalid="ignore"):
        changed = GRAMS[rng.integers(len(GRAMS))](gram, int(rng.integers(gram.size)))
    parts.put("options.gram", np.ascontiguousarray(changed))


def change_text(parts: Parts, rng: np.random.Generator) -> None:
    """Something else where the header should be."""
    text = TEXTS[rng.integers(len(TEXTS))]
    parts.text = text.ljust(aligned(20 + len(text)) - 20) if rng.random() < 0.7 else text


def change_version(parts: Parts, rng: np.random.Generator) -> None:
    """A version that never was, that was once, or that is not yet."""
    parts.version = int(rng.choice([0, 1, 3, 255, 2**32 - 1]))


CHANGES = {
    change_field: 8, change_kind: 2, change_table: 5, change_size: 4, change_ids: 4,
    change_codes: 4, change_gram: 4, change_text: 1, change_version: 1,
}  # fmt: skip
