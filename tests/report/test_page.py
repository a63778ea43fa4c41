"""A page says what it was told, takes nothing for markup, and asks nobody for anything."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings, strategies as st

from sghash.colours import DARK, GRID, INK, METHODS, PAPER
from sghash.errors import InvalidInput, StorageError
from sghash.report import Page, save_picture
from sghash.report.numbers import is_number

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SVG = (
    f'<?xml version="1.0"?><svg width="10pt"><g id="a" style="fill: {INK}"/><use href="#a"/></svg>'
)
ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "h1", "h2", "p", "code",
    "pre", "nav", "a", "div", "table", "thead", "tbody", "tr", "th", "td", "caption", "figure",
    "figcaption", "dl", "dt", "dd", "span", "strong", "img",
}  # fmt: skip
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30).filter(
    lambda text: "`" not in text
)


class Reader(HTMLParser):
    """Tags, and the text of each kind of element."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.attributes = [], {}, []
        self._open = []
        self.feed(document)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in ("meta", "link", "img"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        for tag in self._open:
            self.texts[tag][-1] += data


@settings(max_examples=60)
@given(title=words.filter(bool), text=words, cell=words, alt=words.filter(bool))
def test_text_is_never_markup(title, text, cell, alt):
    page = Page(title, text).section(text, cell).table([text, title], [[cell, alt]], text)
    page.definition(text, cell).verdict(text, "agrees", cell).code(cell).figure(PNG, text, alt)
    seen = Reader(page.html())
    assert set(seen.tags) <= ALLOWED
    assert seen.texts["h1"] == [title] and seen.texts["title"] == [title]
    assert seen.texts["td"] == [cell, alt] and seen.texts["dt"] == [text]
    assert ("img", "alt", alt) in seen.attributes


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "&lt;"]
)
def test_hostile_text_stays_text_everywhere(hostile):
    page = Page(hostile, hostile).section(hostile, hostile).table([hostile], [[hostile]], hostile)
    page.verdict(hostile, "differs", hostile).figure(SVG.encode(), hostile, hostile).code(hostile)
    document = page.definition(hostile, hostile).html()
    assert "<script" not in document and "<img" not in document
    assert Reader(document).texts["h2"] == [hostile]
    outside = page.markdown().replace(f"```\n{hostile}\n```", "")
    assert not re.search(r"(?<!\\)<", outside)


def test_code_in_backticks_and_paragraphs():
    seen = Reader(Page("t").text("run `a < b`\n\nthen rest").html())
    assert seen.texts["code"] == ["a < b"] and seen.texts["p"] == ["run a < b", "then rest"]


def test_a_method_shows_its_colour_and_numbers_stand_right():
    rows = [["SGH", 64, "0.9 ±0.01"], ["ITQ(n_iterations=9)", 64, "1,000"], ["another", 8, "–"]]
    document = Page("t").table(["model", "bits", "recall"], rows).html()
    assert document.count('class="swatch"') == 2
    assert METHODS["SGH"].colour in document and METHODS["ITQ"].colour in document
    assert document.count('<td class="number">') == 6


def test_svg_ink_follows_the_theme_and_ids_stay_apart():
    document = Page("t").figure([SVG.encode(), SVG.encode()], "c", "a").html()
    ids = re.findall(r'id="([^"]*)"', document)
    assert len(ids) == len(set(ids)) == 2
    assert set(re.findall(r'href="#([^"]*)"', document)) == set(ids)
    assert "fill: var(--ink)" in document and "<?xml" not in document


@pytest.mark.parametrize(
    "inside",
    ["<script>x</script>", '<a href="https://example.org">x</a>', '<g onload="x"/>',
     '<image href="http://example.org/a.png"/>', "<style>@import url(//example.org)</style>",
     '<image href="picture.png"/>', "<foreignObject/>"],
)  # fmt: skip
def test_an_svg_that_acts_or_asks_is_refused(inside):
    page = Page("t").figure(f"<svg>{inside}</svg>".encode(), "", "alt")
    with pytest.raises(InvalidInput, match="neither scripts nor addresses"):
        page.html()


def test_nothing_in_a_page_is_an_address():
    plots = pytest.importorskip("sghash.plots")
    pytest.importorskip("matplotlib")
    figure = plots.lines([("SGH", [1, 2], [1, 2])], x_label="x", y_label="y")
    document = Page("t").figure(figure, "c", "a").html()
    asked = re.findall(r'(?:src|href)="([^"]*)"', document)
    assert all(link.startswith(("#", "data:")) for link in asked)
    assert "default-src 'none'" in document and "url(http" not in document


def test_the_same_figure_gives_the_same_bytes():
    plots = pytest.importorskip("sghash.plots")
    pytest.importorskip("matplotlib")

    def drawn():
        figure = plots.lines([("SGH", [1, 2], [1, 2], [0, 1], [2, 3])], x_label="x", y_label="y")
        return Page("t").figure(figure, "", "a").html()

    assert drawn() == drawn()


