"""`DeepSGH`: gradients against the linear model's, codes without PyTorch, files, supervision."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch", reason="needs the extra torch")

from sghash import load_model  # noqa: E402
from sghash.errors import BadFile, Diverged, InvalidInput  # noqa: E402
from sghash.models import DeepSGH  # noqa: E402
from sghash.models.sgh.paper.encoder import sigmoid  # noqa: E402
from sghash.models.sgh.paper.generative import GaussianDecoder  # noqa: E402
from sghash.models.sgh.paper.gradients import gaussian_differences  # noqa: E402
from sghash.models.sgh.variants.deep_layers import chain, count, forward, linear  # noqa: E402
from sghash.models.sgh.variants.deep_modules import SkipEncoder, as_layers  # noqa: E402
from sghash.models.sgh.variants.deep_neuron import code_loss  # noqa: E402
from sghash.models.sgh.variants.deep_pairs import neighborhoods  # noqa: E402

pytestmark = pytest.mark.torch
#: Lines of a program in which PyTorch is not installed.
NO_TORCH = """
        import sys

        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(f"No module named {name!r}")

        sys.meta_path.insert(0, Hidden())
"""
QUICK = {"n_steps": 40, "batch_size": 64, "hidden": (16, 16), "random_state": 0}


def rows_of(n=300, width=8, n_centres=12, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(n_centres, width))
    labels = rng.integers(n_centres, size=n)
    return (centres[labels] + 0.5 * rng.normal(size=(n, width)) + 5).astype("f4"), labels


class FixedDraws:
    """A generator for NumPy that repeats PyTorch's draws."""

    def __init__(self, draws):
        self.draws = draws

    def random(self, shape):
        assert shape == self.draws.shape
        return self.draws


@pytest.mark.parametrize(
    "estimator", ["approximate", "distributional", "exact", "straight-through"]
)
def test_every_estimator_gives_the_gradient_of_the_linear_model(estimator):
    rng = np.random.default_rng(1)
    x, logits = rng.normal(size=(7, 5)), rng.normal(size=(7, 4))
    u, bias, noise = rng.normal(size=(4, 5)), rng.normal(size=5), 0.6
    z = torch.tensor(logits, requires_grad=True)
    weights, offset = torch.tensor(u), torch.tensor(bias)

    def row_loss(codes):
        return (torch.tensor(x) - codes @ weights - offset).square().sum(dim=1) / (2 * noise)

    def spread_loss(variances):
        return variances @ weights.square().sum(dim=1) / (2 * noise)

    loss = code_loss(
        z, row_loss, estimator=estimator, generator=torch.Generator().manual_seed(3),
        spread_loss=spread_loss,
    )  # fmt: skip
    loss.backward()
    draws = torch.rand(z.shape, generator=torch.Generator().manual_seed(3), dtype=z.dtype).numpy()
    p = sigmoid(logits)
    change = gaussian_differences(
        GaussianDecoder(u, bias, noise), x, p, estimator=estimator, coding="signed",
        rng=FixedDraws(draws),
    )  # fmt: skip
    assert np.allclose(z.grad.numpy(), p * (1 - p) * change / len(x), atol=1e-12)


def networks():
    nn = torch.nn
    return [
        SkipEncoder(6, 3, (5, 4)),
        nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(), nn.Linear(4, 3)),
        nn.Sequential(nn.BatchNorm1d(6), nn.Sigmoid(), nn.Linear(6, 3, bias=False)),
        nn.Sequential(nn.ReLU(), nn.Identity(), nn.Linear(6, 5), nn.Linear(5, 3)),
    ]


@pytest.mark.parametrize("number", range(4))
def test_numpy_runs_the_network(number):
    module = networks()[number]
    x = np.random.default_rng(0).normal(size=(50, 6)).astype("f4")
    with torch.no_grad():
        for _ in range(3):
            module(torch.from_numpy(x * 2 + 1))  # something for the running averages
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
        expected = module.eval()(torch.from_numpy(x)).numpy()
    given = x.copy()
    layers, numbers = as_layers(module)
    assert count(layers) == numbers.size
    assert np.allclose(forward(layers, numbers, x), expected, atol=1e-5)
    assert np.array_equal(x, given)
    into = linear(2 * np.eye(6, dtype="f4"), np.ones(6, dtype="f4"))
    merged = chain(into, (layers, numbers))
    with torch.no_grad():
        expected = module(torch.from_numpy(2 * x + 1)).numpy()
    assert np.allclose(forward(*merged, x), expected, atol=1e-5)


