"""What every engine does with a job, here with this process as the only worker."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import sghash
from sghash import Collection, InvalidInput, StorageError
from sghash.adapters.clusters.building import Request, build
from sghash.collection import encode_part

N = 60


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).standard_normal((N, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def model(vectors):
    return sghash.ITQ(n_bits=16, random_state=0).fit(vectors)


@pytest.fixture
def request_of(tmp_path, vectors):
    np.save(tmp_path / "rows.npy", vectors)
    return Request(tmp_path / "rows.npy", rows_per_part=20)


def run_all(tasks):
    return [encode_part(task) for task in tasks]


def run_half(tasks):
    encode_part(tasks[0])
    raise KeyboardInterrupt


OPTIONS = [
    {}, {"keep_vectors": "float16"}, {"metric": "ip"}, {"metric": None, "partitions": None},
    {"keep_vectors": "int8", "metric": "cosine", "partitions": 2},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("model_again", [False, True])
def test_the_same_call_goes_on(tmp_path, model, request_of, options, model_again):
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", request_of, run_half, model=model, fitted=None, options=options)
    chosen = model if model_again else None
    for _ in range(2):
        with build(
            tmp_path / "c", request_of, run_all, model=chosen, fitted=None, options=options
        ) as built:
            assert built.verify().n_rows == N


def test_a_dead_mount_is_said_in_a_sentence(tmp_path, model, request_of, monkeypatch):
    real, dead = os.stat, str(tmp_path / "dead")

    def stat(path, *args, **options):
        if isinstance(path, (str, os.PathLike)) and str(path).startswith(dead):
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected", str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(StorageError, match=r"dead: Transport endpoint is not connected"):
        build(dead, request_of, run_all, model=model, fitted=None, options={})


def test_ids_begin_where_they_are_told(tmp_path, model, request_of):
    request = request_of._replace(first=100)
    with build(tmp_path / "c", request, run_all, model=model, fitted=None, options={}) as built:
        assert built.ids.tolist() == list(range(100, 100 + N))


def test_other_options_are_named(tmp_path, model, request_of):
    with Collection.create(tmp_path / "c", model, keep_vectors="float16"):
        pass
    options = {"keep_vectors": "float16", "metric": "ip", "partitions": "auto"}
    with pytest.raises(
        InvalidInput,
        match="made with metric='l2', partitions=None: leave out metric, partitions, or give a new",
    ):
        build(tmp_path / "c", request_of, run_all, model=None, fitted=None, options=options)
    with Collection.open(tmp_path / "c", writable=True) as left:  # not locked, and empty
        assert len(left) == 0
