"""`sghash create`: a collection out of vectors, planned or by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

import sghash
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import data_part, metric_of, open_rows, path_type, rows_options, rows_type
from sghash.cli.model_choice import Choice, build, check_kind, fit, model_options
from sghash.cli.planned import BY_HAND, NONE, OF_PLANS, build_planned, planning_options
from sghash.cli.printing import show
from sghash.cli.progress import row_bar
from sghash.cli.roles import keep_roles, role_options, roles_of
from sghash.cli.rows_in import Incoming, add_all, adding_options, read_incoming
from sghash.collection import Collection
from sghash.collection.planning.pipelines import KINDS
from sghash.collection.storage.manifest import check_partitions
from sghash.errors import InvalidInput


@click.command(
    "create",
    epilog=examples(
        "sghash create photos vectors.npy",
        "sghash create photos vectors.npy --target-recall 0.99 --metadata photos.csv",
        "sghash create photos vectors.npy --metadata photos.csv --image-column file",
        "sghash create photos vectors.npy --bytes-per-vector 32",
        "sghash create photos vectors.npy --model ITQ --bits 128 --keep-vectors float16",
        "sghash create photos --fitted my-model",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("vectors", type=rows_type, required=False)
@click.option(
    "--fitted", type=path_type, help="Folder of a fitted model; else one is fitted on VECTORS."
)
@click.option(
    "--keep-vectors",
    type=click.Choice(["auto", *KINDS, NONE]),
    help="How vectors are kept beside their codes, for the last decision; auto unless by hand.",
)
@click.option(
    "--partitions",
    metavar="auto|N",
    help="Put rows into lists, so that --target-recall visits few of them: auto, or how many.",
)
@click.option("--empty", is_flag=True, help="Fit on VECTORS, but add none of them.")
@role_options
@planning_options
@model_options
@adding_options
@rows_options
@json_option
@click.pass_context
def command(
    context: click.Context,
    collection: Path,
    vectors: str | None,
    fitted: Path | None,
    keep_vectors: str | None,
    partitions: str | None,
    empty: bool,
    target_recall: float,
    bytes_per_vector: int | None,
    queries: str | None,
    spec: str,
    n_bits: int,
    metric: str | None,
    options: tuple[str, ...],
    seed: int,
    ids_file: str | None,
    metadata: str | None,
    id_column: str | None,
    as_keys: bool,
    key: str | None,
    start: int,
    stop: int | None,
    as_json: bool,
) -> None:
    """Make COLLECTION, a new folder, of VECTORS: choose, learn, add and measure.

    VECTORS is a file, a folder of parts, a data set such as digits.base, or - for stdin. A few
    kinds of codes and kept vectors are tried on a sample: the smallest vectors that reach
    --target-recall are kept, behind the fastest code, and `sghash search` needs no options.

    With --model, --bits, --option, --partitions or --empty the model is what these say, and
    nothing is tried. With --fitted it is taken from a folder that `sghash fit` wrote; VECTORS may
    then be left out. --metric is also what --rerank scores later.
    """
    by_hand = _check_arguments(context, collection, vectors, fitted, empty)
    lists = _partitions(partitions)
    incoming = None
    if vectors is not None:
        incoming = read_incoming(
            open_rows(vectors, key=key), ids_file=ids_file, metadata=metadata,
            id_column=id_column, as_keys=as_keys, start=start, stop=stop,
        )  # fmt: skip
    roles = roles_of(context, incoming)
    if incoming is not None and not by_hand:
        build_planned(
            collection, incoming, metric=metric or _metric_known(vectors),
            target_recall=target_recall, bytes_per_vector=bytes_per_vector,
            keep_vectors=keep_vectors, queries=queries, seed=seed, as_json=as_json,
        )  # fmt: skip
        keep_roles(collection, roles)
        return
    keep_vectors = None if keep_vectors in (NONE, "auto") else keep_vectors
    if fitted is not None:
        model = sghash.load_model(fitted)
    else:
        model = build(Choice(spec, n_bits, metric, options, seed), metric_of(vectors))
        # What `rerank` scores; a model that has a metric of its own knows it.
        metric = metric or model.metric or metric_of(vectors)
    check_kind(model, metric)
    learned = None
    if fitted is None and incoming is not None:
        learned = fit(model, incoming.rows)
    _check_width(model, incoming)
    Collection.create(
        collection, model, keep_vectors=keep_vectors, metric=metric, partitions=lists
    ).close()
    n_rows = 0
    if incoming is not None and not empty:
        n_rows = _fill(collection, incoming, start)
        if lists is not None:
            _put_into_lists(collection)
    keep_roles(collection, roles)
    facts = {
        "collection": str(collection),
        "model": type(model).__name__,
        "n_bits": model.code_bits,
        "dimensions": int(model.n_features_in_),
        "keep_vectors": keep_vectors,
        "partitions": lists,
        "rows": n_rows,
        "fingerprint": model.fingerprint_,
    }
    if learned is not None:
        facts["vectors_read"] = learned.n_read
    origin = "" if learned is None else f" learned from {learned}"
    text = f"{facts['model']} with {model.code_bits} bits{origin}, {n_rows} rows: {collection}"
    show(facts, text, as_json=as_json)


def _check_arguments(
    context: click.Context, collection: Path, vectors: str | None, fitted: Path | None, empty: bool
) -> bool:
    """Refuse what contradicts itself before any work is done; say whether all is by hand."""
    if vectors is None and fitted is None:
        raise InvalidInput("give VECTORS to fit a model on, or --fitted with a model's folder")
    if collection.exists() and (not collection.is_dir() or any(collection.iterdir())):
        raise InvalidInput(f"{collection} exists already: give another name, or use sghash add")
    given = click.core.ParameterSource.COMMANDLINE
    fitting = ("spec", "n_bits", "options", "seed", "empty")
    adding = ("ids_file", "metadata", "id_column", "as_keys", "key", "start", "stop", "empty")
    said = {
        str(parameter.name): parameter.opts[-1]
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is given
    }
    hands = [text for name, text in said.items() if name in BY_HAND]
    for names, useless, why in (
        (OF_PLANS, bool(hands), f"{' '.join(hands)} says by hand what would be chosen"),
        (fitting, fitted is not None, "--fitted brings a model that is fitted already"),
        (adding, vectors is None, "there are no VECTORS"),
        (adding[:4], empty, "--empty adds no vectors"),
    ):
        for name, text in said.items():
            if useless and name in names:
                raise InvalidInput(f"{text} has no use here: {why}")
    return bool(hands)


def _metric_known(vectors: str | None) -> str | None:
    """The metric of a data set; files do not say theirs."""
    return None if vectors is None or data_part(vectors) is None else metric_of(vectors)


def _partitions(text: str | None) -> int | str | None:
    """How many lists, as the library takes it."""
    given: int | str | None = int(text) if text is not None and text.isdecimal() else text
    return check_partitions(given)


def _put_into_lists(collection: Path) -> None:
    """Lists are made by `compact`: at once, for all rows are there."""
    with row_bar("making lists") as bar, Collection.open(collection, writable=True) as opened:
        opened.compact(callback=bar)


def _fill(collection: Path, incoming: Incoming, start: int) -> int:
    """Add to the new collection; if not even the first block can be added, leave nothing."""
    try:
        return add_all(collection, incoming, upsert=False, start=start)
    except BaseException:
        if not len(Collection.open(collection)):
            shutil.rmtree(collection)
        raise


def _check_width(model: Any, incoming: Incoming | None) -> None:
    width = model.n_features_in_
    if incoming is not None and incoming.rows.shape[1] != width:
        raise InvalidInput(
            f"the vectors have {incoming.rows.shape[1]} numbers, the model was fitted on {width}: "
            "use vectors of the same kind"
        )
