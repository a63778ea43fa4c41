"""Codes that do not see how long a vector is: the paper's translation and scale invariant model.

Dai, Guo, Kumar, He, Song, "Stochastic Generative Hashing", ICML 2017, supplementary material.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.bits import unpack_bits
from sghash.blocks import blocks_of
from sghash.errors import Diverged, InvalidInput
from sghash.models.base import BLOCK_ROWS, BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.inputs import check_is_fitted, translate_sklearn_errors, validate_data
from sghash.models.sgh.options import kl_line
from sghash.models.sgh.paper.encoder import sigmoid
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.optimizer import Adam, Parameters, Schedule
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.start import NOISE_FLOOR, START_ROWS, make_start
from sghash.models.sgh.variants.scale_step import Rows, scale_gradient, scale_moments, with_constant
from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.least_squares import LeastSquares
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_choice, check_count, check_number

ORIGINS = ("zero", "mean")
REFIT_ROWS = 65_536
#: First variance of the logarithm of a scale, as a share of its prior's.
FIRST_VARIANCE = 0.1
#: A step of Adam changes every weight by about the learning rate, and so the logarithm of a scale
#: by up to d times as much. It shall change by no more than this many learning rates, in
#: deviations of its prior: beyond, its exponential would throw wide data out of reach.
SCALE_STEP = 20.0
#: Shortest length that the noise shrinks to, in mean lengths.
SHORTEST = 1e-2


class ScaleInvariantSGH(BinaryHasher):
    """SGH whose codes describe directions, and whose scales describe how far along they go.

    x ~ N(alpha + z_0 u_0 + U (z . s), r² rho² I): s the code in -1/+1, z > 0 one scale per vector
    and bit, u_0 a row whose bit is always set, r the length of x. z = r e, where each e_k has the
    log-normal prior exp(N(-tau²/2, tau²)), of mean one, and a log-normal posterior given the
    direction of x; the length is read off the vector. Encoder and scales see the direction alone,
    (x - origin) / |x - origin|, so rescaling a row about the origin changes no bit of its code
    (but for ties within rounding). A vector at the origin has no direction and gets the code of
    the biases.

    `decode(codes)` takes every scale at its prior mean, r at the mean length of the training
    vectors; `decode(codes, scales=model.scales(X))` takes the scales that the caller kept.

    Parameters
    ----------
    n_bits : int
        Code length.
    origin : {"zero", "mean"}
        The point that rescaling leaves where it is: zero, or the mean of the training vectors.
    gradient : {"approximate", "distributional", "exact", "straight-through"}
        How the encoder's gradient is estimated; see `sghash.models.sgh.variants.scale_step`.
    scale_spread : float
        tau, the standard deviation of log e under its prior. Wide priors let the scales say what
        the code should say.
    kl_weight : (float, float)
        First and last weight of the bits' divergence; that of the scales has weight 1.
    learning_rate : float
        First learning rate of Adam; halved after half of the steps.
    batch_size, n_steps : int, int or None
        Vectors per step, and steps; None is 500 and 20 more per bit, at most 3000.
    callback : callable or None
        Receives a `Progress` with the mean `objective` in nats, twenty times.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    origin_, length_ : (d,), float
        The fixed point, and the mean length of the training vectors.
    encoder_weights_, encoder_bias_ : (d, n_bits), (n_bits,)
        Of directions of mean square one.
    scale_weights_, scale_bias_, log_scale_variance_ : (d, n_bits + 1), (n_bits + 1,), same
        Posterior of log e; column 0 is that of u_0.
    decoder_weights_, decoder_bias_ : (n_bits + 1, d), (d,)
        u_0 and U, for scales in units of the mean length, and alpha.
    noise_variance_ : float
        rho², relative to squared lengths.
    prior_logits_ : (n_bits,)
        Log odds of each bit before a vector is seen.
    history_ : dict of lists
        Step and mean objective in nats, per report.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(decodes=True, tables=True)
    learned_names: ClassVar[tuple[str, ...]] = (
        "origin_",
        "length_",
        "encoder_weights_",
        "encoder_bias_",
        "scale_weights_",
        "scale_bias_",
        "log_scale_variance_",
        "decoder_weights_",
        "decoder_bias_",
        "noise_variance_",
        "prior_logits_",
    )
    recorded_names: ClassVar[tuple[str, ...]] = ("history_",)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        origin: str = "zero",
        gradient: str = "approximate",
        scale_spread: float = 0.05,
        kl_weight: tuple[float, float] = (1.0, 0.0),
        learning_rate: float = 0.01,
        batch_size: int = 500,
        n_steps: int | None = None,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.origin, self.gradient = n_bits, origin, gradient
        self.scale_spread, self.kl_weight, self.learning_rate = (
            scale_spread,
            kl_weight,
            learning_rate,
        )
        self.batch_size, self.n_steps = batch_size, n_steps
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        self._check_options()
        rng = generator_of(self.random_state)
        self.origin_ = np.zeros(vectors.shape[1], dtype=np.float32)
        if self.origin == "mean":
            self.origin_ = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        # Constant data has no length of its own.
        self.length_ = float(_lengths(vectors, self.origin_).mean()) or 1.0
        with single_threaded_blas():
            sample = self._directions(vectors[_some(len(vectors), START_ROWS, rng)])
            scaling = Scaling.of(sample, cosine=False, standardize=True)
            parameters = self._start(sample, scaling, rng)
            self._train(vectors, parameters, scaling, rng)
            rows = self._rows(vectors[_some(len(vectors), REFIT_ROWS, rng)], scaling)
            self._refit(rows, parameters)
        self._publish(parameters, scaling)

    def _check_options(self) -> None:
        check_choice(self.origin, ORIGINS, name="origin")
        check_choice(self.gradient, ESTIMATORS, name="gradient")
        for name in ("scale_spread", "learning_rate"):
            check_number(getattr(self, name), name=name, above=0)
        check_count(self.batch_size, name="batch_size")
        check_count(self.n_steps, name="n_steps", or_none=True)
        kl_line(self.kl_weight)

    def _start(self, sample: Vectors, scaling: Scaling, rng: np.random.Generator) -> Parameters:
        """Codes of rotated principal directions, equal scales, the decoder that fits them best."""
        start = make_start("itq", scaling.apply(sample), self.n_bits, coding="signed", rng=rng)
        width, n_scales = sample.shape[1], self.n_bits + 1
        variance = FIRST_VARIANCE * self.scale_spread**2
        unit = np.float32(scaling.unit)
        middle = scaling.shift + unit * start.decoder_bias
        return Parameters(
            {
                "scale_weights": np.zeros((width, n_scales)),
                "encoder_weights": start.encoder_weights,
                "encoder_bias": start.encoder_bias,
                "scale_bias": np.full(n_scales, -variance / 2),
                "log_scale_variance": np.full(n_scales, np.log(variance)),
                "decoder_weights": np.vstack([middle, unit * start.decoder_weights]),
                "decoder_bias": np.zeros(width),
                "log_noise": start.log_noise + 2 * np.log(scaling.unit),
                "prior_logits": start.prior_logits,
            }
        )

    def _train(
        self, vectors: Vectors, parameters: Parameters, scaling: Scaling, rng: np.random.Generator
    ) -> None:
        n_steps = self.n_steps or min(3000, 500 + 20 * self.n_bits)
        first, last = (float(weight) for weight in self.kl_weight)
        half = -(-n_steps // 2)
        schedule = Schedule(n_steps, "step", self.learning_rate, 0.5, half, (first, last))
        # The scales' weights are the first of the parameters.
        first_other = parameters["scale_weights"].size
        small, large = slice(first_other), slice(first_other, None)
        slow, optimizer = Adam(first_other), Adam(parameters.flat.size - first_other)
        slower = min(1.0, SCALE_STEP * self.scale_spread / vectors.shape[1])
        gradient = parameters.zeros()
        self.history_: dict[str, list[float]] = {"step": [], "objective": []}
        every, m = max(1, n_steps // 20), min(self.batch_size, len(vectors))
        for step in range(n_steps):
            rows = self._rows(vectors[rng.integers(len(vectors), size=m)], scaling)
            with np.errstate(all="ignore"):  # what leaves the finite numbers is refused below
                nats = scale_gradient(
                    parameters, rows, estimator=self.gradient, kl_weight=schedule.weight(step),
                    spread=self.scale_spread, rng=rng, out=gradient,
                )  # fmt: skip
                rate = schedule.rate(step)
                slow.update(parameters.flat[small], gradient.flat[small], rate * slower)
                optimizer.update(parameters.flat[large], gradient.flat[large], rate)
            # Data that codes describe without any error would drive the noise to zero.
            np.maximum(parameters["log_noise"], np.log(NOISE_FLOOR), out=parameters["log_noise"])
            if (step + 1) % every == 0 or step + 1 == n_steps:
                if not np.isfinite(nats) or not np.isfinite(parameters.flat).all():
                    raise Diverged(
                        f"training diverged after {step + 1} steps (learning rate "
                        f"{self.learning_rate:g}): use a smaller learning_rate"
                    )
                self.history_["step"].append(step + 1)
                self.history_["objective"].append(nats)
                self._report(step + 1, n_steps, objective=nats)

    def _refit(self, rows: Rows, parameters: Parameters) -> None:
        """Fit u_0 and U to the final codes and mean scales by least squares; the noise follows."""
        logits = rows.features @ parameters["encoder_weights"] + parameters["encoder_bias"]
        codes = with_constant(code_values(logits > 0, "signed"))
        scaled = codes * scale_moments(parameters, rows.features).mean
        inverse = 1 / rows.lengths[:, None]
        target = (rows.directions - parameters["decoder_bias"] * inverse).astype(np.float32)
        squares = LeastSquares(self.n_bits + 1, target.shape[1])
        # No bias: that is u_0's place. Adding every row with both signs leaves none to fit.
        for sign in (1, -1):
            squares.add(sign * scaled, sign * target)
        parameters["decoder_weights"][...] = squares.solve()[0]
        left = np.square(target - scaled @ parameters["decoder_weights"], dtype=np.float64).mean()
        parameters["log_noise"][...] = np.log(max(float(left), NOISE_FLOOR))

    def _publish(self, parameters: Parameters, scaling: Scaling) -> None:
        """Set the learned attributes, with encoder and scales as functions of directions."""
        for name, value in parameters.items():
            if name != "log_noise":
                setattr(self, f"{name}_", value.copy())
        self.noise_variance_ = float(np.exp(parameters["log_noise"]))
        shift = scaling.shift.astype(np.float64)
        for name in ("encoder", "scale"):
            weights = parameters[f"{name}_weights"].astype(np.float64) / scaling.unit
            bias = parameters[f"{name}_bias"] - shift @ weights
            setattr(self, f"{name}_weights_", weights.astype(np.float32))
            setattr(self, f"{name}_bias_", bias.astype(np.float32))

    def _rows(self, vectors: Vectors, scaling: Scaling) -> Rows:
        """Directions, features and lengths (in mean lengths) of raw vectors."""
        directions = self._directions(vectors)
        lengths = np.maximum(_lengths(vectors, self.origin_) / self.length_, SHORTEST)
        return Rows(directions, scaling.apply(directions), lengths.astype(np.float32))

    def _directions(self, vectors: Vectors) -> Vectors:
        """Rows (n, d) of mean square one; zero where a vector lies at the origin."""
        centred = vectors.astype(np.float64) - self.origin_
        lengths = _lengths(vectors, self.origin_)
        lengths[lengths == 0] = 1
        return (centred * (np.sqrt(centred.shape[1]) / lengths[:, None])).astype(np.float32)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return self._directions(vectors) @ self.encoder_weights_ + self.encoder_bias_ > 0

    def bit_probabilities(self, X: ArrayLike) -> Vectors:
        """Probability (n, n_bits) float32 that each bit of each row of `X` is set."""
        directions = self._directions(self._checked_rows(X))
        return sigmoid(directions @ self.encoder_weights_ + self.encoder_bias_)

    def scales(self, X: ArrayLike) -> Vectors:
        """Mean scales z (n, n_bits + 1) float32 of each row of `X`, column 0 that of u_0.

        In units of the mean length of the training vectors: rescaling a row rescales them.
        """
        vectors = self._checked_rows(X)
        found = np.empty((len(vectors), self.n_bits + 1), dtype=np.float32)
        for first, block in blocks_of(vectors, BLOCK_ROWS):
            mu = self._directions(block) @ self.scale_weights_ + self.scale_bias_
            mean = np.exp(mu + np.exp(self.log_scale_variance_) / 2)
            exact = _lengths(block, self.origin_) / self.length_
            found[first : first + len(block)] = mean * exact[:, None]
        return found

    def decode(self, codes: ArrayLike, *, scales: ArrayLike | None = None) -> Vectors:
        """Reconstruct vectors (n, d) float32 from packed codes, and from `scales` if kept."""
        check_is_fitted(self)
        bits = unpack_bits(codes, self.n_bits)
        if scales is None:
            return self._decode(bits)
        z = np.asarray(scales, dtype=np.float32)
        if z.shape != (len(bits), self.n_bits + 1):
            raise InvalidInput(
                f"scales must have shape {(len(bits), self.n_bits + 1)}, got {z.shape}: "
                "take them from the model's `scales` for the same rows"
            )
        if not (np.isfinite(z) & (z >= 0)).all():
            raise InvalidInput("scales must be finite and not negative: take them from `scales`")
        return self._decode(bits, z)

    def _decode(self, bits: NDArray[np.bool_], scales: Vectors | None = None) -> Vectors:
        codes = with_constant(code_values(bits, "signed"))
        if scales is not None:
            codes *= scales
        # Lengths are of directions with mean square one.
        unit = np.float32(self.length_ / np.sqrt(self.n_features_in_))
        return (codes @ self.decoder_weights_ + self.decoder_bias_) * unit + self.origin_

    def _checked_rows(self, X: ArrayLike) -> Vectors:
        check_is_fitted(self)
        with translate_sklearn_errors(), np.errstate(over="ignore"):
            return validate_data(self, X, reset=False, dtype=np.float32, order="C")


def _lengths(vectors: Vectors, origin: Vectors) -> NDArray[np.float64]:
    return np.sqrt(np.square(vectors.astype(np.float64) - origin).sum(axis=1))


def _some(n: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.choice(n, size=n_rows, replace=False)) if n > n_rows else np.arange(n)
