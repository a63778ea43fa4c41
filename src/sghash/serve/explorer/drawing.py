"""The map and the bits of a sample, as the page draws them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.serve.explorer.axes import principal_axes
from sghash.serve.explorer.packing import packed
from sghash.serve.explorer.rows import as_texts, pooled
from sghash.serve.explorer.sample import Sample
from sghash.validation import Vectors

#: Rows that switch a bit on, and off, and words that go with it.
EXAMPLES, WORDS = 6, 6
# Numbers of a template that is no picture.
SPECTRUM = 192
# Longer codes have too many pairs of bits to send them all.
_MOST_PAIRED = 1024
_PARTNERS = 6
_BUDGET = 2e10
_VOCABULARY = 1500
_WORD = re.compile(r"[^\W\d_]{3,}")


def drawn_map(sample: Sample) -> dict[str, Any]:
    """Points, their codes, and what they can be coloured by; a basis for each kind of axes."""
    bases = {}
    if sample.is_bits:
        bases["codes"] = _basis(sample.bits.astype(np.float32))
    elif sample.model.capabilities.decodes:
        decoded = np.asarray(sample.model.decode(sample.codes), dtype=np.float32)
        bases["codes"] = _basis(decoded)
    if sample.vectors is not None:
        bases["vectors"] = _basis(sample.vectors)
    return {
        "ids": as_texts(sample.ids),
        "codes": packed(sample.codes),
        "bases": bases,
        "colourings": [
            {"column": c.column, "names": c.names, "values": packed(c.values)}
            for c in sample.colourings
        ],
    }


def _basis(rows: Vectors) -> dict[str, Any]:
    axes = principal_axes(rows)
    return {
        "points": packed(axes.places(rows).astype(np.float32)),
        "mean": packed(axes.mean),
        "directions": packed(axes.directions.astype(np.float32)),
    }


def drawn_bits(sample: Sample) -> dict[str, Any]:
    """Every bit: how often it is set, its template, its relatives, what switches it on."""
    if not sample.is_bits:
        return {}
    bits = sample.bits
    correlations = _correlations(bits)
    on, off = _examples(sample, correlations)
    drawn: dict[str, Any] = {
        "share": packed(bits.mean(axis=0, dtype=np.float64).astype(np.float32)),
        "partners": _partners(correlations),
        "on": packed(on),
        "off": packed(off),
        "words": _words(sample),
    }
    if sample.n_bits <= _MOST_PAIRED:
        drawn["correlations"] = packed(np.rint(127 * correlations).astype(np.int8))
    templates = _templates(sample)
    if templates is not None:
        largest = float(np.abs(templates).max()) or 1.0
        drawn["templates"] = packed(np.rint(127 / largest * templates).astype(np.int8))
        drawn["template_scale"] = largest
    return drawn


def _templates(sample: Sample) -> Vectors | None:
    """What each bit adds: the decoder's column, or the mean with it minus the mean without."""
    if sample.decoder is not None:
        whole = sample.decoder.directions
    elif sample.vectors is not None:
        whole = _mean_differences(sample.bits, sample.vectors)
    else:
        return None
    return whole if sample.looks.picture else pooled(whole, SPECTRUM)


def _mean_differences(bits: NDArray[np.bool_], vectors: Vectors) -> Vectors:
    n_on = np.maximum(bits.sum(axis=0), 1)[:, None]
    n_off = np.maximum((~bits).sum(axis=0), 1)[:, None]
    h = bits.astype(np.float32)
    on = h.T @ vectors
    return np.asarray(on / n_on - (vectors.sum(axis=0) - on) / n_off, dtype=np.float32)


def _correlations(bits: NDArray[np.bool_]) -> Vectors:
    """Between all pairs of bits; 0 with a bit that never changes."""
    h = bits[:20_000].astype(np.float32)
    h -= h.mean(axis=0) if len(h) else 0
    lengths = np.sqrt(np.square(h).sum(axis=0))
    h /= np.where(lengths > 0, lengths, 1)
    return np.asarray(np.clip(h.T @ h, -1, 1), dtype=np.float32)


def _partners(correlations: Vectors) -> list[list[list[float]]]:
    """The bits that go most with, or against, each bit: [bit, correlation]."""
    strength = np.abs(correlations) - 2 * np.eye(len(correlations), dtype=np.float32)
    n = min(_PARTNERS, max(0, len(correlations) - 1))
    nearest = np.argsort(-strength, axis=1, kind="stable")[:, :n]
    return [
        [[int(other), round(float(correlations[bit, other]), 3)] for other in others]
        for bit, others in enumerate(nearest)
    ]


def _examples(sample: Sample, correlations: Vectors) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of the sample that have a bit most clearly, and most clearly not; -1 pads.

    Clearly: along the bit's template, by kept vectors or else by what codes stand for; without a
    decoder by the bits that usually come with it.
    """
    n_bits = sample.n_bits
    n = min(len(sample), max(200, int(_BUDGET / max(1, n_bits) ** 2)), 20_000)
    bits = sample.bits[:n]
    if sample.decoder is None:
        scores = (bits.astype(np.float32) * 2 - 1) @ correlations
    elif sample.vectors is not None:
        scores = (sample.vectors[:n] - sample.decoder.origin) @ sample.decoder.directions.T
    else:
        gram = sample.decoder.directions @ sample.decoder.directions.T
        scores = bits.astype(np.float32) @ gram
    on = _best(np.where(bits, scores, -np.inf))
    off = _best(np.where(bits, -np.inf, -scores))
    return on, off


def _best(scores: Vectors) -> NDArray[np.int32]:
    """Rows of the largest scores of each column, largest first; -1 where they are -inf."""
    n, n_bits = scores.shape
    found = np.full((n_bits, EXAMPLES), -1, np.int32)
    taken = min(n, EXAMPLES)
    order = np.argsort(-scores, axis=0, kind="stable")[:taken]
    usable = np.isfinite(np.take_along_axis(scores, order, axis=0))
    found[:, :taken] = np.where(usable, order, -1).T
    return found


def _words(sample: Sample) -> list[list[str]]:
    """Words that rows with a bit have more often than the others, the clearest first."""
    column = sample.looks.text
    if column is None or not len(sample):
        return []
    n = min(len(sample), max(200, int(_BUDGET / (sample.n_bits * _VOCABULARY))), 10_000)
    words = [set(_WORD.findall(str(text or "").lower())) for text in sample.metadata[column][:n]]
    counts = Counter(word for row in words for word in row)
    # A word of every second row tells nothing, and neither does one that is there twice.
    known = [w for w, c in counts.most_common(_VOCABULARY) if 4 <= c <= n // 3]
    if not known:
        return []
    place = {word: at for at, word in enumerate(known)}
    has = np.zeros((n, len(known)), np.float32)
    for row, own in enumerate(words):
        has[row, [place[word] for word in own if word in place]] = 1
    h = sample.bits[:n].astype(np.float32)
    n_on = h.sum(axis=0)[:, None]
    on, total = h.T @ has, has.sum(axis=0)
    share = total / n
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = (on - n_on * share) / np.sqrt(n_on * share * (1 - share) * (1 - n_on / n))
    clear = np.nan_to_num(clear, nan=0.0, posinf=0.0, neginf=0.0)
    order = np.argsort(-clear, axis=1, kind="stable")[:, :WORDS]
    return [
        [known[at] for at in best if clear[bit, at] > 2] for bit, best in enumerate(order.tolist())
    ]
