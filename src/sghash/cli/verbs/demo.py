"""`sghash demo`: what this is, in a minute, on built-in data."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type, seed_option
from sghash.cli.printing import printable, show
from sghash.demo.sets import DEFAULT_SET, DEMO_SETS, is_here, load_set
from sghash.demo.terminal import Terminal

if TYPE_CHECKING:
    from sghash.demo.story import Story

# Codes of other lengths are learned for the explorer where that takes a second or two.
_SMALL = 5000


@click.command("demo", epilog=examples("sghash demo", "sghash demo --data glove --output words"))
@click.option(
    "--data",
    type=click.Choice(list(DEMO_SETS)),
    default=DEFAULT_SET,
    show_default=True,
    help="What to show it on; all but digits and sentences are looked for in SGHASH_DATA.",
)
@click.option(
    "--output",
    type=path_type,
    default=Path("sghash-demo"),
    show_default=True,
    help="Folder for the report and the collection.",
)
@seed_option
@json_option
def command(data: str, output: Path, seed: int, as_json: bool) -> None:
    """Fit three models, search and redraw what they encoded, and write a report about it."""
    # Loaded here, so that --help stays quick.
    from sghash.demo.page import write_page
    from sghash.demo.story import tell
    from sghash.demo.text import story_text

    say = _Voice()
    say("loading")
    material = load_set(data)
    story = tell(material, output, seed=seed, say=say)
    say("drawing the report")
    steps = _steps(output, data)
    hint = write_page(story, output / "report.html", next_steps=steps)
    say("drawing the explorer")
    explorer = _write_explorer(story, output)
    say.end()
    facts = {**story.facts(), "report": str(output / "report.html"), "explorer": str(explorer)}
    pages = [printable(facts["report"]), printable(explorer.resolve().as_uri())]
    ending = _ending(pages, list(map(printable, steps)), hint)
    text = f"{story_text(story, _terminal())}\n\n{ending}"
    show(facts, text, as_json=as_json, styled=True)


def _write_explorer(story: Story, output: Path) -> Path:
    """The explorer of the demonstration's collections, as one file beside the report.

    Their vectors are at hand, though the collections keep none.
    """
    from sghash.collection import Collection
    from sghash.data.loading import load_dataset
    from sghash.serve.explorer.export import Given, write_export

    material = story.material
    opened = Collection.open(story.shelf.folder)
    lengths = (16, 32, 64, 128) if len(material.base) < _SMALL else ()
    shown = {material.set.units: Given(opened, vectors=material.base, lengths=lengths)}
    if story.sentences is not None:
        vectors = np.asarray(load_dataset("sentences").base)
        opened = Collection.open(story.sentences.folder)
        shown["sentences"] = Given(opened, vectors=vectors, lengths=())
    return write_export(output / "explorer.html", shown).path


class _Voice:
    """What is being done, on stderr: one line that changes, or plain lines for a log."""

    def __init__(self) -> None:
        self.changes = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        start = "\r\x1b[K" if self.changes else ""
        click.echo(f"{start}{text} ...", err=True, nl=not self.changes)

    def end(self) -> None:
        """Wipe the line."""
        if self.changes:
            click.echo("\r\x1b[K", err=True, nl=False)


def _terminal() -> Terminal:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Terminal(sys.stdout.encoding or "ascii", sys.stdout.isatty() and not plain)


def _steps(folder: Path, data: str) -> list[str]:
    """Commands to try next, as they can be typed here."""
    program = _program()
    place = shlex.quote(f"{folder}/collection"), shlex.quote(f"{folder}/queries.npy")
    others = (name for name in ("glove", *DEMO_SETS) if name != data and is_here(name))
    return [
        f"{program} search {place[0]} {place[1]} --k 5",
        *(f"{program} demo --data {other}" for other in islice(others, 1)),
        f"{program} evaluate your-vectors.npy",
    ]


def _program() -> str:
    """What to type for sghash: `make demo` installs it where no shell looks for it."""
    if shutil.which("sghash"):
        return "sghash"
    script = Path(sys.executable).with_name("sghash")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m sghash"
    near = script.is_relative_to(Path.cwd())
    return shlex.quote(str(script.relative_to(Path.cwd()) if near else script))


def _ending(pages: list[str], steps: list[str], hint: str) -> str:
    lines = [f"  report  {pages[0]}"]
    if hint:
        lines.append(f"          without figures: {hint}")
    lines.append(f"  look    {pages[1]}")
    lines += ["", *(f"  {'next' if step is steps[0] else '':6}  {step}" for step in steps)]
    return "\n".join(lines)
