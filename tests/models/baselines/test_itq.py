"""ITQ: the alternation, the expansion beyond the rank, the decoder."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.bits import pack_bits
from sghash.errors import InvalidInput
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.models.baselines.itq import ITQ


def correlated(rng: np.random.Generator, n: int = 600, d: int = 12) -> np.ndarray:
    mixing = rng.normal(size=(d, d)) * np.linspace(3, 0.3, d)
    return (rng.normal(size=(n, d)) @ mixing + rng.normal(size=d) * 5).astype(np.float32)


def quantization_error(model: ITQ, vectors: np.ndarray) -> float:
    """The definition: mean squared distance between rotated components and their signs."""
    rotated = (vectors.astype(np.float64) - vectors.mean(axis=0)) @ model.projection_
    return float(np.square(rotated - np.where(rotated > 0, 1, -1)).sum(axis=1).mean())


@pytest.mark.parametrize("n_bits", [4, 12, 29])
def test_error_falls_at_every_step_and_is_what_the_definition_says(rng, n_bits):
    vectors = correlated(rng)
    model = ITQ(n_bits=n_bits, random_state=3).fit(vectors)
    history = model.quantization_error_history_
    assert len(history) > 5
    assert np.all(np.diff(history) < 0)
    expected = quantization_error(model, vectors)
    assert history[-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("n_bits", [6, 20])
def test_equals_the_textbook_alternation(rng, n_bits):
    """The paper's two lines in double precision, from the same first rotation."""
    vectors = correlated(rng)
    start = ITQ(n_bits=n_bits, n_iterations=0, random_state=2).fit(vectors)
    wide = vectors.astype(np.float64) - vectors.mean(axis=0)
    axes = np.linalg.eigh(np.cov(wide.T))[1][:, ::-1][:, : min(n_bits, 12)]
    components, rotation = wide @ axes, axes.T @ start.projection_
    errors = []
    for _ in range(11):
        signs = np.where(components @ rotation > 0, 1.0, -1.0)
        errors.append(np.square(signs - components @ rotation).sum(axis=1).mean())
        left, _, right = np.linalg.svd(components.T @ signs, full_matrices=False)
        rotation = left @ right
    model = ITQ(n_bits=n_bits, n_iterations=10, random_state=2).fit(vectors)
    assert np.allclose(model.quantization_error_history_, errors, rtol=1e-4)


def test_rotation_is_orthonormal_on_both_sides_of_the_rank(rng):
    vectors = correlated(rng)
    short = ITQ(n_bits=5, random_state=0).fit(vectors).projection_
    assert np.allclose(short.T @ short, np.eye(5), atol=1e-5)
    long = ITQ(n_bits=30, random_state=0).fit(vectors).projection_
    assert np.allclose(long @ long.T, np.eye(12), atol=1e-5)


def test_recovers_a_rotated_cube():
    """Corners of a turned cube: the right rotation makes the error almost vanish."""
    rng = np.random.default_rng(5)
    corners = np.where(rng.normal(size=(2000, 6)) > 0, 1.0, -1.0) * np.linspace(0.97, 1.03, 6)
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    model = ITQ(n_bits=6, n_iterations=200, random_state=1).fit(corners @ turn)
    assert model.quantization_error_history_[-1] < 0.02
    assert len(np.unique(model.encode(corners @ turn))) == 64


def test_decoder_is_the_least_squares_solution(rng):
    vectors = correlated(rng)
    model = ITQ(n_bits=10, random_state=0).fit(vectors)
    signs = np.where(model.transform(vectors), 1.0, -1.0)
    design = np.hstack([signs, np.ones((len(signs), 1))])
    solution, *_ = np.linalg.lstsq(design, vectors.astype(np.float64), rcond=None)
    expected = design @ solution
    assert np.allclose(model.decode(model.encode(vectors)), expected, atol=1e-3)


def test_sample_learns_nearly_the_same_error(rng):
    vectors = correlated(rng, n=4000)
    whole = ITQ(n_bits=8, random_state=0).fit(vectors).quantization_error_history_[-1]
    part = ITQ(n_bits=8, sample=2000, random_state=0).fit(vectors).quantization_error_history_[-1]
    assert part != whole
    assert part == pytest.approx(whole, rel=0.05)


def test_progress_is_reported(rng):
    seen = []
    model = ITQ(n_bits=6, n_iterations=7, callback=seen.append, random_state=0)
    model.fit(correlated(rng))
    assert [progress.step for progress in seen] == list(range(len(seen)))
    errors = [progress.values["quantization_error"] for progress in seen]
    assert errors == list(model.quantization_error_history_)


@pytest.mark.parametrize("option", [{"n_iterations": -1}, {"sample": 0}])
def test_bad_options_are_refused(rng, option):
    with pytest.raises(InvalidInput, match=next(iter(option))):
        ITQ(n_bits=4, **option).fit(correlated(rng))


@pytest.mark.slow
def test_recall_is_at_least_that_of_faiss_on_sift(data_folder):
    """Mean of five seeds at 64 bits, the same training rows; FAISS's alternation ends higher."""
    faiss = pytest.importorskip("faiss")
    with np.load(data_folder / "sift_photos_500k.npz") as archive:
        base, queries = archive["base"][:100_000], archive["query"][:500]
    base, queries = base.astype(np.float32), queries.astype(np.float32)
    truth = exact_neighbors(base, queries, 10).ids

    def recall(bits_of) -> float:
        codes, query_codes = pack_bits(bits_of(base)), pack_bits(bits_of(queries))
        found = hamming_neighbors(codes, query_codes, 100, n_bits=64).ids
        return np.mean([np.isin(t, f).mean() for t, f in zip(truth, found, strict=True)])

    def theirs(seed: int) -> float:
        transform = faiss.ITQTransform(128, 64, True)
        transform.itq.seed, transform.max_train_per_dim = seed, 20_000
        transform.train(base[:20_000])
        return recall(lambda vectors: transform.apply(vectors) > 0)

    ours = [recall(ITQ(n_bits=64, random_state=s).fit(base[:20_000]).transform) for s in range(5)]
    assert np.mean(ours) > 0.99 * np.mean([theirs(seed) for seed in range(5)])
