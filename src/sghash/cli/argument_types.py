"""Types of arguments that know their values, so that the shell can complete them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem

from sghash.errors import InvalidInput
from sghash.optional import require

if TYPE_CHECKING:
    _Text: TypeAlias = click.ParamType[str]
else:
    _Text = click.ParamType  # before click 8.2 it takes no type in brackets


class TextName(_Text):
    """Abstract: text that is passed on as it is, with names that the shell can complete."""

    name = "text"

    def candidates(self) -> Iterable[str]:
        """Every value that is worth offering."""
        return ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the candidates; in a list with commas, for its last part."""
        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in self.candidates()
            if name.startswith(last)
        ]


class ModelName(TextName):
    """A model, or several with commas."""

    name = "model"

    def candidates(self) -> Iterable[str]:
        """Names in `MODELS`."""
        from sghash.models import MODELS

        return MODELS


class DataSetName(TextName):
    """A data set that has a name."""

    name = "dataset"

    def candidates(self) -> Iterable[str]:
        """Built-in and catalogued sets."""
        from sghash.cli.inputs import dataset_names

        return dataset_names()


class RowsName(TextName):
    """Where vectors come from: a path, `-`, or a part of a data set such as `digits.base`."""

    name = "path"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer parts of data sets beside the files, once something of their name is typed."""
        from sghash.cli.inputs import PARTS, dataset_names

        names = [f"{name}.{part}" for name in dataset_names() for part in PARTS]
        found = [
            CompletionItem(name) for name in names if incomplete and name.startswith(incomplete)
        ]
        if not found:
            return [CompletionItem(incomplete, type="file")]
        # Shells show either our words or their files: where both exist, all must be our words.
        return [*(CompletionItem(path) for path in _paths(incomplete)), *found]


class TargetName(TextName):
    """Where vectors go: a path whose ending chooses the format, or `-`."""

    name = "path"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the formats after the last dot of a name, else files."""
        from sghash.data import WRITERS

        folder, slash, name = incomplete.rpartition("/")
        stem, dot, begun = name.rpartition(".")
        if not dot or not stem:
            return [CompletionItem(incomplete, type="file")]
        endings = [ending for ending in WRITERS if ending.startswith(f".{begun}")]
        return [CompletionItem(f"{folder}{slash}{stem}{ending}") for ending in endings]


def _paths(begun: str) -> list[str]:
    folder, _, name = begun.rpartition("/")
    try:
        entries = sorted(Path(folder or ("/" if begun.startswith("/") else ".")).iterdir())
    except OSError:
        return []
    prefix = begun[: len(begun) - len(name)]
    # Names that a terminal cannot show are not offered.
    offered = (entry.name for entry in entries if entry.name.isprintable())
    return [prefix + entry for entry in offered if entry.startswith(name)]


def check_plot(path: Path | None) -> None:
    """Refuse a picture of an unknown kind before anything is measured."""
    if path is None:
        return
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InvalidInput(f"--plot takes a file that ends in .svg, .png or .pdf, got {path}")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: its folder is not there: make it first")
    require("matplotlib", extra="plots")
