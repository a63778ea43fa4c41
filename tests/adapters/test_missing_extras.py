"""A package that is not installed is one sentence with the remedy; importing needs none of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sghash.errors import MissingExtra

FINGERPRINT = "ab" * 32


def duckdb(path):
    from sghash.adapters.databases.duckdb import DuckDBIndex

    DuckDBIndex.create(path / "x", "codes", n_bits=8, fingerprint=FINGERPRINT)


def sqlite(path):
    from sghash.adapters.databases.sqlite import SQLiteIndex

    SQLiteIndex.create(path / "x", "codes", n_bits=8, fingerprint=FINGERPRINT)


def postgresql(path):
    from sghash.adapters.databases.postgresql import PostgresIndex

    PostgresIndex.open("postgresql://me:sEcReT@nowhere/x", "codes")


def polars(path):
    from sghash.adapters.databases.polars import hamming_distance

    hamming_distance(np.zeros(1, np.uint8), 8)


def parquet(path):
    from sghash.adapters.exports.arrow import write_codes

    write_codes(path / "x", np.zeros((1, 1), np.uint8), n_bits=8, fingerprint=FINGERPRINT)


def faiss(path):
    from sghash import HammingIndex
    from sghash.adapters.exports.faiss import to_faiss

    to_faiss(HammingIndex(8))


def onnx(path):
    from sghash.adapters.exports.onnx import to_onnx

    to_onnx(None)


def milvus(path):
    from sghash.adapters.databases.milvus import MilvusIndex

    MilvusIndex.create(path / "x.db", "codes", n_bits=8, fingerprint=FINGERPRINT)


def langchain(path):
    import sghash.adapters.frameworks.langchain  # noqa: F401


def llama_index(path):
    import sghash.adapters.frameworks.llama_index  # noqa: F401


def sentence_transformers(path):
    import sghash.adapters.frameworks.sentence_transformers  # noqa: F401


def hub(path):
    import sghash.adapters.frameworks.hub  # noqa: F401


PACKAGES = {
    "duckdb": duckdb, "sqlite_vec": sqlite, "psycopg": postgresql, "polars": polars,
    "pyarrow": parquet, "faiss": faiss, "onnx": onnx, "langchain_core": langchain,
    "pymilvus": milvus, "llama_index": llama_index, "sentence_transformers": sentence_transformers,
    "huggingface_hub": hub,
}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_is_one_sentence(package, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    for name in ("langchain", "llama_index", "sentence_transformers", "hub"):
        monkeypatch.delitem(sys.modules, f"sghash.adapters.frameworks.{name}", raising=False)
    with pytest.raises(MissingExtra, match=f"{package!r}, which is not installed: pip") as caught:
        PACKAGES[package](tmp_path)
    assert "sEcReT" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_adapters_load_late():
    program = (
        "import sys, sghash.adapters.transfer, sghash.adapters.databases.duckdb,"
        " sghash.adapters.databases.sqlite, sghash.adapters.databases.postgresql,"
        " sghash.adapters.databases.polars, sghash.adapters.exports.arrow,"
        " sghash.adapters.databases.milvus, sghash.adapters.databases.faiss_file,"
        " sghash.adapters.exports.faiss, sghash.adapters.exports.onnx;"
        f"print(sorted({set(PACKAGES)} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
