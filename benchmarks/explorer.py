"""Milliseconds from a flipped bit to its picture and neighbours, on 500,000 codes.

    python benchmarks/explorer.py
    python benchmarks/explorer.py --rows 500000 --bits 128

Of the processor: the answer as a function, and what the page adds in Chromium (CHROMIUM names it,
or it is on the path): script, style and layout; their sum is held to the limit. By the clock: the
answer over HTTP, and from the press of a button until what is new has been painted, which counts
whatever else the machine does, and painting without a graphics card. Then the map: milliseconds to
draw 50,000 points once. Each answer holds the decoded vector, neighbours by Hamming distance, by
the decoder and by kept vectors, and the counts of all shells. Lines that need a package which is
missing say so.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.verdicts import at_most, line

import sghash
from sghash.serve.explorer.asking import answer
from sghash.serve.explorer.sample import Sample

LIMIT = 50.0
FRAME_LIMIT = 16.7
WIDTH = 128
FLIPS = 60
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

PRESS = """async (bit) => {
  const cell = document.querySelectorAll('.bit')[bit];
  const clock = performance.now();
  await new Promise((done) => {
    const seen = new MutationObserver(() => {
      seen.disconnect();
      requestAnimationFrame(() => setTimeout(done));
    });
    seen.observe(document.querySelector('#near .columns-of'), {childList: true});
    cell.click();
  });
  return performance.now() - clock;
}"""


def make(folder: Path, n: int, n_bits: int) -> sghash.Collection:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, WIDTH)).astype(np.float32)

    def some(rows: int) -> Any:
        return centres[rng.integers(0, 200, rows)] + 0.6 * rng.standard_normal(
            (rows, WIDTH), dtype=np.float32
        )

    model = sghash.SGH(n_bits, n_steps=100, random_state=0).fit(some(20_000))
    with sghash.Collection.create(folder, model, keep_vectors="int8") as collection:
        for first in range(0, n, 100_000):
            collection.add(some(min(100_000, n - first)))
        collection.describe(picture="8x16")
    return sghash.Collection.open(folder)


def flips(
    collection: sghash.Collection,
    ask: Callable[[dict[str, str]], Any],
    now: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Milliseconds of each flip, after a few that load and compile."""
    code = bytearray(collection.get([0]).codes[0].tobytes())
    taken = []
    for flip in range(5 + FLIPS):
        code[flip // 8 % len(code)] ^= 1 << flip % 8
        clock = now()
        ask({"code": bytes(code).hex()})
        taken.append(1000 * (now() - clock))
    return taken[5:]


@contextmanager
def served(collection: sghash.Collection) -> Any:
    import fastapi
    import uvicorn

    from sghash.serve.explorer import routes

    app = fastapi.FastAPI(openapi_url=None)
    app.include_router(routes({"big": collection}))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def over_http(collection: sghash.Collection, port: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(asked: dict[str, str]) -> None:
        connection.request("POST", "/explorer/big/ask", json.dumps(asked))
        response = connection.getresponse()
        assert response.status == 200 and response.read()

    return flips(collection, ask)


class InChromium(NamedTuple):
    """Milliseconds: the page's own work, from press to paint, and of the points of a map."""

    work: list[float]
    painted: list[float]
    frames: list[float]


def in_chromium(port: int, n_bits: int) -> InChromium:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise ImportError("no Chromium: install it, or name it in CHROMIUM")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.emulate_media(reduced_motion="reduce")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("body[data-ready]", timeout=120_000)
        painted, work = [], []
        for flip in range(5 + FLIPS // 2):
            before = worked(session)
            painted.append(page.evaluate(PRESS, flip % n_bits))
            work.append(worked(session) - before)
        frames = []
        for _ in range(20):
            page.click("[aria-label=Closer]")
            page.wait_for_timeout(60)
            frames.append(float(page.get_attribute("#map", "data-frame") or "nan"))
            page.click("[aria-label=All]")
        browser.close()
    return InChromium(work[5:], painted[5:], frames)


def worked(session: Any) -> float:
    """Milliseconds of the processor that the page's own thread has worked so far."""
    found = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    return 1000 * sum(found[f"{part}Duration"] for part in ("Script", "Layout", "RecalcStyle"))


def say(name: str, taken: list[float], limit: float | None = None) -> float:
    median, worst = statistics.median(taken), float(np.percentile(taken, 95))
    text = f"{name:40} 95 of 100: {worst:6.1f} ms"
    print(
        f"{text}  {median:9.3f} ms"
        if limit is None
        else line(text, median, at_most(limit), unit="ms")
    )
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--bits", type=int, default=128)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        collection = make(Path(folder) / "big", given.rows, given.bits)
        sample = Sample(collection, most=100)
        print(
            f"{given.rows:,} codes of {given.bits} bits, int8 vectors of {WIDTH}; median of flips"
        )
        looks, bright = sample.looks, sample.brightness
        first = flips(
            collection, lambda a: answer(collection.moment, a, 12, looks, bright), time.process_time
        )
        own = say("answer, processor", first, LIMIT)
        try:
            with served(collection) as port:
                say("answer over HTTP, clock", over_http(collection, port))
                found = in_chromium(port, given.bits)
                page = say("the page's own work, processor", found.work)
                print(line("flip to picture and neighbours", own + page, at_most(LIMIT), unit="ms"))
                say("press to paint, clock", found.painted)
                say("50,000 points drawn once, clock", found.frames, FRAME_LIMIT)
        except ImportError as error:
            print(f"not measured: {error}")


if __name__ == "__main__":
    main()