def test_unknown_parts_are_told():
    assert as_layers(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())) is None
    with pytest.raises(BadFile, match="unknown kind"):
        count([{"kind": "conv"}])
    with pytest.raises(BadFile, match="takes 6 numbers"):
        forward([{"kind": "linear", "shape": [2, 2]}], np.zeros(5, "f4"), np.zeros((1, 2), "f4"))


class Residual(torch.nn.Sequential):
    """Looks like a chain of known parts, and is none."""

    def forward(self, x):
        return x + super().forward(x)


def test_parts_that_do_something_else_than_their_class_are_unknown():
    nn = torch.nn
    assert as_layers(Residual(nn.Linear(2, 2))) is None
    skip = SkipEncoder(2, 2, hidden=(3,))
    skip.bent = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    assert as_layers(skip) is None
    hooked = nn.Linear(2, 2)
    hooked.register_forward_hook(lambda module, given, found: 2 * found)
    assert as_layers(hooked) is None


def test_codes_are_those_of_the_network_that_was_trained():
    X, _ = rows_of()
    nn = torch.nn
    encoder = nn.Sequential(Residual(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 6))
    model = DeepSGH(n_bits=6, encoder=encoder, **QUICK).fit(X)
    with torch.no_grad():
        logits = model._network.encoder(torch.from_numpy(model._inputs.of(X))).numpy()
    assert np.array_equal(model.transform(X), logits > 0)


@parametrize_with_checks([DeepSGH(n_bits=9, n_steps=8, batch_size=16, hidden=(8,), random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_training_lowers_both_losses_and_decodes():
    X, _ = rows_of(n_centres=100)
    options = {**QUICK, "n_steps": 200, "neighbors": 1, "learning_rate": 0.01}
    model = DeepSGH(n_bits=16, **options).fit(X)
    first, last = (np.array(model.history_["objective"])[places].mean() for places in (0, -1))
    assert last < first
    # The loss of few pairs is noisy: one seed may show anything.
    several = [DeepSGH(16, **options | {"random_state": seed}).fit(X) for seed in range(4)]
    losses = np.array([other.history_["pair_loss"] for other in several])
    assert losses[:, -5:].mean() < losses[:, :3].mean()
    error = np.square(X - model.decode(model.encode(X))).sum()
    assert error < 0.3 * np.square(X - X.mean(axis=0)).sum()
    assert clone(model).fit(X).fingerprint_ == model.fingerprint_


def test_encodes_and_decodes_without_torch(tmp_path):
    X, _ = rows_of()
    model = DeepSGH(n_bits=13, metric="cosine", **QUICK).fit(X)
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    program = f"""{NO_TORCH}
        import numpy as np, sghash
        model = sghash.load_model({str(tmp_path / "model")!r})
        codes = model.encode(np.load({str(tmp_path / "X.npy")!r}))
        np.save({str(tmp_path / "codes.npy")!r}, codes)
        np.save({str(tmp_path / "back.npy")!r}, model.decode(codes))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    codes = np.load(tmp_path / "codes.npy")
    assert np.array_equal(codes, model.encode(X))
    assert np.array_equal(np.load(tmp_path / "back.npy"), model.decode(codes))
    logits = model._network.encoder(torch.from_numpy(model._inputs.of(model._ready(X))))
    logits = logits.detach().numpy()
    agree = (logits > 0) == model.transform(X)
    assert agree[np.abs(logits) > 1e-3].all() and agree.mean() > 0.999


def test_without_torch_fitting_says_what_to_install():
    program = f"""{NO_TORCH}
        import numpy as np, sghash
        try:
            sghash.models.DeepSGH(n_bits=4).fit(np.eye(4))
        except sghash.MissingExtra as error:
            print(error)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert "pip install" in out.stdout and "[torch]'" in out.stdout


def test_any_module_can_be_trained_and_is_left_alone(tmp_path):
    nn = torch.nn
    X, _ = rows_of()
    encoder = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 6))
    decoder = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8))
    before = encoder[0].weight.detach().clone()
    model = DeepSGH(n_bits=6, encoder=encoder, decoder=decoder, gradient="distributional", **QUICK)
    codes = model.fit(X).encode(X)
    assert torch.equal(encoder[0].weight, before)
    assert len(np.unique(codes)) > 3 and model.decode(codes).shape == X.shape
    with pytest.raises(InvalidInput, match="as_layers"):
        model.save(tmp_path / "model")
    encoder[1] = nn.ReLU()
    known = DeepSGH(n_bits=6, encoder=encoder, decoder=decoder, **QUICK).fit(X)
    known.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").decode(codes), known.decode(codes))


