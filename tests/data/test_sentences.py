"""The sentences that ship with the package: what is in them, and under what terms."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.data.builtin import SENTENCES
from sghash.data.readers import npz

ROOT = Path(__file__).resolve().parents[2]
SHA256 = "468378178c731aa9048f2ef83ecf5f84dda21da23b4fd1aa7449e4956b7119f9"


@pytest.fixture(scope="module")
def data() -> sghash.data.DataSet:
    return sghash.load_dataset("sentences", fetch=False)


def test_the_file_is_small_and_the_one_that_was_made() -> None:
    assert SENTENCES.stat().st_size < 2_000_000
    assert hashlib.sha256(SENTENCES.read_bytes()).hexdigest() == SHA256


def test_vectors_have_length_one(data: sghash.data.DataSet) -> None:
    assert data.base.shape == (3000, 384) and data.queries.shape == (200, 384)
    assert data.metric == "cosine"
    for source in (data.base, data.queries):
        assert source.dtype == np.float32
        lengths = np.linalg.norm(np.asarray(source, dtype=np.float64), axis=1)
        assert np.abs(lengths - 1).max() < 1e-6


def test_vectors_are_the_stored_numbers_by_their_factors(data: sghash.data.DataSet) -> None:
    """Eight bits lose little: rows before they are brought to length one are nearly so long."""
    for side, source in (("base", data.base), ("query", data.queries)):
        numbers = npz.read_array(SENTENCES, side)
        factors = npz.read_array(SENTENCES, f"{side}_factors")
        assert numbers.dtype == np.int8 and np.abs(numbers.astype(int)).max(axis=1).min() == 127
        raw = numbers * factors[:, None].astype(np.float64)
        lengths = np.linalg.norm(raw, axis=1)
        assert np.abs(lengths - 1).max() < 0.002
        assert np.allclose(np.asarray(source), raw / lengths[:, None], atol=1e-6)


def test_every_text_is_one_sentence_and_none_comes_twice(data: sghash.data.DataSet) -> None:
    assert data.base_texts is not None and data.query_texts is not None
    texts = [*data.base_texts, *data.query_texts]
    assert len({text.lower() for text in texts}) == len(texts) == 3200
    for text in texts:
        assert text[0].isupper() and text[-1] in ".?!" and 6 <= len(text.split()) <= 16, text


def test_texts_belong_to_their_vectors(data: sghash.data.DataSet) -> None:
    """A shift by one row would go unnoticed by every test above."""
    assert data.base_texts is not None
    texts = list(data.base_texts)
    alike = np.asarray(data.base) @ np.asarray(data.base).T
    np.fill_diagonal(alike, -1)
    for word in ("dentist", "piano", "horse", "bus"):
        told = np.array([word in text.lower() for text in texts])
        nearest = alike[told].argmax(axis=1)
        assert told.sum() >= 3 and told[nearest].mean() > 10 * told.mean(), word


def test_the_licence_stands_beside_it_and_names_how_it_was_made() -> None:
    text = SENTENCES.with_suffix(".txt").read_text(encoding="utf-8")
    for part in ("WordNet 3.0 Copyright 2006 by Princeton University", "all-MiniLM-L6-v2",
                 "Apache License 2.0", "tools/make_sentences.py"):  # fmt: skip
        assert part in text, part
    assert (ROOT / "tools" / "make_sentences.py").is_file()


@pytest.mark.slow
def test_the_wheel_holds_the_set_and_its_licence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sghash/data/shipped/sentences.npz" in names
    assert "sghash/data/shipped/sentences.txt" in names
    assert any("/licenses/" in name and name.endswith("sentences.txt") for name in names)
