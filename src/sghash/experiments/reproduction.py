"""Run experiments, judge them, and put everything on one page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sghash.errors import MissingData, MissingExtra
from sghash.evaluation.tables import definitions
from sghash.experiments import experiment
from sghash.experiments.experiment import (
    NOT_IN_PAPER,
    Context,
    Experiment,
    Row,
    Table,
    Verdict,
)
from sghash.experiments.history import EARLIER, why_changed
from sghash.experiments.sets import checksum
from sghash.report import Page

_SUMMARY = (
    "What the paper Stochastic Generative Hashing (Dai, Guo, Kumar, He, Song, ICML 2017) claims, "
    "measured again claim by claim. `SGH.paper` is the paper's Algorithm 1 with the constants it "
    "states, `SGH` our default, `SGH(neighbors=10)` our extension by neighbours. Ours in "
    "`SGH.paper`: vectors are shifted and scaled to unit variance, the encoder has a bias, the "
    "learning rate is halved once, and the start is at the data's mean and variance; the decoder's "
    "translation is from the paper's supplement, the 5,000 steps are from the released script. "
    "The options of `SGH` were chosen on rows held out of MNIST, SIFT, GIST, word vectors and text "
    "embeddings, the sets that most claims are measured on, and those of `GenerativeQuantizer` on "
    "words and texts; rivals have their published settings, k-means hashing the part size that is "
    "best for held-out rows. Nothing was chosen on the sets of `untouched`."
)
_QUICK = (
    "This is a quick run on small built-in data: it shows that every experiment runs. Its "
    "verdicts mean nothing."
)
_ORIGINALS = (
    "SIFT-1M, GIST-1M and WORD2VEC (10,000 queries) are the paper's own in this run, in the place "
    "of what the sections name for reconstruction, time, recall and inner product."
)
_WORDS = {
    "agrees": "what we measured supports the claim; if it is about every cell, SGH is ahead in "
    "most and behind in none",
    "differs": "what we measured contradicts the claim, at least in part",
    "open": "the data or the differences do not suffice to say",
    "± ": "half of the 95 % interval of the mean over seeds (Student); none for a single seed",
    "ahead, behind": "the difference exceeds 0.005 and is significant at 5 % after Holm's "
    "correction for the number of comparisons; the chance in the tables is the corrected one. "
    "Errors over seeds (Welch) and over queries (paired bootstrap, 10,000 redraws) are added as "
    "squares. Behind counts every rival in every cell; ahead, which has to hold for every rival, "
    "every cell. The correction covers what is said of one model; each of our models is corrected "
    "on its own, and in the list of the best each cell. Intervals that are shown are uncorrected, "
    "95 % each",
    "not told apart": "neither: the difference may be small, or the seeds and queries too few; an "
    "interval without 0 may still stand there, as the correction asks for more. Where recalls "
    "themselves are near 0.01 (SIFT at 8 bits, the stream at 16), 0.005 is a large part of them: "
    "there read the difference and its interval",
    "not known": "a rival was not measured there, or a method that draws has fewer than three "
    "seeds; a claim is open where it needs that comparison",
}


class Result(NamedTuple):
    """An experiment, its rows and its verdict; no rows where its data or an extra is missing."""

    experiment: Experiment
    rows: list[Row]
    verdict: Verdict
    seconds: float


def reproduce(names: Sequence[str], context: Context, *, tolerant: bool = False) -> list[Result]:
    """Run the experiments called `names`; `tolerant` goes on where data or an extra is missing."""
    results = []
    for name in names:
        found = experiment(name)
        context.say(f"{name}: {found.claim}")
        start = time.perf_counter()
        try:
            rows = found.run(context)
            verdict = found.verdict(rows)
        except (MissingData, MissingExtra) as error:
            if not tolerant:
                raise
            rows, verdict = [], Verdict("open", f"Not measured: {error}.")
        seconds = time.perf_counter() - start
        context.say(f"{name}: {verdict.outcome}, after {seconds:.0f} s")
        results.append(Result(found, rows, verdict, seconds))
    return results


def page_of(results: Sequence[Result], *, quick: bool, originals: bool = False) -> Page:
    """The page: all verdicts first, then every experiment with its figures and tables."""
    page = Page("The paper, measured again", _SUMMARY)
    if quick:
        page.text(_QUICK)
    elif originals:
        page.text(_ORIGINALS)
    cells = [
        [f"`{r.experiment.name}`", r.experiment.shown, r.experiment.claim, r.verdict.outcome]
        for r in results
    ]
    page.section("Verdicts")
    page.table(["experiment", "in the paper", "claim", "verdict"], cells)
    for word, meaning in _WORDS.items():
        page.definition(word.strip(), meaning)
    for line in definitions(["recall10@100", "reconstruction_error", "bits_in_use"]).splitlines():
        term, _, meaning = line.partition(": ")
        page.definition(term, meaning)
    if not quick:
        for warning in mixed_revisions(results):
            page.text(warning)
        _add_changes(page, results)
    for result in results:
        _add(page, result, quick=quick)
    page.section("Data and machine", _origin(results))
    if data := _data(results):
        page.table(["set", "data", "vectors", "queries", "SHA-256 of the whole set"], data)
    page.code("sghash reproduce all --quick\nsghash reproduce all --out docs")
    return page


def write(
    results: Sequence[Result], out: Path, *, quick: bool, originals: bool = False
) -> list[Path]:
    """Write `results.html` and its twin `results.md` (pictures in `results/figures`) to `out`."""
    page = page_of(results, quick=quick, originals=originals)
    out.mkdir(parents=True, exist_ok=True)
    return [
        page.save(out / "results.html"),
        page.save_markdown(out / "results.md", figures="results/figures"),
    ]


def make_context(out: Path, context: Context) -> Context:
    """The same context with its rows below `out`."""
    return replace(context, folder=out / "results" / "rows")


def _add_changes(page: Page, results: Sequence[Result]) -> None:
    """Each claim with its verdict in version 0.1 and now, and what is judged otherwise."""
    known = [(r, EARLIER[r.experiment.name]) for r in results if r.experiment.name in EARLIER]
    if not known:
        return
    page.section("What changed since version 0.1")
    cells = [
        [
            f"`{r.experiment.name}`",
            before.outcome,
            r.verdict.outcome,
            before.changed,
            why_changed(r.experiment.name, r.verdict.outcome),
        ]
        for r, before in known
    ]
    headings = [
        "experiment", "verdict then", "verdict now", "what changed in the judging",
        "why the verdict changed",
    ]  # fmt: skip
    page.table(headings, cells)


def mixed_revisions(results: Sequence[Result]) -> list[str]:
    """A warning per claim whose rows were not all measured by one committed state of the source."""
    warnings = []
    for result in results:
        found = sorted({str(row["revision"]) for row in result.rows})
        doubtful = [one for one in found if one == "None" or one.endswith("-dirty")]
        if len(found) > 1 or doubtful:
            text = f"Warning, `{result.experiment.name}`: rows come from {len(found)} revision"
            text += "s" if len(found) > 1 else ""
            text += f", {len(doubtful)} of them not committed" if doubtful else ""
            warnings.append(f"{text}: {', '.join(found)}.")
    return warnings


def _add(page: Page, result: Result, *, quick: bool) -> None:
    found = result.experiment
    page.section(found.title)
    page.verdict(found.claim, result.verdict.outcome, result.verdict.sentence)
    is_ours = found.shown == NOT_IN_PAPER
    page.text(found.setup if is_ours else f"In the paper: {found.shown}. Here: {found.setup}")
    if found.notes:
        page.text(found.notes)
    page.code(f"sghash reproduce {found.name}{' --quick' if quick else ''}")
    if not result.rows:
        return
    for part in found.draw(result.rows):
        if isinstance(part, Table):
            page.table(part.headings, part.cells, part.caption)
            continue
        try:
            page.figure(part.make(), part.caption, part.alt)
        except MissingExtra as error:
            page.text(f"{part.caption} The figure is left out: {error}.")


def _data(results: Sequence[Result]) -> list[list[str]]:
    """What was measured on, with checksums of what is here."""
    names = ("set", "source", "n_vectors", "n_queries")
    settings = [row["settings"] for result in results for row in result.rows]
    found = dict.fromkeys(tuple(s[n] for n in names) for s in settings if set(names) <= set(s))
    return [
        [label, source, f"{n:,}", f"{m:,}", (checksum(source, n, m) or "not here")[:16]]
        for label, source, n, m in found
    ]


def _origin(results: Sequence[Result]) -> str:
    rows = [row for result in results for row in result.rows]
    if not rows:
        return "Nothing was measured."
    known = {(r["machine"]["processor"], r["machine"]["cores"]) for r in rows}
    machines = sorted(f"{name}, {n} core{'s' * (n != 1)}" for name, n in known)
    versions = sorted({f"{k} {v}" for row in rows for k, v in row["versions"].items()})
    revisions = sorted({str(row["revision"]) for row in rows})
    sources = sorted({row["source"] for row in rows if row.get("source")})
    trees = f" (`git rev-parse <revision>:src` {', '.join(sources)})" if sources else ""
    return (
        f"{'; '.join(machines)}. {', '.join(versions)}. Revisions {', '.join(revisions)}{trees}. "
        f"Measured between {min(r['written'] for r in rows)} and {max(r['written'] for r in rows)}."
    )
