"""The demonstration's report in a real browser: light and dark, wide and narrow.

Needs Chromium (CHROMIUM names it, or it is on the path) and the package `playwright`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from sghash.colours import DARK_INK, DARK_PAPER, INK, METHODS, PAPER
from sghash.report import Page, save_picture

pytestmark = pytest.mark.slow
matplotlib = pytest.importorskip("matplotlib.image", reason="no figures without the extra plots")

# What lies over what: every pair of parts of the page that have no business to share a place.
MEASURE = """() => {
  const main = document.querySelector('main');
  const parts = [...main.children].filter(part => part.getClientRects().length);
  const boxes = parts.map(part => part.getBoundingClientRect());
  const overlaps = [];
  for (let i = 0; i + 1 < boxes.length; i++)
    if (boxes[i + 1].top < boxes[i].bottom - 1) overlaps.push(parts[i].outerHTML.slice(0, 80));
  const pictures = [...document.querySelectorAll('.picture')].map(holder => {
    const picture = holder.firstElementChild, box = picture.getBoundingClientRect();
    return {width: box.width, height: box.height, alt: picture.getAttribute('aria-label')
            || picture.alt, drawn: picture.tagName == 'IMG' ? picture.naturalWidth
            : picture.querySelectorAll('path, image, use').length};
  });
  const outside = [...document.querySelectorAll('main *')].filter(element => {
    if (element.closest('svg, .table, pre, .wide')) return false;
    const box = element.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1);
  }).map(element => element.outerHTML.slice(0, 80));
  const rows = [...document.querySelectorAll('.picture')].map(p => p.getBoundingClientRect());
  for (let i = 0; i < rows.length; i++) for (let j = 0; j < i; j++)
    if (rows[i].left < rows[j].right - 1 && rows[j].left < rows[i].right - 1 &&
        rows[i].top < rows[j].bottom - 1 && rows[j].top < rows[i].bottom - 1)
      overlaps.push(`pictures ${j} and ${i}`);
  const seen = getComputedStyle(document.body);
  const svg = document.querySelector('svg text, svg g[style*="--ink"], svg use');
  return {overlaps, pictures, outside, scroll: document.documentElement.scrollWidth - innerWidth,
          paper: seen.backgroundColor, ink: seen.color};
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The demonstration's report, and a page with every piece in its most unwieldy form."""
    from sghash.demo.page import write_page
    from sghash.demo.sets import load_set
    from sghash.demo.story import tell

    folder = tmp_path_factory.mktemp("report")
    story = tell(load_set("digits"), folder / "demo", seed=0, say=lambda _: None)
    assert write_page(story, folder / "demo.html", next_steps=["x" * 200]) == ""
    _everything().save(folder / "everything.html")
    return {path.stem: path for path in folder.glob("*.html")}


def _everything():
    plots = pytest.importorskip("sghash.plots")
    rng = np.random.default_rng(0)
    series = [(name, [1, 10, 100, 1000], np.sort(rng.random(4))) for name in METHODS]
    page = Page("A title that is too-long-for-a-phone-" * 3, "A summary. " * 20)
    page.section("Curves").figure(plots.recall_curves({16: series, 32: series}), "wide", "wide")
    page.figure([plots.recall_curves({n: series[:4]}) for n in (8, 16, 32)], "flowing", "three")
    page.figure(
        plots.bars(["8", "16"], {name: [1, 2] for name in METHODS}, y_label="s"), "bars", "bars"
    )
    page.section("Words", "word" * 60).code("c" * 300).definition("d" * 90, "e" * 300)
    page.table([f"column {n}" for n in range(14)], [["SGH", *["0.123 ± 0.001"] * 13]], "wide")
    return page.verdict("claim " * 30, "differs", "why" * 90).verdict("x", "open", "y")


def _colour(text):
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", text)[:3])


@pytest.mark.parametrize("page_name", ["demo", "everything"])
@pytest.mark.parametrize("width", [1280, 768, 390, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_every_screen_and_asks_for_nothing(browser, pages, page_name, width, scheme):
    requests: list = []
    problems: list = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(pages[page_name].as_uri())
    seen = tab.evaluate(MEASURE)
    context.close()
    asked = [url for url in requests if not url.startswith("data:")]
    assert asked == [pages[page_name].as_uri()] and problems == []
    assert seen["scroll"] <= 0 and seen["outside"] == [] and seen["overlaps"] == []
    assert _colour(seen["paper"]) == (PAPER if scheme == "light" else DARK_PAPER)
    assert len(seen["pictures"]) >= 5
    for picture in seen["pictures"]:
        assert picture["width"] > 100 and picture["height"] > 40, picture
        assert picture["drawn"] > 0 and picture["alt"], picture


def test_text_in_figures_follows_the_theme(browser, pages):
    """The ink of a figure is the ink of the page, in both themes."""
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        tab = context.new_page()
        tab.goto(pages["everything"].as_uri())
        ink, body = tab.evaluate(
            """() => [getComputedStyle(document.querySelector('svg [style*="--ink"]')).fill,
                      getComputedStyle(document.body).color]"""
        )
        context.close()
        assert ink == body, scheme


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_drawing_in_a_file_of_its_own_follows_the_theme(browser, tmp_path, scheme):
    """As an image in a page of somebody else, where no style of ours reaches it."""
    from sghash import plots

    figure = plots.lines([("SGH", [1, 2], [1, 2])], x_label="x", y_label="y")
    save_picture(figure, tmp_path / "figure.svg")
    (tmp_path / "page.html").write_text(
        '<meta name="color-scheme" content="light dark"><img src="figure.svg" width=300>'
    )
    context = browser.new_context(color_scheme=scheme)
    tab = context.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    tab.locator("img").screenshot(path=tmp_path / "seen.png")
    context.close()
    seen = (matplotlib.imread(tmp_path / "seen.png")[..., :3] * 255).round().astype(int)
    paper, ink = (PAPER, INK) if scheme == "light" else (DARK_PAPER, DARK_INK)
    assert "#" + "".join(f"{value:02x}" for value in seen[3, 3]) == paper
    # Of all that is drawn, text is farthest from the paper.
    far = np.abs(seen - seen[3, 3]).sum(axis=2)
    darkest = seen[np.unravel_index(far.argmax(), far.shape)]
    wanted = [int(ink[at : at + 2], 16) for at in (1, 3, 5)]
    assert np.abs(darkest - wanted).max() < 90


@pytest.mark.parametrize("width", [1280, 390])
def test_the_map_of_correlations_is_seen_whole(browser, pages, width):
    context = browser.new_context(viewport={"width": width, "height": 800})
    tab = context.new_page()
    tab.goto(pages["demo"].as_uri())
    boxes = tab.evaluate(
        """() => [...document.querySelectorAll('.picture')].map(holder => {
          const picture = holder.firstElementChild.getBoundingClientRect();
          return [picture.left, picture.right, holder.scrollWidth - holder.clientWidth];
        })"""
    )
    context.close()
    assert len(boxes) == 10
    assert all(left >= 0 and right <= width and cut <= 0 for left, right, cut in boxes)
