"""Text embeddings at equal bytes: what is used today, and what learned codes give."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sghash.experiments.claims.inner_product import TABLES, asymmetric
from sghash.experiments.comparisons import (
    LEAST_RECALL,
    Difference,
    Measured,
    difference,
    estimates,
    measurements,
    numbers_of,
    text_of,
)
from sghash.experiments.contenders import others, own
from sghash.experiments.contenders.contender import Contender, measure
from sghash.experiments.experiment import (
    NOT_IN_PAPER,
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Verdict,
    check_rows,
)
from sghash.experiments.findings import span
from sghash.experiments.hashing import reconstructing, spec_for
from sghash.experiments.pictures import recall_by_bytes_drawing, within
from sghash.experiments.sets import QUICK_CLUSTERS, TEXTS, BenchSet
from sghash.experiments.standings import (
    AHEAD,
    BEHIND,
    EVEN,
    GAP_HEADINGS,
    UNKNOWN,
    gap_cells,
    leads,
)

STORE = "modern_embeddings"
#: Budgets in bytes a row: those of codes, and those that hold what has a size of its own.
SIZES, QUICK_SIZES = (8, 16, 32, 48, 64, 128, 256, 512, 1024), (4, 32, 1024)
VALUES = ("recall10@10", "recall10@100")
#: What decides who is best within a budget.
JUDGED = "recall10@10"
SGH, NEAR, HIDDEN = "SGH", "SGH(neighbors=10)", "SGH(hidden=512, neighbors=10)"
TURNED = "SignHashing(threshold='mean', rotate=True)"
WORDS = {1: AHEAD, 0: EVEN, -1: BEHIND}
JOINED = {AHEAD: "ahead of", EVEN: "not told apart from", BEHIND: "behind", UNKNOWN: "beside"}


def contenders(context: Context) -> dict[str, Contender]:
    """Every method of the table, by name."""
    return _quick(context) if context.quick else {**_ours(), **_rivals()}


def _ours() -> dict[str, Contender]:
    return {
        SGH: own.hamming(SGH, (8, 16, 32, 48, 64, 128), is_ours=True),
        NEAR: own.hamming(NEAR, (8, 16, 32), is_ours=True),
        HIDDEN: own.hamming(HIDDEN, (8,), is_ours=True),
        asymmetric(SGH): own.asymmetric(reconstructing(), (8, 32, 64, 128)),
        TABLES: own.quantizer(TABLES, (8, 16, 32)),
        "SGH, then int4": own.kept(SGH, 256, "int4", (256,)),
        "SGH, then int8": own.kept(SGH, 256, "int8", (512,)),
        "Collection.build": own.built((512,)),
    }


def _rivals() -> dict[str, Contender]:
    signs = (8, 16, 32, 48)
    return {
        "SignHashing": own.hamming("SignHashing", signs, seeds=1),
        "SignHashing, medians": own.median_signs(signs),
        "SignHashing, turned": own.hamming(TURNED, (8, 16, 32, 48, 64, 128)),
        "ITQ": own.hamming("ITQ", (8, 16, 32, 48)),
        "FAISS PQ": others.product((8, 16, 32, 64, 128), rotate=False),
        "FAISS OPQ": others.product((8, 16, 32, 64), rotate=True),
        "FAISS RaBitQ": others.rabitq({16: 1, 32: 1, 48: 1, 64: 1, 128: 2, 256: 4}),
        "rabitqlib": others.rabitqlib({64: 1, 128: 2, 256: 4, 512: 8}),
        "turbovec": others.turbovec({128: 2, 256: 4}, calibrate=False),
        "turbovec, calibrated": others.turbovec({128: 2, 256: 4}, calibrate=True),
        "usearch b1": others.usearch_scan("b1", (48,)),
        "usearch b1, HNSW": others.usearch_graph("b1", (256,)),
        "usearch i8": others.usearch_scan("i8", (512,)),
        "usearch i8, HNSW": others.usearch_graph("i8", (1024,)),
    }


def _quick(context: Context) -> dict[str, Contender]:
    """One of each kind, for vectors of 32 numbers (rabitqlib wants 64)."""
    return {
        SGH: own.hamming(spec_for(context, SGH), (4,), is_ours=True),
        asymmetric(SGH): own.asymmetric(spec_for(context, reconstructing()), (4,)),
        "SGH, then int4": own.kept(spec_for(context, SGH), 32, "int4", (32,)),
        "SignHashing": own.hamming("SignHashing", (4,), seeds=1),
        "SignHashing, medians": own.median_signs((4,)),
        "FAISS PQ": others.product((4,), rotate=False),
        "FAISS RaBitQ": others.rabitq({32: 2}),
        "turbovec": others.turbovec({32: 2}, calibrate=False),
        "usearch b1": others.usearch_scan("b1", (4,)),
        "usearch i8, HNSW": others.usearch_graph("i8", (1024,)),
    }


def run(context: Context) -> list[Row]:
    """Every method at every budget that it has; what is neither measured nor here is left out."""
    which, rows, missing = _set_of(context), [], {}
    for settings, method in cases(context):
        if not (others.is_here(method.package) or context.knows(STORE, settings)):
            missing[settings["method"]] = method.package
            continue
        size, seed = settings["bytes"], settings["seed"]
        ask = functools.partial(measure, method, which, size, seed)
        rows.append(context.measured(STORE, settings, ask))
    for name, package in missing.items():
        context.say(f"{name} is left out: the package {package} is not installed")
    return rows


def cases(context: Context) -> Iterator[tuple[dict[str, Any], Contender]]:
    """The settings of every row, and what it is measured with."""
    known = contenders(context)
    for size in context.pick(QUICK_SIZES, SIZES):
        for name, method in known.items():
            seeds = range(min(context.seeds, method.seeds)) if size in method.sizes else range(0)
            for seed in seeds:
                settings = {
                    **_set_of(context).settings(),
                    "method": name,
                    "options": method.options(size),
                    "bytes": size,
                    "seed": seed,
                    "is_ours": method.is_ours,
                    "draws": method.seeds > 1,
                }
                yield settings, method


def kept_rows(context: Context) -> list[Row]:
    """The rows that are there: what `run` returns, but nothing is measured."""
    known = (settings for settings, _ in cases(context) if context.knows(STORE, settings))
    return [context.measured(STORE, settings, dict) for settings in known]


class Best(NamedTuple):
    """The best of ours and of the rest within a budget: what each is, its bytes, its recall."""

    size: int
    ours: str
    own: Measured
    rival: str
    other: Measured
    word: str = UNKNOWN

    @property
    def gap(self) -> Difference:
        """Ours minus theirs."""
        return difference(self.own, self.other)


def best_of_sizes(rows: Sequence[Row]) -> list[Best]:
    """Per budget the best of ours and of the others by Recall10@10, by bytes as measured."""
    ours = {row["settings"]["method"] for row in rows if row["settings"]["is_ours"]}
    by = ("bytes", "method")
    found = measurements(rows, JUDGED, by, fixed=lambda settings: not settings["draws"])
    stored = estimates(rows, "stored_bytes", ("bytes", "method"))
    best = []
    for size in sorted({cell[0] for cell in found}):
        fitting = within(size, {cell: stored[cell].mean for cell in found})
        sides = [[cell for cell in fitting if (cell[1] in ours) is side] for side in (True, False)]
        if all(sides):
            (one, other) = (max(side, key=lambda c: (found[c].seeds.mean, c[0])) for side in sides)
            said = (f"{cell[1]} ({stored[cell].mean:.0f} bytes)" for cell in (one, other))
            best.append(Best(size, next(said), found[one], next(said), found[other]))
    signs = leads([one.gap for one in best], LEAST_RECALL)
    return [
        one if one.gap.seeds is None else one._replace(word=WORDS[sign])
        for one, sign in zip(best, signs, strict=True)
    ]


def verdict(rows: Sequence[Row]) -> Verdict:
    """No claim of the paper: who is best within how many bytes, and whether that is sure."""
    said = []
    for best in best_of_sizes(check_rows(rows)):
        own, other = text_of(best.own.seeds), text_of(best.other.seeds)
        said.append(
            f"within {best.size} bytes {best.ours} {own} {JOINED[best.word]} {best.rival} {other} "
            f"({_gap_text(best.gap)})"
        )
    return Verdict(
        "open",
        "The paper makes no claim here. The best of ours and the best of the others by Recall10@10 "
        "are, with all that is stored for a row and the 95 % interval of their difference over "
        "seeds and queries: " + "; ".join(said) + ".",
    )


def _gap_text(gap: Difference) -> str:
    half = "too few seeds" if gap.half is None else f"± {gap.half:.3f}"
    return f"{gap.mean:+.3f}, {half}"


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall by bytes, who is best, and everything in one table."""
    names = list(dict.fromkeys(row["settings"]["method"] for row in check_rows(rows)))
    by = ("method", "bytes")
    stored = {cell: size.mean for cell, size in estimates(rows, "stored_bytes", by).items()}
    title = "Text embeddings"
    parts: list[Table | Drawing] = [
        recall_by_bytes_drawing(
            estimates(rows, value, by), stored, names, value.capitalize(), title=title
        )
        for value in VALUES
    ]
    return [*parts, _best_table(rows), _everything(rows)]


