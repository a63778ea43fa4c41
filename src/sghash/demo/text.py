"""The story as a terminal shows it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sghash.demo.sentences import about
from sghash.demo.shelf import SHOWN
from sghash.demo.story import Row, Story
from sghash.demo.terminal import Terminal, visible
from sghash.evaluation.tables import format_table

_MARGIN = "  "
_WIDTH = 78
# Names longer than this are sentences.
_SHORT = 20
HEADINGS = (
    "model",
    "bits",
    "bytes",
    "recall10@10",
    "recall10@50",
    "fit s",
    "codes/s",
    "queries/s",
)


def cells_of(row: Row) -> tuple[str, ...]:
    """A row of the table as text, under `HEADINGS`."""
    return (
        row.model,
        str(row.n_bits),
        str(row.bytes),
        f"{row.recall10_at_10:.3f}",
        f"{row.recall10_at_50:.3f}",
        f"{row.fit_seconds:.2f}",
        f"{row.codes_per_second:,.0f}",
        f"{row.queries_per_second:,.0f}",
    )


def story_text(story: Story, terminal: Terminal) -> str:
    """All that is printed, but for where the report is."""
    parts = [_opening(story, terminal), _table(story, terminal)]
    if story.material.set.picture is not None:
        parts.append(_pictures(story, terminal))
    parts.append(_collection(story, terminal))
    if story.sentences is not None:
        parts.append(_sentences(story, terminal))
    lines = [line for part in parts for line in ("", *part)]
    return "\n".join(f"{_MARGIN}{line}".rstrip() for line in lines)


def summary(story: Story) -> str:
    """What the demonstration is about, in one sentence."""
    material = story.material
    n, width = material.base.shape
    n_bytes = story.shelf.n_bytes
    return (
        f"{n:,} {material.set.units} of {width:,} numbers: {4 * width:,} bytes each as float32, "
        f"{n_bytes} bytes as {story.n_bits} bits, {4 * width // n_bytes:,} times less."
    )


def reading(story: Story) -> str:
    """How to read the table, in two sentences."""
    unit = story.material.set.units
    return (
        f"recall10@50 is the share of the ten truly nearest {unit} among the first fifty found, "
        f'for {len(story.material.queries)} {unit} never seen before. "SGH, decoder" compares '
        "each query with what the same codes decode to."
    )


def _opening(story: Story, terminal: Terminal) -> list[str]:
    about = shorten(f"sghash · {story.material.data.about}")
    return [
        terminal.bold(terminal.plain(about)),
        *_wrapped(terminal.plain(summary(story))),
    ]


def _table(story: Story, terminal: Terminal) -> list[str]:
    lines = format_table(HEADINGS, [cells_of(row) for row in story.rows]).splitlines()
    remark = [terminal.dim(line) for line in _wrapped(reading(story))]
    return [terminal.dim(lines[0]), *lines[1:], "", *remark]


def _pictures(story: Story, terminal: Terminal) -> list[str]:
    material, shown = story.material, story.material.shown
    chosen = shown[2::3][:3] if len(shown) >= 9 else shown[:3]
    small = (material.set.picture or (0,))[0] <= 8
    names = ("SGH", "ITQ") if small else ("SGH",)
    decoded = {
        name: story.model(name).decode(story.model(name).encode(material.queries)) for name in names
    }
    codes = story.bits(chosen)
    title = f"Never seen before, kept as {story.n_bits} bits, and drawn again from the bits alone"
    lines = [terminal.bold(title), ""]
    for place, (row, bits) in enumerate(zip(chosen, codes, strict=True)):
        blocks = [
            terminal.picture(material.picture(material.queries[row])),
            terminal.bits(bits),
            *(terminal.picture(material.picture(decoded[name][row])) for name in names),
        ]
        if place == 0:
            heads = [
                "original",
                f"{story.n_bits} bits of SGH",
                *(f"{name} draws" for name in names),
            ]
            lines += _heads(heads, blocks, terminal)
        lines += [*_trimmed(terminal.beside(blocks)), ""]
    return lines[:-1]


def _trimmed(lines: list[str]) -> list[str]:
    """Without the empty lines above and below: the margins of a picture."""
    full = [place for place, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _heads(names: Sequence[str], blocks: Sequence[Sequence[str]], terminal: Terminal) -> list[str]:
    widths = [max(visible(line) for line in block) for block in blocks]
    heads = (name.ljust(width) for name, width in zip(names, widths, strict=True))
    return [terminal.dim("   ".join(heads).rstrip())]


def _collection(story: Story, terminal: Terminal) -> list[str]:
    shelf, material = story.shelf, story.material
    n = len(material.base)
    lines = [
        terminal.bold(f"A collection in {shelf.folder}"),
        *_wrapped(
            f"{n:,} codes added and on the disk in {shelf.add_seconds:.2f} s, "
            f"{shelf.bytes_on_disk / 1024:,.0f} KiB with the model; opened again in "
            f"{1000 * shelf.open_seconds:.1f} ms; nearest {material.set.units} by the decoder:"
        ),
        "",
    ]
    return lines + _neighbors(story, terminal)


def _neighbors(story: Story, terminal: Terminal) -> list[str]:
    material, shown = story.material, story.material.shown
    asked = [terminal.plain(material.query_name(row)) for row in shown]
    found = [[*map(terminal.plain, story.shelf.names(material, row))] for row in shown]
    arrow, width = terminal.plain("→"), max(map(len, asked))
    if width > _SHORT:
        return [
            line
            for name, nearest in zip(asked, found, strict=True)
            for line in (
                terminal.bold(shorten(name)),
                *(f"  {arrow} {shorten(one, _WIDTH - 4)}" for one in nearest[:3]),
            )
        ]
    separator = " " if material.data.query_texts is None else ", "
    lines = [
        f"{name.rjust(width)} {arrow} {separator.join(nearest)}"
        for name, nearest in zip(asked, found, strict=True)
    ]
    if max(map(len, lines)) > _WIDTH // 2 - 4:
        return lines
    half = -(-len(lines) // 2)
    return terminal.beside([lines[:half], lines[half:]], gap=8)


def _sentences(story: Story, terminal: Terminal) -> list[str]:
    """Each query, what the codes find on the left, what is nearest on the right."""
    assert story.sentences is not None
    half = (_WIDTH - 2) // 2
    heads = f"  {'found by the codes'.ljust(half)}truly nearest"
    lines = [
        terminal.bold(f"Real sentences in {story.sentences.folder}"),
        *_wrapped(terminal.plain(about(story.sentences))),
        "",
        terminal.dim(heads),
    ]
    for query, found, nearest in story.sentences.shown:
        lines.append(terminal.bold(shorten(query)))
        for ours, true in zip(found, nearest, strict=True):
            left = shorten(ours, half - 2)
            lines.append(f"  {left.ljust(half)}{shorten(true, half)}")
    return lines


def truly_nearest(story: Story, row: int) -> list[str]:
    """What the exact neighbours of a query are called."""
    return [story.material.base_name(near) for near in story.truth.ids[row, :SHOWN].tolist()]


def shorten(text: str, width: int = _WIDTH) -> str:
    """The text, cut at a word if it is longer."""
    return textwrap.shorten(text, width, placeholder=" ...")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)
