"""`sghash info`: what a path or a name stands for, or what this installation can do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import platform
from pathlib import Path
from typing import Any

import click

import sghash
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import data_part, dataset_names, key_option, open_rows, rows_type
from sghash.cli.printing import printable, show
from sghash.cli.streams import STDIO, check_readable
from sghash.cli.verbs.verify import advice_for
from sghash.data import READERS, ending_of
from sghash.data.catalog import CATALOG
from sghash.errors import BadFile, InvalidInput
from sghash.index.file import is_index
from sghash.kernels.ways import ways
from sghash.models import MODELS, model_class
from sghash.models.capabilities import Capabilities
from sghash.optional import install_command
from sghash.validation import available_cores

EXTRAS = {
    "dask": "dask",
    "duckdb": "duckdb",
    "faiss": "faiss",
    "hdf5": "h5py",
    "hub": "huggingface_hub",
    "images": "PIL",
    "langchain": "langchain_core",
    "llama-index": "llama_index",
    "milvus": "pymilvus",
    "onnx": "onnx",
    "parquet": "pyarrow",
    "plots": "matplotlib",
    "polars": "polars",
    "postgresql": "psycopg",
    "ray": "ray",
    "sentence-transformers": "sentence_transformers",
    "serve": "fastapi",
    "spark": "pyspark",
    "sqlite": "sqlite_vec",
    "torch": "torch",
}
CORE = ("numpy", "numba", "scikit-learn", "safetensors", "click", "tqdm")
# Options of a model that have a place of their own on the command line, or none.
_GIVEN = ("random_state", "callback")
#: Capability -> what `info` says of a model that has it.
_ABILITIES = {
    "decodes": "decode",
    "tables": "score real queries (tables)",
    "sharpens": "sharpen codes (encode --sweeps)",
    "online": "go on learning (partial_fit)",
    "supervised": "learn from labels",
}


@click.command(
    "info",
    epilog=examples(
        "sghash info                 this installation",
        "sghash info vectors.npy     a file of vectors",
        "sghash info my-model --json",
        "sghash info SGH             the options of a model",
        "sghash info digits          a data set",
    ),
)
@click.argument("what", required=False, type=rows_type)
@key_option
@json_option
def command(what: str | None, key: str | None, as_json: bool) -> None:
    """Say what WHAT is; without it, this installation.

    WHAT is the path of a collection, a model, an index or vectors, or - for vectors on stdin; or
    the name of a model (SGH) or of a data set (digits).
    """
    if key is not None and (what is None or not _holds_rows(what)):
        raise InvalidInput("--key chooses among the arrays of a file of vectors: name such a file")
    facts = _installation() if what is None else _describe(what, key)
    rows = _flat(facts)
    names = [printable(name) for name, _ in rows]
    width = max(map(len, names))
    lines = [f"{name:{width}}  {value}" for name, (_, value) in zip(names, rows, strict=True)]
    show(facts, lines, as_json=as_json)


def _installation() -> dict[str, Any]:
    return {
        "sghash": sghash.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": available_cores(),
        "kernels": ways(),
        "packages": {name: importlib.metadata.version(name) for name in CORE},
        "extras": {
            extra: "installed" if importlib.util.find_spec(module) else install_command(extra)
            for extra, module in EXTRAS.items()
        },
        "models": list(MODELS),
        "data sets": dataset_names(),
        "formats": sorted(READERS),
    }


def _holds_rows(what: str) -> bool:
    return what == STDIO or (Path(what).is_file() and ending_of(what) is not None)


def _describe(what: str, key: str | None) -> dict[str, Any]:
    path = Path(what)
    if what == STDIO or data_part(what) is not None:
        return _vectors(what, key)
    if not path.exists():
        if what in MODELS:
            return _model_class(what)
        if what in dataset_names():
            return _data_set(what)
        raise BadFile(f"{what} does not exist, and is no name of a model or of a data set")
    if path.is_dir():
        if (path / "manifest.json").is_file():
            return _collection(path)
        if (path / "config.json").is_file():
            return _model(path)
        if not _has_vectors(path):
            raise BadFile(f"{what} is neither a collection nor a model, and holds no vectors")
        return _vectors(what, key)
    check_readable(path)
    if is_index(path):
        return _index(path)
    if ending_of(path) is None:
        raise BadFile(
            f"{path} is no collection, model or index, and no file of vectors by its name"
        )
    return _vectors(what, key)


def _collection(path: Path) -> dict[str, Any]:
    stats = sghash.Collection.open(path).stats()
    return stats | {"kind": "collection", "index": stats["kind"]} | advice_for(stats)


def _index(path: Path) -> dict[str, Any]:
    from sghash.index import load_index

    index = load_index(path, mmap=True)
    sizes = {"n_bytes": index.n_bytes, "codes": len(index), "bytes": index.nbytes}
    return {"kind": "index", "index": index.kind, "n_bits": getattr(index, "n_bits", None)} | sizes


def _has_vectors(folder: Path) -> bool:
    return any(ending_of(entry) is not None for entry in folder.iterdir())


def _vectors(what: str, key: str | None) -> dict[str, Any]:
    rows = open_rows(what, key=key)
    n, width = rows.shape
    return {"kind": "vectors", "n": n, "dimensions": width, "dtype": str(rows.dtype)}


def _model(path: Path) -> dict[str, Any]:
    model = sghash.load_model(path)
    return {
        "kind": "model",
        "class": type(model).__name__,
        "codes": model.capabilities.codes,
        "n_bits": model.code_bits,
        "dimensions": int(model.n_features_in_),
        "fingerprint": model.fingerprint_,
        "options": _options(model),
    }


def _model_class(name: str) -> dict[str, Any]:
    cls = model_class(name)
    blank = cls()
    return {
        "kind": "class of models",
        "about": (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " "),
        "codes": blank.capabilities.codes,
        "can": _can(blank.capabilities),
        "presets": [f"{name}.{preset}" for preset in cls.presets],
        "options": {
            key: value
            for key, value in _options(blank).items()
            if key not in (*_GIVEN, blank.capabilities.length.option)
        },
    }


def _options(model: Any) -> dict[str, Any]:
    """Options as they can be set, those of a recipe by names of their own."""
    options = model.get_params()
    inner = {name.partition("__")[0] for name in options if "__" in name}
    return {name: _plain(value) for name, value in options.items() if name not in inner}


def _can(capabilities: Capabilities) -> list[str]:
    return [word for name, word in _ABILITIES.items() if getattr(capabilities, name)]


def _data_set(name: str) -> dict[str, Any]:
    from sghash.data.loading import BUILT_IN, find_files

    if name in BUILT_IN:
        data = BUILT_IN[name]()
        base, queries, here = data.base.shape, data.queries.shape, True
        about: Any = data
    else:
        about = CATALOG[name]
        base, queries = about.base, about.queries
        here = any(find_files(name, variant.files) for variant in about.variants)
    return {
        "kind": "data set",
        "about": about.about,
        "licence": about.licence,
        "metric": about.metric,
        "here": here,
        f"{name}.base": f"{base[0]} vectors of {base[1]} numbers",
        f"{name}.queries": f"{queries[0]} vectors of {queries[1]} numbers",
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None), list)) else repr(value)


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            for number, item in enumerate(value):
                rows.append((prefix + name if number == 0 else "", item))
        else:
            text = f"{value:.1f}" if name == "bytes_per_row" else str(value)
            rows.append((prefix + name, text))
    return rows