def _best_table(rows: Sequence[Row]) -> Table:
    cells = [
        [str(best.size), best.ours, text_of(best.own.seeds), best.rival,
         text_of(best.other.seeds), *gap_cells(best.gap), best.word]
        for best in best_of_sizes(rows)
    ]  # fmt: skip
    headings = [
        "bytes at most", "best of ours", "Recall10@10", "best of the others", "Recall10@10",
        *GAP_HEADINGS, "ours",
    ]  # fmt: skip
    return Table(headings, cells, "The best within a budget by Recall10@10; shorter codes fit too")


def _everything(rows: Sequence[Row]) -> Table:
    """A line per method and budget, in the order of bytes."""
    by = ("bytes", "method")
    columns = ("stored_bytes", *VALUES, "query_milliseconds", "build_seconds", "learned_from")
    found = {value: estimates(rows, value, by) for value in columns}
    # From least to most where seeds decide otherwise.
    sizes = {cell: span(own, ".0f") for cell, own in numbers_of(rows, "stored_bytes", by).items()}
    draws = {row["settings"]["method"]: row["settings"]["draws"] for row in rows}
    cells = []
    for size, name in sorted(found[JUDGED], key=lambda cell: found["stored_bytes"][cell].mean):
        here = {value: found[value][size, name] for value in columns}
        cells.append([
            name,
            sizes[size, name],
            *(text_of(here[value]) for value in VALUES),
            f"{here['query_milliseconds'].mean:.2f}",
            f"{here['build_seconds'].mean:.1f}",
            f"{here['learned_from'].mean:,.0f}" if here["learned_from"].mean else "nothing",
            str(here[JUDGED].n) if draws[name] else "deterministic",
        ])  # fmt: skip
    headings = [
        "method", "bytes a row", "Recall10@10", "Recall10@100", "one query, ms", "build, s",
        "learned from", "seeds",
    ]  # fmt: skip
    caption = (
        "Everything that is stored for a row; processor milliseconds of one query by itself (k = "
        "10, from the vector to the ids, one thread, median of 100) and processor seconds from "
        "vectors to something to search; means over seeds"
    )
    return Table(headings, cells, caption)


