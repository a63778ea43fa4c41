"""Pages of the site that are no files of docs/: the README and its like, and the API reference.

A hook of MkDocs, called by `make docs`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import sghash

ROOT = Path(__file__).resolve().parent.parent
#: Files outside of docs/ -> their place on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
#: Rooms of the package -> what stands behind their public names on the same page.
ROOMS: dict[str, tuple[str, ...]] = {
    "models": (
        *(f"sghash.models.{name}" for name in sorted(sghash.MODELS) if name not in sghash._HOMES),
        "sghash.models.minimize_binary",
        "sghash.models.BinaryMinimum",
        "sghash.models.spherical_hamming",
        "sghash.models.capabilities",
        "sghash.models.sgh.paper.objective",
        "sghash.models.sgh.encoder_gradient",
        "sghash.models.sgh.DescriptionLength",
    ),
    "index": (),
    "collection": (
        "sghash.collection.ShardedCollection",
        "sghash.collection.encode_part",
        "sghash.collection.Task",
        "sghash.collection.Staged",
        "sghash.adapters.clusters.dask",
        "sghash.adapters.clusters.spark",
        "sghash.adapters.clusters.ray",
    ),
    "client": ("sghash.client.RemoteCollection",),
    "data": (
        "sghash.data.READERS",
        "sghash.data.catalog.CATALOG",
        "sghash.data.dataset.DataSet",
    ),
    "evaluation": (
        "sghash.evaluation.metrics.METRICS",
        "sghash.evaluation.single_bits.bit_values",
        "sghash.evaluation.metrics.recall",
    ),
    "bits": ("sghash.bits",),
    "neighbors": (),
    "errors": (
        "sghash.errors.InvalidDtype",
        "sghash.errors.NewerFormat",
        "sghash.errors.Diverged",
        "sghash.errors.NotAllowed",
        "sghash.errors.Unreachable",
    ),
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def room_of(name: str) -> str:
    """The room in which a public name is defined."""
    return sghash._HOMES[name].split(".")[1]


def reference(room: str) -> str:
    """The page of a room: its public names, then what else is worth a look."""
    names = sorted((n for n in sghash._HOMES if room_of(n) == room), key=str.lower)
    title = f"# {room.capitalize()}\n\nWhat stands first is imported from `sghash` itself.\n"
    parts = [f"::: sghash.{name}\n" for name in names]
    return "\n".join([title, *parts, *(f"::: {path}\n" for path in ROOMS[room])])


def page_name(room: str) -> str:
    """Where the page of a room stands; `index` is taken by the page that opens a folder."""
    return f"reference/{'index_' if room == 'index' else room}.md"


def relinked(text: str, source: Path, target: str) -> str:
    """`text` of the file `source` with its links as they are at `target` on the site.

    A link to a file that is not on the site keeps its words only.
    """

    def link(match: re.Match[str]) -> str:
        mark, words, address = match.groups()
        path, _, anchor = address.partition("#")
        if not path or ":" in path:
            return match.group(0)
        file = (source.parent / path).resolve()
        place = OUTSIDE.get(file.relative_to(ROOT).as_posix()) if ROOT in file.parents else None
        if place is None and ROOT / "docs" in file.parents and file.exists():
            place = file.relative_to(ROOT / "docs").as_posix()
        if place is None:
            return words
        address = os.path.relpath(place, os.path.dirname(target) or ".")
        return f"{mark}[{words}]({address}{'#' + anchor if anchor else ''})"

    return _LINK.sub(link, text)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    for source, target in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        content = relinked(text, ROOT / source, target)
        files.append(File.generated(config, target, content=content))
    for room in ROOMS:
        files.append(File.generated(config, page_name(room), content=reference(room)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Drop links to pages that are not there yet, such as results that nobody has measured."""
    path = page.file.abs_src_path
    if path is None or not Path(path).is_relative_to(ROOT / "docs"):
        return markdown
    return relinked(markdown, Path(path), page.file.src_uri)
