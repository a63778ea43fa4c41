"""`DeepSGH`: any network as encoder and decoder, trained by PyTorch, used without it.

| file            | idea                                                              |
|-----------------|-------------------------------------------------------------------|
| `deep_layers`   | a network as a list of layers and one vector of numbers; NumPy    |
| `deep_neuron`   | the stochastic neuron, and the loss of codes, for autograd        |
| `deep_modules`  | ready networks, and networks as layers                            |
| `deep_pairs`    | which pairs of vectors shall have near codes                      |
| `deep_training` | the steps                                                         |

Only `deep_neuron`, `deep_modules` and `deep_training` need PyTorch (the extra `torch`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource
from sghash.errors import InvalidInput
from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.sgh.losses.ranking import PAIR_WEIGHT_BITS
from sghash.models.sgh.losses.supervision import check_labels, check_pairs
from sghash.models.sgh.options import kl_line
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.scaling import unit_rows
from sghash.models.sgh.training.start import START_ROWS, make_start
from sghash.models.sgh.variants.deep_layers import Layers, chain, forward, linear
from sghash.models.sgh.variants.deep_pairs import neighborhoods
from sghash.models.shared.axes import principal_axes
from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.least_squares import fit_linear_decoder, signed
from sghash.models.shared.seeds import generator_of
from sghash.optional import require
from sghash.validation import (
    METRICS,
    Ids,
    Vectors,
    check_callback,
    check_choice,
    check_count,
    check_n_bits,
    check_number,
)

#: Rows among which neighbours are looked for, and rows that the linear decoder is fitted to.
NEIGHBOR_ROWS, REFIT_ROWS = 30_000, 65_536
#: Standard deviation of the first logits: undecided bits learn faster.
LOGIT_SPREAD = 1.0


class Inputs(NamedTuple):
    """What the networks see: (x - `mean`) @ `axes` (d, r), of mean variance one."""

    mean: Vectors
    axes: Vectors

    def of(self, vectors: Vectors) -> Vectors:
        """Inputs (n, r) of raw vectors (n, d)."""
        return ((vectors - self.mean) @ self.axes).astype(np.float32, copy=False)


class DeepSGH(BinaryHasher):
    """Stochastic Generative Hashing with networks as encoder and decoder.

    Fitting needs PyTorch (the extra `torch`). A fitted model is a list of layers and numbers:
    encoding, decoding, saving and loading need NumPy alone, and give the codes that PyTorch would
    (but for ties within rounding).

    Parameters
    ----------
    n_bits : int
        Code length.
    encoder, decoder : torch.nn.Module or None
        From vectors (m, d), shifted and scaled to mean variance one, to logits (m, n_bits); from
        codes -1/+1 (m, n_bits) to such vectors. They are copied, never changed. None is a ready
        network: for the encoder a linear map, started by iterative quantization, plus `hidden`
        layers with batch normalisation; for the decoder a linear map. Networks with other parts
        than `sghash.models.sgh.variants.deep_modules.as_layers` knows can be used, but not saved.
    hidden : tuple of int
        Widths of the ready encoder's hidden layers.
    n_components : int
        The ready networks work in so many principal components at most.
    metric : {"l2", "ip", "cosine"}
        By what neighbours are near. "cosine" also brings every vector to unit length first.
    neighbors : int
        How many neighbours of a vector, found in a sample before training, its code shall be near
        to; 0 is off.
    supervised : bool
        Whether `fit` learns from `y`: labels, -1 for unlabelled rows.
    pair_weight : float or None
        Weight of neighbours, pairs and labels beside the objective; None is 2560 / n_bits.
    gradient : {"approximate", "distributional", "exact", "straight-through"}
        How the encoder's gradient is estimated; see `sghash.models.sgh.variants.deep_neuron`.
        "exact" needs the ready decoder.
    kl_weight : (float, float)
        First and last weight of the divergence.
    learning_rate : float
        First learning rate of Adam; falls to zero as a cosine.
    batch_size, n_steps : int
        Single vectors and pairs per step, half of each; steps.
    device : str
        Where PyTorch works, as it names devices.
    callback : callable or None
        Receives a `Progress` with `objective` and `pair_loss`.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    encoder_layers_, decoder_layers_ : list of dict, or None where the network is not known
        From raw vectors (of unit length for "cosine") to logits, and from -1/+1 to vectors; see
        `sghash.models.sgh.variants.deep_layers`.
    encoder_numbers_, decoder_numbers_ : (n,)
        Their parameters.
    history_ : dict of lists
        Per report: step, objective (nats), pair_loss.
    """

    learned_names: ClassVar[tuple[str, ...]] = (
        "encoder_layers_",
        "encoder_numbers_",
        "decoder_layers_",
        "decoder_numbers_",
    )
    recorded_names: ClassVar[tuple[str, ...]] = ("history_",)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        encoder: Any = None,
        decoder: Any = None,
        hidden: tuple[int, ...] = (256, 256),
        n_components: int = 256,
        metric: str = "l2",
        neighbors: int = 10,
        supervised: bool = False,
        pair_weight: float | None = None,
        gradient: str = "approximate",
        kl_weight: tuple[float, float] = (1.0, 0.0),
        learning_rate: float = 0.01,
        batch_size: int = 1024,
        n_steps: int = 1000,
        device: str = "cpu",
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.encoder, self.decoder = n_bits, encoder, decoder
        self.hidden, self.n_components, self.metric = hidden, n_components, metric
        self.neighbors, self.supervised, self.pair_weight = neighbors, supervised, pair_weight
        self.gradient, self.kl_weight, self.learning_rate = gradient, kl_weight, learning_rate
        self.batch_size, self.n_steps, self.device = batch_size, n_steps, device
        self.callback, self.random_state = callback, random_state

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Tables need a decoder that is linear in the bits, as the ready one is."""
        linear = self.decoder is None
        if linear and self.__sklearn_is_fitted__():
            # A loaded model has forgotten whose network it was, not what it consists of.
            linear = all(layer["kind"] == "linear" for layer in self.decoder_layers_ or ())
        return Capabilities(decodes=True, tables=linear, supervised=True, extra="torch")

    def fit(
        self, X: ArrayLike | VectorSource, y: ArrayLike | None = None, *, pairs: Any = None
    ) -> Self:
        """Learn from vectors `X` (n, d), and from labels `y` if `supervised`.

        `pairs` = (i, j, similar), each (m,): rows of `X`, and whether they belong together (the
        paper's pair model).
        """
        self._check_options()
        check_callback(self.callback)
        if self.pair_weight is not None and not (
            self.neighbors or self.supervised or pairs is not None
        ):
            raise InvalidInput(
                f"pair_weight={self.pair_weight!r} would have no effect, since it weighs "
                "neighbors, labels or pairs: ask for one, or leave pair_weight out"
            )
        rng = generator_of(self.random_state)
        with self._unchanged_on_failure():
            vectors = self._training_vectors(X)
            self._learn(vectors, y if self.supervised else None, pairs, rng)
        return self

    def _learn(
        self, vectors: Vectors, y: ArrayLike | None, pairs: Any, rng: np.random.Generator
    ) -> None:
        torch: Any = require("torch", extra="torch")
        from sghash.models.sgh.variants.deep_training import Supervision

        try:
            torch.zeros((), device=self.device)
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"PyTorch has no device {self.device!r}: {reason}") from error

        rows = self._ready(vectors)
        ready = self.encoder is None and self.decoder is None
        inputs = _inputs(rows, self.n_components if ready else None)
        known = Supervision()
        if self.neighbors and len(rows) > 1:
            known.neighbors = self._neighborhoods(rows, inputs, rng)
        if pairs is not None:
            known.pairs = check_pairs(pairs, len(rows))
        if self.supervised:
            known.labels = check_labels(y, len(rows))
        network = self._train(rows, inputs, known, rng)
        self._publish(network, inputs, rows[_some(len(rows), REFIT_ROWS, rng)])

    def _neighborhoods(self, rows: Vectors, inputs: Inputs, rng: np.random.Generator) -> Any:
        chosen = _some(len(rows), NEIGHBOR_ROWS, rng)
        sample = rows[chosen]
        if self.metric == "ip":
            return neighborhoods(sample, chosen, self.neighbors, metric="ip")
        # Distances hardly change in principal components, and cost less.
        return neighborhoods(inputs.of(sample), chosen, self.neighbors, metric="l2")

    def _train(self, rows: Vectors, inputs: Inputs, known: Any, rng: np.random.Generator) -> Any:
        from sghash.models.sgh.variants.deep_training import Training, make_network, torch

        weight = PAIR_WEIGHT_BITS / self.n_bits if self.pair_weight is None else self.pair_weight
        self.history_: dict[str, list[float]] = {}

        def report(step: int, values: dict[str, float]) -> None:
            for name, value in {"step": float(step), **values}.items():
                self.history_.setdefault(name, []).append(value)
            self._report(step, self.n_steps, **values)

        # Networks are drawn by PyTorch's own generator: seeded here, and put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(1 << 62)))
            sample = inputs.of(rows[_some(len(rows), START_ROWS, rng)])
            with single_threaded_blas():
                start = make_start(
                    "itq", sample, self.n_bits, coding="signed", rng=rng,
                    logit_spread=LOGIT_SPREAD,
                )  # fmt: skip
            network = make_network(
                self.encoder, self.decoder, start, sample.shape[1], self.n_bits, self.hidden
            )
            training = Training(
                network, lambda chosen: inputs.of(rows[chosen]), len(rows),
                estimator=self.gradient, kl_weight=self.kl_weight, pair_weight=float(weight),
                supervision=known, batch_size=self.batch_size,
                learning_rate=self.learning_rate, device=self.device, rng=rng,
            )  # fmt: skip
            training.run(self.n_steps, report)
        return network.to("cpu")

    def _publish(self, network: Any, inputs: Inputs, sample: Vectors) -> None:
        """Set the learned attributes: the networks between raw vectors and codes."""
        from sghash.models.sgh.variants.deep_modules import as_layers

        self.encoder_numbers_ = self.decoder_numbers_ = np.empty(0, dtype=np.float32)
        self.encoder_layers_: Layers | None = None
        self.decoder_layers_: Layers | None = None
        self._network, self._inputs = network, inputs
        known = as_layers(network.encoder)
        if known is not None:
            into = linear(inputs.axes, -inputs.mean @ inputs.axes)
            self.encoder_layers_, self.encoder_numbers_ = chain(into, known)
        if self.decoder is None:
            fitted = fit_linear_decoder(sample, self._bits_ready(sample))
            self.decoder_layers_, self.decoder_numbers_ = linear(fitted.weights, fitted.offset)
            return
        known = as_layers(network.decoder)
        if known is not None:
            back = linear(np.linalg.pinv(inputs.axes), inputs.mean)
            self.decoder_layers_, self.decoder_numbers_ = chain(known, back)

    def _check_options(self) -> None:
        check_n_bits(self.n_bits)
        check_choice(self.metric, METRICS, name="metric")
        check_choice(self.gradient, ESTIMATORS, name="gradient")
        if self.gradient == "exact" and self.decoder is not None:
            raise InvalidInput(
                "the exact gradient needs the ready linear decoder: use "
                "gradient='distributional', whose mean it is"
            )
        for name, least in (
            ("n_components", 1), ("neighbors", 0), ("batch_size", 2), ("n_steps", 1),
        ):  # fmt: skip
            check_count(getattr(self, name), name=name, least=least)
        check_number(self.learning_rate, name="learning_rate", above=0)
        if self.pair_weight is not None:
            check_number(self.pair_weight, name="pair_weight", above=0)
        kl_line(self.kl_weight)
        sizes = self.hidden if isinstance(self.hidden, (tuple, list)) else [None]
        if not all(isinstance(size, (int, np.integer)) and size > 0 for size in sizes):
            raise InvalidInput(f"hidden must be widths of at least 1, got {self.hidden!r}")

    def _ready(self, vectors: Vectors) -> Vectors:
        return unit_rows(vectors) if self.metric == "cosine" else vectors

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return self._bits_ready(self._ready(vectors))

    def _bits_ready(self, rows: Vectors) -> NDArray[np.bool_]:
        if self.encoder_layers_ is not None:
            return forward(self.encoder_layers_, self.encoder_numbers_, rows) > 0
        return self._by_torch(self._network.encoder, self._inputs.of(rows)) > 0

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        codes = signed(bits)
        if self.decoder_layers_ is not None:
            return forward(self.decoder_layers_, self.decoder_numbers_, codes)
        back = self._by_torch(self._network.decoder, codes)
        return (back @ np.linalg.pinv(self._inputs.axes) + self._inputs.mean).astype(np.float32)

    def _by_torch(self, module: Any, rows: Vectors) -> Vectors:
        torch: Any = require("torch", extra="torch")
        with torch.no_grad():
            found: Vectors = module(torch.from_numpy(rows)).numpy()
        return found

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to `folder` as `config.json` and `model.safetensors`."""
        if self.__sklearn_is_fitted__() and None in (self.encoder_layers_, self.decoder_layers_):
            raise InvalidInput(
                "the networks have parts that files cannot hold: build them of the modules that "
                "sghash.models.sgh.variants.deep_modules.as_layers names"
            )
        super().save(folder, overwrite=overwrite)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if self.__sklearn_is_fitted__() and None not in (
            self.encoder_layers_, self.decoder_layers_,
        ):  # fmt: skip
            state.pop("_network", None)  # copies need no PyTorch either
        return state


def _inputs(rows: Vectors, n_components: int | None) -> Inputs:
    """Principal components, or all columns as they are; both to mean variance one."""
    if n_components is None:
        mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        axes, size = np.eye(rows.shape[1], dtype=np.float32), np.square(rows - mean).mean()
    else:
        basis = principal_axes(rows[:: max(1, len(rows) // 100_000)], n_components)
        mean, axes = basis.mean, basis.axes
        size = basis.variances.mean() if axes.shape[1] else 0.0
    if axes.shape[1] == 0:  # constant data
        axes = np.zeros((rows.shape[1], 1), dtype=np.float32)
    return Inputs(mean, axes / np.float32(np.sqrt(size) or 1.0))


def _some(n: int, n_rows: int, rng: np.random.Generator) -> Ids:
    return np.sort(rng.choice(n, size=n_rows, replace=False)) if n > n_rows else np.arange(n)