def _set_of(context: Context) -> BenchSet:
    which: BenchSet = context.pick(QUICK_CLUSTERS._replace(metric="cosine"), TEXTS)
    return which


EXPERIMENT = Experiment(
    name="modern_embeddings",
    title="Text embeddings at equal bytes",
    claim="Beyond the paper: how learned codes compare with what vector databases store today, at "
    "equal bytes.",
    shown=NOT_IN_PAPER,
    setup="58,000 MiniLM embeddings of 384 numbers (1,536 bytes), 500 queries, cosine. Bytes are "
    "all that grows with a row: codes, factors, kept vectors, ids and graphs where an index has "
    "them; not what is stored once. Signs are those of the first numbers, as with embeddings that "
    "may be cut short (these were not trained to be), against zero or each number's median, 48 "
    "bytes for all; turned at random, any number. Asymmetric: SGH trained for reconstruction "
    f"alone, real queries against codes sharpened by {own.SWEEPS} sweeps. Then int4, then int8: a "
    f"collection whose 32-byte codes choose {own.SHORTLIST} rows for kept vectors to decide; "
    "Collection.build chooses for itself. FAISS's RaBitQ has as many directions as fit beside 8 "
    "bytes of factors, from 128 bytes on 2 and 4 bits a number; OPQ learns its rotation in "
    f"{others.ROTATION_ROUNDS} rounds from {others.ROTATION_ROWS:,} rows; rabitqlib searches all "
    f"of its {others.CLUSTERS} clusters; usearch compares all rows, or follows its graph (HNSW) "
    "with the settings it comes with; turbovec rounds to 2 and 4 bits. What is not installed is "
    "left out. 3 seeds for all that draws. What takes minutes to learn is left out at some "
    "lengths: SGH with neighbours beyond 32 bytes, with hidden units beyond 8, OPQ beyond 64; "
    "GenerativeQuantizer has at most 32. The best of each side is chosen by the queries that it is "
    "judged on, which flatters both; intervals do not count that.",
    run=run,
    verdict=verdict,
    draw=draw,
)