def test_labels_and_pairs_bring_codes_together():
    X, _ = rows_of(seed=4)
    # Labels that the vectors hardly show: the sign of one column.
    labels = (X[:, 0] > np.median(X[:, 0])).astype(int)
    partly = np.where(np.arange(len(X)) % 3 == 0, -1, labels)

    def margin(model):
        signs = 2.0 * model.transform(X) - 1
        products = signs @ signs.T / model.n_bits
        same = labels[:, None] == labels[None, :]
        return products[same].mean() - products[~same].mean()

    options = {**QUICK, "n_steps": 150, "neighbors": 0, "n_bits": 12}
    plain = margin(DeepSGH(**options).fit(X, partly))
    assert margin(DeepSGH(supervised=True, **options).fit(X, partly)) > plain + 0.2
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(X), size=(2, 2000))
    known = DeepSGH(**options).fit(X, pairs=(i, j, labels[i] == labels[j]))
    assert margin(known) > plain + 0.2


def test_neighborhoods_hold_neighbours_and_never_the_row_itself():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(40, 4)), 2, axis=0).astype("f4")  # every vector twice
    rows = np.arange(80) * 3
    for metric in ("l2", "ip"):
        found = neighborhoods(X, rows, 5, metric=metric)
        assert found.partners.shape == (80, 5)
        assert (found.partners != found.anchors[:, None]).all()
    near = neighborhoods(X, rows, 1, metric="l2").partners[:, 0] // 3
    assert np.array_equal(X[near], X)
    anchors, partners = found.draw(1000, rng)
    assert len(set(anchors.tolist())) == 80
    assert all(b in found.partners[a // 3] for a, b in zip(anchors, partners, strict=True))


def test_wrong_use_is_refused():
    X, _ = rows_of(60)
    nn = torch.nn
    for wrong, word in (
        ({"encoder": 3}, "torch.nn.Module"),
        ({"encoder": nn.Linear(8, 5)}, "the encoder gives"),
        ({"decoder": nn.Linear(9, 5)}, "the decoder gives"),
        ({"decoder": nn.Linear(9, 8), "gradient": "exact"}, "ready linear decoder"),
        ({"metric": "l1"}, "metric"), ({"neighbors": -1}, "neighbors"),
        ({"pair_weight": 0.0}, "pair_weight"), ({"kl_weight": 1.0}, "kl_weight"),
        ({"hidden": (0,)}, "hidden"), ({"n_steps": 0}, "n_steps"),
        ({"hidden": 3}, "hidden"), ({"kl_weight": ("a", "b")}, "kl_weight"),
        ({"kl_weight": (1.0, float("nan"))}, "kl_weight"), ({"device": "abacus"}, "device"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=word):
            DeepSGH(**{**QUICK, "n_bits": 9, "n_steps": 2, **wrong}).fit(X)
    with pytest.raises(InvalidInput, match="one per row"):
        DeepSGH(supervised=True, **QUICK).fit(X)
    with pytest.raises(Diverged, match="learning_rate"):
        DeepSGH(n_bits=9, **{**QUICK, "learning_rate": 1e30}).fit(X)
