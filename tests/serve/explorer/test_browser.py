"""The explorer in a real browser, from a server and as one file: every control, wide and narrow.

Needs Chromium (CHROMIUM names it, or it is on the path) and the package `playwright`. The audit
needs axe-core. `make browser` brings all of it; AXE names another `axe.min.js`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.serve.explorer.export import Given, write_export

pytestmark = pytest.mark.slow
WIDTHS = {390: 844, 1280: 800, 2560: 1300}


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    """Pictures with labels, texts with hostile words, a plain table, codes of bytes."""
    folder = tmp_path_factory.mktemp("collections")
    digits = sghash.load_dataset("digits")
    base = np.asarray(digits.base)[:400]
    made = {}
    with Collection.create(
        folder / "digits", sghash.ITQ(32, random_state=0).fit(base), keep_vectors="float32"
    ) as rows:
        rows.add(base, metadata={"label": np.asarray(digits.base_labels)[:400]})
        rows.describe(label="label", picture="8x8")
    sentences = sghash.load_dataset("sentences")
    base = np.asarray(sentences.base)[:300]
    texts = ["</script><img src=x onerror=alert(1)>", *sentences.base_texts[1:300]]
    model = sghash.ITQ(64, random_state=0).fit(base)
    with Collection.create(
        folder / "texts", model, metric="cosine", keep_vectors="float16"
    ) as rows:
        rows.add(base, [f"key {n}" for n in range(300)], {"text": texts})
    rng = np.random.default_rng(0)
    base = rng.standard_normal((200, 10)).astype(np.float32)
    model = sghash.models.LSH(16, random_state=0).fit(base)
    with Collection.create(folder / "plain", model) as rows:
        rows.add(base, metadata={"price": rng.random(200), "town": ["Ulm", "Bonn"] * 100})
    with Collection.create(
        folder / "bytes", sghash.ProductQuantizer(2, random_state=0).fit(base)
    ) as rows:
        rows.add(base)
    for name in ("digits", "texts", "plain", "bytes"):
        made[name] = Collection.open(folder / name)
    return made


@pytest.fixture(scope="module")
def addresses(collections, tmp_path_factory):
    """Where the same page is: in one file, and behind a server."""
    path = tmp_path_factory.mktemp("page") / "all.html"
    given = {name: Given(each, lengths=(8, 16)) for name, each in collections.items()}
    write_export(path, given)
    found = {"file": path.as_uri()}
    fastapi, uvicorn = pytest.importorskip("fastapi"), pytest.importorskip("uvicorn")
    from sghash.serve.explorer import routes

    app = fastapi.FastAPI()
    app.include_router(routes(collections))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    found["server"] = f"http://127.0.0.1:{port}/"
    yield found
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def opened(browser, addresses):
    """Open the page; afterwards nothing may have been asked of others, and nothing failed."""
    seen: list = []

    def call(kind="file", name="digits", width=1280, scheme="light"):
        page = browser.new_page(
            viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme
        )
        page.emulate_media(reduced_motion="reduce", color_scheme=scheme)
        page.set_default_timeout(60_000)
        faults: list = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: faults.append(request.url) if not request.url.startswith(
            ("data:", "blob:", addresses["file"], addresses["server"])) else None)  # fmt: skip
        seen.append((page, faults))
        page.goto(f"{addresses[kind]}#collection={name}")
        page.wait_for_selector(f"body[data-ready={name}]")
        return page

    yield call
    for page, faults in seen:
        page.close()
        assert faults == []


def ids_in(page, column=0):
    rows = f".measure:nth-child({column + 1}) li"
    return page.eval_on_selector_all(rows, "items => items.map((item) => item.dataset.id)")


def test_the_file_answers_as_the_collection_does(opened, collections):
    page = opened("file")
    collection = collections["digits"]
    for row in (3, 77):
        page.fill("#words", str(row))
        page.wait_for_selector("#found li[aria-selected=true]")
        page.press("#words", "Enter")
        page.wait_for_function(
            "(row) => document.querySelector('.asked .id').textContent === `row ${row}`", arg=row
        )
        record = collection.get([row])
        near = collection.search_codes(record.codes, 13, fingerprint=collection.fingerprint).ids[0]
        assert ids_in(page, 0) == [str(i) for i in near if i != row][:12]
        for column, options in ((1, {"rerank": "decoder", "shortlist": "all"}),
                                (2, {"rerank": "vectors", "shortlist": 400})):  # fmt: skip
            found = collection.search(record.vectors, 13, **options).ids[0]
            expected = [str(i) for i in found if i != row][:12]
            # Vectors in the file are rounded: neighbours at equal distances may change places.
            assert len(set(ids_in(page, column)) & set(expected)) >= 11
            assert ids_in(page, column)[0] == expected[0]


@pytest.mark.parametrize("kind", ["file", "server"])
def test_a_flipped_bit_changes_code_picture_and_neighbours(opened, collections, kind):
    page = opened(kind)
    before = ids_in(page)
    code = page.eval_on_selector_all(".bit", "all => all.map((b) => b.ariaPressed === 'true')")
    for bit in (2, 9, 17):
        page.click(f"[data-bit='{bit}'].bit")
        code[bit] = not code[bit]
        page.wait_for_selector(f".bit.flipped[data-bit='{bit}']")
    page.wait_for_selector("figcaption:text('change')")
    packed = np.packbits(np.array(code))[None]
    digits = collections["digits"]
    expected = digits.search_codes(packed, 12, fingerprint=digits.fingerprint).ids[0]
    page.wait_for_function(
        "(id) => document.querySelector('.measure li').dataset.id === id", arg=str(expected[0])
    )
    assert ids_in(page) == list(map(str, expected))
    page.click("text=Undo 3 flips")
    page.wait_for_function(
        "(id) => document.querySelector('.measure li').dataset.id === id", arg=before[0]
    )
    assert ids_in(page) == before and page.is_disabled("text=Undo flips")


@pytest.mark.parametrize("kind", ["file", "server"])
def test_every_control_by_keyboard(opened, kind):
    page = opened(kind)
    page.focus(".bit[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.wait_for_selector(".bit.flipped[data-bit='9']")
    page.keyboard.press("b")
    page.wait_for_selector(".detail h3:text-is('Bit 9')")
    assert page.input_value("#map select >> nth=1") == "bit"
    assert "bit 9 is 1" in page.inner_text(".legend")
    page.focus("canvas[tabindex]")
    for key in ("ArrowLeft", "+", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_selector(".tip:not([hidden])")
    said = page.inner_text(".tip")
    page.keyboard.press("Enter")
    page.wait_for_selector(".bit.flipped", state="detached")
    assert page.inner_text(".asked .label").strip() in said
    page.keyboard.press("Escape")
    page.focus(".segments button:text-is('Shells')")
    page.keyboard.press("Enter")
    page.wait_for_selector("canvas[aria-label^=Shells]")
    page.focus(".measure li button")
    page.keyboard.press("Enter")
    page.focus("#words")
    page.keyboard.type("no such thing")
    page.wait_for_selector("#found .none")
    page.keyboard.press("Escape")
    assert page.is_hidden("#found")
    page.focus(".template >> nth=3")
    page.keyboard.press("Enter")
    page.wait_for_selector(".template[aria-pressed=true]")
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.get_attribute("html", "data-theme") == "dark"


def test_a_row_that_is_gone_lets_no_other_change_sides(opened, collections):
    page, gone = opened("server", "plain"), []

    def without_one(route):
        address, _, ids = route.request.url.partition("ids=")
        first, _, others = ids.partition(",")
        gone.append(first)
        route.continue_(url=f"{address}ids={others}")

    page.route("**/explorer/plain/rows?ids=*", without_one)
    page.reload()
    page.wait_for_selector("body[data-ready=plain]")
    page.wait_for_selector("#bits .examples")
    shown = [
        len(each.query_selector_all("li")) for each in page.query_selector_all("#bits .examples")
    ]
    bit = int(page.inner_text("#bits h3").split()[-1])
    code = collections["plain"].get([int(gone[0])]).codes
    is_on = np.unpackbits(code, axis=1)[0, bit]
    assert shown == ([5, 6] if is_on else [6, 5])


@pytest.mark.parametrize("kind", ["file", "server"])
def test_recall_against_bytes_moves_with_its_sliders(opened, kind):
    page = opened(kind)
    page.locator("#cost").scroll_into_view_if_needed()
    page.wait_for_selector("#cost .numbers dd")
    page.focus("#cost input[type=range] >> nth=0")
    page.keyboard.press("Home")
    short = page.inner_text(".numbers .main dd")
    page.keyboard.press("End")
    assert int(page.inner_text(".numbers .main dd").split()[0]) > int(short.split()[0])
    page.select_option("#cost select", "int8")
    assert page.is_enabled("#cost input[type=range] >> nth=1")
    total = page.inner_text(".numbers div:nth-child(3) dd")
    page.fill("#cost input[type=number] >> nth=0", "1000000000")
    assert page.inner_text(".numbers div:nth-child(3) dd") != total


@pytest.mark.parametrize("kind", ["file", "server"])
def test_codes_and_vectors_can_be_typed(opened, collections, kind):
    page = opened(kind)
    record = collections["digits"].get([40])
    page.fill("#words", record.codes[0].tobytes().hex())
    page.press("#words", "Enter")
    page.wait_for_selector("text=A code as it was typed")
    assert ids_in(page)[0] == "40"
    page.fill("#words", str(record.vectors[0].tolist()))
    page.press("#words", "Enter")
    if kind == "server":
        page.wait_for_selector("text=A vector of 64 numbers")
        assert ids_in(page, 2)[0] == "40"
    else:
        page.wait_for_selector("#notice:has-text('run sghash explore')")


@pytest.mark.parametrize("name", ["texts", "plain", "bytes"])
def test_texts_tables_and_bytes_look_right(opened, name):
    page = opened("file", name)
    if name == "texts":
        page.fill("#words", "onerror")
        page.wait_for_selector("#found li .text")
        assert "</script><img" in page.inner_text("#found li .text")
        page.press("#words", "Escape")
        assert page.inner_text(".reads li")
    if name == "plain":
        assert "price" in page.inner_text(".measure li") and page.is_visible(".bars")
        assert "no decoder" in page.inner_text(".decoded")
    if name == "bytes":
        assert page.is_hidden(".grid") and page.is_hidden("#bits")
        assert page.inner_text(".measure h3") == "Decoder"
    page.select_option("#which select", "digits")
    page.wait_for_selector("body[data-ready=digits]")
    assert page.is_visible(".grid")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["digits", "texts", "plain"])
def test_nothing_is_wider_than_the_window(opened, width, scheme, name):
    page = opened("file", name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter((e) => {
          const box = e.getBoundingClientRect();
          return box.width && (box.right > innerWidth + 1 || box.left < -1);
        }).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert cut == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 19, 23)"
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["digits", "texts", "plain", "bytes"])
def test_an_audit_finds_nothing_serious(opened, scheme, name):
    axe = os.environ.get("AXE") or Path(sys.prefix) / "axe.min.js"
    if not Path(axe).exists():
        pytest.skip("no axe-core: `make browser` brings it, or AXE names its axe.min.js")
    page = opened("file", name, 1280, scheme)
    if name != "bytes":
        page.click(".bit >> nth=3")
        page.wait_for_selector(".bit.flipped")
    page.fill("#words", "a")
    page.wait_for_selector("#found:not([hidden])")
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document)")["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"][:120], each["nodes"][0]["failureSummary"][:200])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
