"""The documentation as a whole: every public name is told of, and the site hangs together."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from matplotlib import pyplot as plt

import sghash

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_public_name_is_told_of():
    words = set(re.findall(r"\w+", " ".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert not set(sghash.__all__) - {"__version__"} - words


def test_the_readme_links_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert f"(docs/{page.name})" in text or page.name.startswith("results"), page.name


def test_every_page_is_on_the_site():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert f": {page.name}\n" in nav or page.name.startswith("results"), page.name


def test_the_picture_is_small():
    picture = ROOT / "docs" / "images" / "reconstructions.png"
    assert 1_000 < picture.stat().st_size < 60_000


def test_the_picture_of_the_explorer_is_small():
    picture = ROOT / "docs" / "images" / "explorer.png"
    assert 10_000 < picture.stat().st_size < 300_000


def test_the_picture_is_readable_on_dark_pages():
    picture = plt.imread(ROOT / "docs" / "images" / "reconstructions.png")
    assert picture.shape[2] == 3 or picture[..., 3].min() == 1


class Links(HTMLParser):
    """Ids of a page, where it leads, and what it loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            (self.links if tag == "a" else self.loaded).append(values["href"])
        if "src" in values:
            self.loaded.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_knows_every_name_and_has_no_broken_link(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    told = set().union(*(page.ids for page in pages.values()))
    for name in sghash._HOMES:
        assert f"sghash.{name}" in told, name
    for name in set(sghash.MODELS) - set(sghash._HOMES):
        assert f"sghash.models.{name}" in told, name
    for path, page in pages.items():
        if path.name == "404.html":  # its links hold for a server's root
            continue
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or address == "#":
                assert address not in page.loaded, f"{path.name} loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links {address}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{path.name}: {address}"