def test_a_long_page_lists_its_sections():
    page = Page("t")
    for name in "abcd":
        page.section(name)
    document = page.html()
    assert [*map(str, re.findall(r'<a href="#(s\d)"', document))] == ["s1", "s2", "s3", "s4"]
    assert all(f'id="s{n}"' in document for n in range(1, 5))
    assert "<nav" not in Page("t").section("a").html()


def test_definitions_in_a_row_are_one_list():
    page = Page("t").definition("a", "1").definition("b", "2").text("x").definition("c", "3")
    assert Reader(page.html()).tags.count("dl") == 2


def test_the_markdown_twin_has_every_piece_and_its_pictures(tmp_path):
    page = Page("T_1", "summary").section("Recall, by length", "text with `code_x`")
    page.figure([SVG.encode(), PNG], "a caption", "an alt]").code("$ x")
    page.table(["model", "bits"], [["a|b", 64]], "of rows").definition("word", "meaning")
    page.verdict("a claim", "open", "no data").section("Recall, by length").figure(PNG, "", "two")
    path = page.save_markdown(tmp_path / "results.md", figures="pictures")
    text = path.read_text(encoding="utf-8")
    for part in (r"# T\_1", "## Recall, by length", "`code_x`", "| model | bits |", "|---|---:|",
                 r"| a\|b | 64 |", "**open**: a claim", "- **word**: meaning", "```\n$ x\n```",
                 "*a caption*"):  # fmt: skip
        assert part in text, part
    linked = re.findall(r"\]\(pictures/([^)]*)\)", text)
    assert linked == [f"recall-by-length-{n}" for n in ("1.svg", "2.png", "3.png")]
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == sorted(linked)
    assert (tmp_path / "pictures" / linked[1]).read_bytes() == PNG
    # A drawing lies on paper in a file: white, or dark where its reader wants that.
    drawing = (tmp_path / "pictures" / linked[0]).read_text(encoding="utf-8")
    assert drawing.startswith('<?xml version="1.0"?><svg width="10pt"><style>@media (prefers-color')
    assert f'<rect width="100%" height="100%" style="fill: {PAPER}"/>' in drawing


def test_every_theme_colour_of_a_drawing_has_a_dark_twin(tmp_path):
    """Light colours stay where they are; a rule for dark pages names each of them."""
    plots = pytest.importorskip("sghash.plots")
    pytest.importorskip("matplotlib")
    figure = plots.lines(
        [("SGH", [1, 2], [1, 2]), ("ITQ", [1, 2], [2, 1])], x_label="x", y_label="y"
    )
    text = save_picture(figure, tmp_path / "a.svg").read_text(encoding="utf-8")
    style = re.search("<style>(.*?)</style>", text, re.S)[1]
    twins = dict(re.findall(r'\[style\*="(\w+: #\w+)"\] { (\w+: #\w+) !important; }', style))
    drawn = set(re.findall(r"(?:fill|stroke): #\w{6}", text.replace(style, "")))
    for use in drawn:
        name, colour = use.split(": ")
        if colour in DARK:
            assert twins[use] == f"{name}: {DARK[colour]}"
    assert {f"fill: {INK}", f"fill: {PAPER}", f"stroke: {GRID}"} <= drawn
    assert save_picture(PNG, tmp_path / "a.png").read_bytes() == PNG


def test_a_sentence_in_a_cell_has_room():
    document = Page("t").table(["a", "b"], [["x", "words " * 12], ["y", "short"]]).html()
    assert document.count('class="words long"') == 1 and "td.long { min-width" in document


def test_a_failed_save_leaves_the_old_page(tmp_path, monkeypatch):
    path = Page("old").save(tmp_path / "page.html")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(StorageError, match="disk is full"):
        Page("new").save(path)
    assert "old" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "call",
    [lambda: Page(""), lambda: Page("t").table([], []), lambda: Page("t").table(["a"], [[1, 2]]),
     lambda: Page("t").figure(PNG, "c", ""), lambda: Page("t").figure([], "c", "a"),
     lambda: Page("t").figure(b"nonsense", "c", "a"), lambda: Page("t").figure("x", "c", "a"),
     lambda: Page("t").verdict("c", "maybe", "w")],
)  # fmt: skip
def test_refusals(call):
    with pytest.raises(InvalidInput):
        call()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("1", True), ("-1.5", True), ("1,234", True), ("0.9 ± 0.01", True), ("3e-4", True),
     ("12 %", True), ("1.5×", True), ("–", True), ("SGH", False), ("64 bits", False),
     ("v1", False)],
)  # fmt: skip
def test_what_counts_as_a_number(cell, expected):
    assert is_number(cell) is expected
