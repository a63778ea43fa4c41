"""The story as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
        "curves of recall, rising with the number of rows retrieved, one per model",
    )
    if has_pictures:
        page.section(
            f"What {story.n_bits} bits still know",
            f"Each column is one {story.material.set.unit} that no model has seen: the original, "
            "its code as a square of bits, and what each model draws from its code alone.",
        ).figure(
            figures.reconstruction_figure(story),
            f"{story.n_bits} bits are {story.shelf.n_bytes} bytes.",
            "rows of pictures: originals, their codes, reconstructions by SGH and by ITQ",
        )
        page.section(
            "Templates",
            "SGH learns one template per bit; a reconstruction is the mean plus or minus each of "
            "them. Orange adds, purple takes away.",
        ).figure(figures.template_figure(story), "", "one small picture per bit of the code")
    page.section("A collection in a folder", _collection_text(story))
    _neighbor_table(page, story)
    if has_pictures:
        page.figure(
            figures.neighbor_figure(story),
            "The nearest eight in the collection, by the decoder's scores.",
            "each row: a query and the eight nearest pictures found for it",
        )
    page.section("How it learned", _training_text(story)).figure(
        figures.training_figures(story),
        "",
        "two curves against training steps: error of reconstructions, and description length",
    )
    page.section(
        "What each bit is worth",
        "A bit that is set for half of the rows carries a full bit; bits that repeat each other "
        "carry less.",
    ).figure(
        figures.bit_figure(story), "", "bars: how often each bit is set; a map of correlations"
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
