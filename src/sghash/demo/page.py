"""The story as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sghash.demo.sentences import about
from sghash.demo.story import Story
from sghash.demo.text import HEADINGS, cells_of, reading, shorten, summary, truly_nearest
from sghash.errors import MissingExtra
from sghash.evaluation.metrics import METRICS
from sghash.report import Page


def write_page(story: Story, path: Path, *, next_steps: Sequence[str] = ()) -> str:
    """Write the report; returns "" or, where figures had to be left out, how to get them."""
    page = Page(f"sghash on {story.material.set.units}", summary(story))
    hint = ""
    try:
        _with_figures(page, story)
    except MissingExtra as error:
        hint = str(error)
        page = Page(page.title, page.summary)
        _tables(page, story)
        page.section("Pictures", f"The figures are missing here: {hint}")
    _sentence_table(page, story)
    if next_steps:
        page.section("Try next").code("\n".join(next_steps))
    page.section("What the words mean")
    for term, meaning in _definitions():
        page.definition(term, meaning)
    page.save(path)
    return hint


def _definitions() -> list[tuple[str, str]]:
    return [
        ("recall10@N", METRICS["recall"].definition),
        ("bytes", METRICS["bytes_per_vector"].definition),
        ("fit s", "Seconds of wall clock to learn the model."),
        ("codes/s", "Rows turned into codes per second of wall clock."),
        ("queries/s", "Queries answered per second of wall clock, ten rows each, on all cores."),
        (
            "SignHashing",
            "Signs along random orthonormal directions, above the mean; only the mean is learned.",
        ),
        (
            "SGH, decoder",
            "Queries are not encoded: each is compared with what every code decodes to.",
        ),
    ]


def _recall_table(page: Page, story: Story) -> None:
    page.section("How many true neighbours the codes find", reading(story))
    page.table(HEADINGS, [cells_of(row) for row in story.rows])


def _neighbor_table(page: Page, story: Story) -> None:
    if story.material.data.query_texts is None:
        return
    rows = [
        (
            shorten(story.material.query_name(row), 90),
            "; ".join(_headword(name) for name in story.shelf.names(story.material, row)),
            "; ".join(_headword(name) for name in truly_nearest(story, row)),
        )
        for row in story.material.shown
    ]
    page.table((story.material.set.unit, f"found by {story.n_bits} bits", "truly nearest"), rows)


def _sentence_table(page: Page, story: Story) -> None:
    if story.sentences is None:
        return
    page.section("Real sentences", about(story.sentences))
    rows = [
        (query if place == 0 else "", ours, true)
        for query, found, nearest in story.sentences.shown
        for place, (ours, true) in enumerate(zip(found, nearest, strict=True))
    ]
    page.table(("query", "found by the codes", "truly nearest"), rows)


def _headword(text: str) -> str:
    """A word as it is; of a definition "word, word: meaning" the first word."""
    return text if len(text) < 20 else shorten(text.split(":")[0].split(",")[0], 40)


def _tables(page: Page, story: Story) -> None:
    _recall_table(page, story)
    page.section("A collection in a folder", _collection_text(story))
    _neighbor_table(page, story)


def _with_figures(page: Page, story: Story) -> None:
    from sghash.demo import figures

    has_pictures = story.material.set.picture is not None
    drawn = figures.recall_figures(story)
    _recall_table(page, story)
    page.figure(
        drawn,
        "Recall10@N against the number N of rows retrieved, by code length.",
        _recall_told(story),
    )
    if has_pictures:
        page.section(
            f"What {story.n_bits} bits still know",
            f"Each column is one {story.material.set.unit} that no model has seen: the original, "
            "its code as a square of bits, and what each model draws from its code alone.",
        ).figure(
            figures.reconstruction_figure(story),
            f"{story.n_bits} bits are {story.shelf.n_bytes} bytes.",
            f"Originals, their codes, and reconstructions: {_errors_told(story)}.",
        )
        page.section(
            "From one to another",
            f"Flip the bits in which two codes differ, one by one: what the code stands for turns "
            f"from one {story.material.set.unit} into another. Numbers count flipped bits.",
        ).figure(
            figures.flip_figure(story),
            "At the ends the images themselves, beside them what their codes decode to.",
            "Pictures decoded from codes in between: each row begins as one image and ends as "
            "another after the number of flipped bits that stands before it.",
        )
        page.section(
            "Templates",
            "SGH learns one template per bit; a reconstruction is the mean plus or minus each of "
            "them. Orange adds, purple takes away.",
        ).figure(
            figures.template_figure(story),
            "",
            f"What each of {story.n_bits} bits adds to a reconstruction, a small picture per bit.",
        )
    page.section("A collection in a folder", _collection_text(story))
    _neighbor_table(page, story)
    if has_pictures:
        page.figure(
            figures.neighbor_figure(story),
            "The nearest eight in the collection, by the decoder's scores.",
            _neighbors_told(story),
        )
    page.section("How it learned", _training_text(story)).figure(
        figures.training_figures(story),
        "",
        _learning_told(story),
    )
    page.section(
        "What each bit is worth",
        "A bit that is set for half of the rows carries a full bit; bits that repeat each other "
        "carry less.",
    ).figure(figures.bit_figures(story), "", _bits_told(*figures.bit_facts(story)))


def _recall_told(story: Story) -> str:
    said = []
    for n_bits, curves in story.curves.items():
        ranked = sorted(curves, key=lambda curve: -sum(curve[2]))
        n = ranked[0][1][0]
        shown = ", ".join(f"{name} {recalls[0]:.2f}" for name, _, recalls in ranked)
        said.append(f"{n_bits} bits, Recall10@{n}, the best first: {shown}")
    return "; ".join(said) + "."


def _errors_told(story: Story) -> str:
    queries = story.material.queries
    spread = float(((queries - queries.mean(axis=0)) ** 2).sum())
    lost = {}
    for name in ("SGH", "ITQ"):
        model = story.model(name)
        errors = (queries - model.decode(model.encode(queries))) ** 2
        lost[name] = f"{name} loses {100 * float(errors.sum()) / spread:.0f} %"
    return f"{' and '.join(lost.values())} of the variance"


def _neighbors_told(story: Story) -> str:
    material, labels = story.material, story.material.data.base_labels
    rows = material.shown[:6]
    if labels is None:
        return f"{len(rows)} queries, each with the eight nearest that were found for it."
    same = sum(
        material.base_name(int(near)) == material.query_name(row)
        for row in rows
        for near in story.shelf.scored.ids[row, :8]
    )
    return (
        f"Of the eight found for each of {len(rows)} queries, {same} of {8 * len(rows)} in all are "
        "of its class."
    )


def _learning_told(story: Story) -> str:
    history = story.model().history_
    errors, lengths = history["reconstruction_error"], history["description_length"]
    return (
        f"While it learned, the squared error of a reconstruction went from {errors[0]:.4g} to "
        f"{errors[-1]:.4g}, and the bits to describe a row from {lengths[0]:.4g} to "
        f"{lengths[-1]:.4g}."
    )


def _bits_told(shares: NDArray[np.float64], correlations: NDArray[np.float64]) -> str:
    pairs = np.abs(correlations[np.triu_indices(len(shares), 1)])
    return (
        f"Every bit is set for {100 * shares.min():.0f} to {100 * shares.max():.0f} % of the rows; "
        f"two bits correlate by {pairs.mean():.2f} on average and {pairs.max():.2f} at most."
    )


def _collection_text(story: Story) -> str:
    shelf = story.shelf
    return (
        f"`{shelf.folder}` holds the model, {len(story.material.base):,} codes of "
        f"{shelf.n_bytes} bytes and what belongs to them: {shelf.bytes_on_disk / 1024:,.0f} KiB "
        "in all. It survives a crash at any moment, and any number of processes may search it."
    )


def _training_text(story: Story) -> str:
    return (
        f"SGH took {story.model().steps_done_:,} steps of stochastic gradient descent. What it "
        "minimises is the length of a description: bits for the code, and bits for what the code "
        "leaves over."
    )
