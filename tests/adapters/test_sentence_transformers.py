"""A `SentenceTransformer` of our own making, small and without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")

from sghash.errors import InvalidInput  # noqa: E402
from sghash.models import ITQ, LSH  # noqa: E402

TEXTS = [f"the {a} {b}" for a in ("red", "blue", "old") for b in ("house", "car", "tree", "sea")]


@pytest.fixture(scope="module")
def floats():
    """Words by a table of random vectors, as the static models of sentence-transformers do it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = sorted({word for text in TEXTS for word in text.split()})
    tokenizer = Tokenizer(
        WordLevel({word: row for row, word in enumerate(["?", *words])}, unk_token="?")
    )
    tokenizer.pre_tokenizer = Whitespace()
    weights = np.random.default_rng(0).standard_normal((len(words) + 1, 16)).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, weights)], device="cpu")


@pytest.mark.parametrize("kind", [LSH, ITQ])
def test_encode_gives_our_codes(floats, kind, tmp_path):
    from sentence_transformers import SentenceTransformer

    from sghash.adapters.frameworks.sentence_transformers import BinaryCodes

    embeddings = floats.encode(TEXTS)
    model = kind(12, random_state=0).fit(embeddings)
    codes = SentenceTransformer(modules=[*floats, BinaryCodes(model)], device="cpu")
    found = codes.encode(TEXTS)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, model.encode(embeddings))
    np.testing.assert_array_equal(codes.encode(TEXTS[0]), found[0])
    assert codes.encode(TEXTS, convert_to_tensor=True).shape == found.shape
    codes.save(str(tmp_path / "saved"))
    assert not list((tmp_path / "saved").rglob("*.bin"))  # no pickle
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(again.encode(TEXTS), found)
    assert again[-1].codes_of.fingerprint_ == model.fingerprint_


def test_a_model_that_has_learned_nothing_is_refused():
    from sghash.adapters.frameworks.sentence_transformers import BinaryCodes

    with pytest.raises(InvalidInput, match="fitted model"):
        BinaryCodes(LSH(8))


def test_every_block_of_the_page_runs(tmp_path):
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "i-have-sentence-transformers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    program = "\n".join(block for language, block in blocks if language == "python")
    shown = "".join(block for language, block in blocks if language == "text")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, text=True, check=True,
        capture_output=True, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.stdout == shown
