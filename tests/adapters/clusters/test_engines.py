"""Spark and Ray, for real: what they build and answer is what one process does."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sghash
from sghash import Collection, InvalidInput
from sghash.collection import ShardedCollection

pytestmark = [
    pytest.mark.engines,
    # The engines' own: sockets and pipes that they leave to the garbage collector, old names.
    pytest.mark.filterwarnings("ignore"),
]

N, WIDTH = 100_000, 24
DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(5).standard_normal((N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def model(vectors):
    return sghash.ITQ(n_bits=32, random_state=0).fit(vectors[:5000])


@pytest.fixture(scope="module")
def files(tmp_path_factory, vectors):
    """Files in another order than they were written in; names are keys, years metadata."""
    folder = tmp_path_factory.mktemp("files")
    cuts = [0, 30_000, 71_234, N]
    for name, start, stop in zip("bca", cuts, cuts[1:], strict=False):
        rows = pa.FixedSizeListArray.from_arrays(vectors[start:stop].ravel(), WIDTH)
        names = [f"row {row}" for row in range(start, stop)]
        years = pa.array(np.arange(start, stop) % 50)
        table = pa.table({"vectors": rows, "name": names, "year": years})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=9000)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory, files, model):
    """What one process makes of the files."""
    tables = [pq.read_table(path) for path in sorted(files.glob("*.parquet"))]
    table = pa.concat_tables(tables)
    with Collection.create(tmp_path_factory.mktemp("one") / "c", model) as one:
        years = table["year"].to_numpy()
        one.add(np.asarray(sghash.open_vectors(files)), table["name"].to_pylist(), {"year": years})
    return Collection.open(one.folder)


@pytest.fixture(scope="module")
def spark():
    pyspark = pytest.importorskip("pyspark.sql", reason="needs the spark extra")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = pyspark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    pytest.importorskip("ray.data", reason="needs the ray extra")
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=200 << 20, logging_level="error"
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


class OnSpark:
    def __init__(self, spark):
        from sghash.adapters.clusters import spark as on_spark

        self.spark, self.verbs, self.options = spark, on_spark, {"spark": spark}

    def read(self, path):
        return self.spark.read.parquet(str(path))

    def rows(self, frame):
        return frame.toArrow()


class OnRay:
    def __init__(self, ray):
        from sghash.adapters.clusters import ray as on_ray

        self.ray, self.verbs, self.options = ray, on_ray, {}

    def read(self, path):
        return self.ray.data.read_parquet(str(path))

    def rows(self, data):
        return pa.concat_tables(self.ray.get(data.to_arrow_refs()))


@pytest.fixture(params=["spark", "ray"])
def engine(request):
    kind = OnSpark if request.param == "spark" else OnRay
    return kind(request.getfixturevalue(request.param))


WANTED = {"keys": "name", "metadata": ["year"], "rows_per_part": 17_000}


def test_a_collection_is_what_one_process_makes(engine, files, tmp_path, model, one, vectors):
    options = engine.options | WANTED
    with engine.verbs.build_collection(files, tmp_path / "c", model=model, **options) as built:
        assert np.array_equal(built.ids, one.ids) and len(built) == N
        a, b = built.get(built.ids), one.get(one.ids)
        assert np.array_equal(a.codes, b.codes)
        assert a.keys == b.keys and a.metadata == b.metadata
        for how in ({}, {"rerank": "decoder"}, {"where": "year > 30"}):
            left, right = (c.search(vectors[:50], 10, **how) for c in (built, one))
            assert np.array_equal(left.ids, right.ids)
            assert np.array_equal(left.distances, right.distances)
    # The same call again changes nothing.
    with engine.verbs.build_collection(files, tmp_path / "c", **options) as built:
        assert len(built) == N and built.verify().n_rows == N


def test_codes_of_a_frame(engine, files, model):
    coded = engine.rows(engine.verbs.encode(engine.read(files), model))
    order = np.argsort(coded["name"].to_pylist())
    codes = np.frombuffer(b"".join(coded["codes"].to_pylist()), np.uint8).reshape(N, -1)
    given = np.stack(coded["vectors"].to_numpy())
    assert np.array_equal(codes, model.encode(given.astype(np.float32)))
    assert len(set(np.asarray(coded["name"].to_pylist())[order])) == N


@pytest.mark.parametrize("n_shards", [1, 3])
def test_answers_of_a_frame(engine, files, tmp_path, model, one, vectors, n_shards):
    shards = [one.folder]
    if n_shards > 1:
        places = [tmp_path / f"s{i}" for i in range(n_shards)]
        ShardedCollection.open([one.folder]).reshard(places)
        shards = places
    queries = pa.table({"q": vectors[:300].tolist(), "n": np.arange(300)})
    pq.write_table(queries, tmp_path / "q.parquet", row_group_size=100)
    frame = engine.read(tmp_path / "q.parquet")
    how = {"rerank": "decoder", "where": "year > 10"}
    answers = engine.rows(engine.verbs.search(frame, shards, 7, vectors="q", **how))
    expected = one.search(vectors[:300], 7, **how)
    order = np.argsort(answers["n"].to_numpy())
    assert np.array_equal(np.stack(answers["ids"].to_numpy())[order], expected.ids)
    assert np.array_equal(np.stack(answers["distances"].to_numpy())[order], expected.distances)


def test_bad_input(engine, files, tmp_path, model, one):
    frame = engine.read(files)
    with pytest.raises(InvalidInput, match="got str"):
        engine.verbs.encode("frame", model)
    with pytest.raises(sghash.errors.NotFitted):
        engine.verbs.encode(frame, sghash.ITQ(32))
    with pytest.raises(sghash.SghashError, match="nowhere"):
        engine.verbs.search(frame, tmp_path / "nowhere", 3)
    with pytest.raises(Exception, match="no column 'rows'"):
        engine.rows(engine.verbs.encode(frame, model, vectors="rows"))
    with pytest.raises(Exception, match="lists of numbers"):
        engine.rows(engine.verbs.encode(frame, model, vectors="year"))
    broken = tmp_path / "broken"
    broken.mkdir()
    rows = np.full((30, WIDTH), np.nan, dtype=np.float32)
    np.save(broken / "a.npy", rows)
    options = engine.options
    with pytest.raises(Exception, match=r"a\.npy, rows 0 to 29"):
        engine.verbs.build_collection(broken, tmp_path / "b", model=model, **options)
    with Collection.open(tmp_path / "b", writable=True) as left:  # not locked, and empty
        assert len(left) == 0


def test_a_worker_of_another_version_is_refused(engine, files, tmp_path, model, monkeypatch):
    monkeypatch.setattr(sghash, "__version__", "0.0.0.other")
    options = engine.options
    with pytest.raises(Exception, match="install the same version everywhere"):
        engine.verbs.build_collection(files, tmp_path / "c", model=model, **options)
    assert not list(tmp_path.glob("c/staged/**/part*"))
    with pytest.raises(Exception, match="install the same version everywhere"):
        engine.rows(engine.verbs.encode(engine.read(files), model))


@pytest.mark.parametrize("page", ["i-have-spark", "i-have-ray"])
def test_every_block_of_the_pages_runs(page, tmp_path, monkeypatch, request):
    request.getfixturevalue(page.rpartition("-")[2])
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    names: dict = {}
    printed = shown = ""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, f"{page}.md", "exec"), names)
            printed = out.getvalue()
        elif language == "text":
            assert printed == block
            shown += block
    assert shown
