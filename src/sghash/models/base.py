"""What every model shares: scikit-learn's contract, packed codes, files.

A hashing model is one file with one final class that inherits from `BinaryHasher` and implements
`_fit` and `_bits`, and `_decode` where codes can be turned back into vectors. Everything a caller
sees (validation, blocks, packing, saving) stands here once. A model whose codes are not bits
inherits from `VectorModel` and has its own `encode` and `decode`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.bits import pack_bits, unpack_bits
from sghash.blocks import VectorSource, blocks_of
from sghash.errors import BadFile, InvalidInput
from sghash.models.capabilities import Capabilities, onnx_of
from sghash.models.inputs import (
    BLOCK_ROWS as BLOCK_ROWS,
    check_block,
    check_is_fitted,
    is_plain,
    is_source,
    one_vector_as_table,
    refuse_huge,
    refuse_one_vector,
    sample_rows,
    translate_sklearn_errors,
    validate_data,
)
from sghash.models.late_estimator import (
    LateEstimator,
    estimators_if_loaded,
    made_by_hand,
    options_of,
    refuse_unknown_options,
)
from sghash.models.shared.feature_names import output_names
from sghash.models.shared.scorers import Scorer, linear_scorer
from sghash.models.shared.seeds import generator_of
from sghash.models.store import fingerprint_of, save_model
from sghash.progress import Bar
from sghash.tables import CodeLayout, QueryTables
from sghash.validation import (
    METRICS,
    Codes,
    Vectors,
    check_callback,
    check_choice,
    check_count,
    check_n_bits,
    check_vectors,
    n_bytes_of,
)

# Models that must hold their training data take at most this much of a source beyond memory.
MAX_TRAINING_BYTES = 1 << 30


class Progress(NamedTuple):
    """What a `callback` receives: `step` of `total` done, and named measurements."""

    step: int
    total: int
    values: dict[str, float]


#: A function of `Progress`, or the word "bar" for a progress bar.
Callback = Callable[[Progress], None] | Literal["bar"]


if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils import Tags

    class _Estimator(TransformerMixin, BaseEstimator): ...
else:
    _Estimator = LateEstimator


class VectorModel(_Estimator, ABC):
    """Abstract: a model that learns from vectors (n, d), whatever kind of code it makes of them."""

    #: What callers may use of the model; a property where it depends on options.
    capabilities: ClassVar[Capabilities] = Capabilities()
    #: Class methods that return a model with other options than by default.
    presets: ClassVar[tuple[str, ...]] = ()
    #: Options that not every model has; None where there is none.
    metric: str | None = None
    callback: Callback | None = None
    random_state: Any = None
    #: Learned attributes that `save` writes; arrays and plain numbers, in the order of the class.
    learned_names: ClassVar[tuple[str, ...]] = ()
    #: Further ones, which only some options ask for.
    optional_names: ClassVar[tuple[str, ...]] = ()
    #: Options beside the length of a code that fix their shapes: another value asks for a fit.
    shape_options: ClassVar[tuple[str, ...]] = ()
    #: `fit` learns from a random sample of so many rows, if there are more.
    most_rows: ClassVar[int | None] = None
    #: Attributes that `save` writes for information: no part of the fingerprint.
    recorded_names: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Refuse options that the model has not, before it is made."""
        refuse_unknown_options(cls, options)
        made_by_hand(cls)
        return super().__new__(cls)

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        """Learn from finite vectors (n, d) float32 and set the attributes named in `learned_names`.

        For models that have no `fit` of their own.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither `fit` nor `_fit`")

    @abstractmethod
    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> NDArray[Any]:
        """Turn each row of `X` (n, d) into one code; `sweeps` for models that can sharpen it."""

    @abstractmethod
    def decode(self, codes: ArrayLike) -> Vectors:
        """Reconstruct vectors (n, d) float32 from codes."""

    def fit(self, X: ArrayLike | VectorSource, y: ArrayLike | None = None) -> Self:
        """Learn the code from vectors `X` (n, d): an array, a memory map or a `VectorSource`."""
        check_callback(self.callback)
        with self._unchanged_on_failure():
            self._fit(self._training_vectors(X), y)
        return self

    def rows_learned(self, n: int) -> int:
        """Of n vectors, from how many a model with these options learns; once it is fitted."""
        most = (options_of(self).get("sample"), self.most_rows)
        held = MAX_TRAINING_BYTES // (4 * int(self.n_features_in_))
        return min(n, max(1, held), *(rows for rows in most if rows is not None))

    @property
    def code_bits(self) -> int:
        """Length of a code in bits, whatever the codes are."""
        length = self.capabilities.length
        return int(getattr(self, length.option)) * length.bits_per_unit

    @property
    def code_columns(self) -> int:
        """Columns of an array of codes: bytes, or numbers."""
        n_bits = self.code_bits
        return n_bits // 32 if self.capabilities.codes == "numbers" else n_bytes_of(n_bits)

    def scorer(self, metric: str | None = None) -> Scorer:
        """Return what makes query tables in one metric; None is the model's own, or "l2".

        Whoever asks often keeps it: it does not change with the model.
        """
        bits = self.capabilities.codes == "bits"
        remedy = "search its codes by Hamming distance, or use" if bits else "use"
        raise InvalidInput(
            f"{type(self).__name__} has no query tables: {remedy} SGH, ITQ or a quantizer"
        )

    def query_tables(self, queries: ArrayLike, *, metric: str | None = None) -> QueryTables:
        """Tables that score real queries (n, d) against codes; smaller is nearer.

        For `TableIndex.search`, over the codes of the same model and metric. For "cosine", what
        codes stand for counts as of unit length: fit with that metric, or on unit vectors.
        """
        check_is_fitted(self)
        rows = check_vectors(queries, width=self.n_features_in_, name="queries")
        return self.scorer(metric).query_tables(rows)

    def code_layout(self, metric: str | None = None) -> CodeLayout:
        """What a `TableIndex` must know of the codes; `metric` is that of the query tables."""
        return self.scorer(metric).layout

    def _metric(self, metric: str | None) -> str:
        """The metric asked for, or else the model's own, or "l2"."""
        check_is_fitted(self)
        return check_choice(metric or self.metric or "l2", METRICS, name="metric")

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of what the model learned: equal fingerprints give equal codes."""
        check_is_fitted(self)
        return fingerprint_of(self)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to `folder` as `config.json` and `model.safetensors`."""
        check_is_fitted(self)
        save_model(self, Path(folder), overwrite=overwrite)

    def to_onnx(self, path: str | Path | None = None) -> Any:
        """Return the encoder as an ONNX `ModelProto`, and write it to `path` if given."""
        return onnx_of(self, path)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model of this class from `folder`; `sghash.load_model` reads any class."""
        from sghash.models import load_model

        model = load_model(folder)
        if not isinstance(model, cls):
            raise InvalidInput(
                f"{folder} holds a model of class {type(model).__name__}, not {cls.__name__}: "
                "use sghash.load_model"
            )
        return model

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Learned attributes of a model with these options: what `save` writes."""
        return self.learned_names

    def options_to_save(self) -> dict[str, Any]:
        """Options by name, as `save` writes those that JSON can hold."""
        options: dict[str, Any] = self.get_params(deep=False)
        return options

    @classmethod
    def from_saved_options(cls, options: Mapping[str, Any]) -> Self:
        """Return an unfitted model; `TypeError` for options that no version has written."""
        return cls(**options)

    def try_out(self) -> None:
        """Raise `BadFile` if codes of three rows, or what they stand for, have other shapes."""
        width = int(self.n_features_in_)
        codes = np.zeros((3, self.code_columns), dtype=np.uint8)
        if self.capabilities.codes == "numbers":
            codes = self.encode(_trial_rows(width))
        # Encoders of bytes would have to be compiled first; their arrays are known to fit.
        with np.errstate(all="ignore"):
            _expect_shape("decode", self.decode(codes), (3, width))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        fixed: dict[str, Any] = getattr(self, "_options_at_fit", {})
        if any(getattr(self, option) != value for option, value in fixed.items()):
            return False  # the arrays and the options would contradict each other
        return hasattr(self, "n_features_in_") and all(hasattr(self, a) for a in self.stored_names)

    def remember_shapes(self) -> None:
        """Keep the options that fix shapes: a model that is given others of them is not fitted."""
        options = (self.capabilities.length.option, *self.shape_options)
        self._options_at_fit = {option: getattr(self, option) for option in options}

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Put every attribute back if learning fails or is interrupted half-way."""
        before = dict(vars(self))
        bar = Bar(f"fitting {type(self).__name__}", "step")
        try:
            if isinstance(self.callback, str):
                self._bar = bar
            yield
            self.remember_shapes()
        except BaseException:
            self.__dict__ = before
            raise
        finally:
            bar.close()
            self.__dict__.pop("_bar", None)

    def _training_vectors(self, X: ArrayLike | VectorSource) -> Vectors:
        """All of an array; of a source beyond memory, a random sample of rows that fits."""
        if not is_source(X):
            with translate_sklearn_errors():
                return refuse_huge(validate_data(self, X, dtype=np.float32, order="C"))
        n, width = X.shape
        n_rows = min(n, max(1, MAX_TRAINING_BYTES // (4 * max(1, width))))
        sample = sample_rows(X, n_rows, generator_of(self.random_state))
        with translate_sklearn_errors():
            return refuse_huge(validate_data(self, sample, dtype=np.float32, order="C"))

    def _vectors_to_read(self, X: ArrayLike | VectorSource) -> VectorSource | NDArray[Any]:
        """Check the width; numbers are checked and converted block by block.

        A single vector (d,) is a table of one row.
        """
        check_is_fitted(self)
        if not is_source(X):
            X = one_vector_as_table(X)
            if is_plain(X) and X.shape[1] == self.n_features_in_ and not self._names_columns():
                return X
            with translate_sklearn_errors():
                return validate_data(self, X, reset=False, dtype="numeric", ensure_all_finite=False)
        if X.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"the vectors have {X.shape[1]} columns, the model was fitted on "
                f"{self.n_features_in_}: use vectors of the same kind"
            )
        return X

    def _checked(self, block: NDArray[Any]) -> Vectors:
        return check_block(self, block)

    def _names_columns(self) -> bool:
        """Whether the model was fitted on a table with named columns, which must come again."""
        return hasattr(self, "feature_names_in_")

    def _check_sweeps(self, sweeps: int) -> None:
        """Refuse `sweeps` that are no count, or of a model that cannot make any."""
        check_count(sweeps, name="sweeps", least=0)
        if sweeps and not self.capabilities.sharpens:
            raise InvalidInput(
                f"{type(self).__name__} cannot sharpen its codes: leave sweeps out, or use SGH"
            )

    def _report(self, step: int, total: int, **values: float) -> None:
        """Tell the caller's `callback`, if the model has one, how far training is."""
        bar: Bar | None = getattr(self, "_bar", None)
        if bar is not None:
            bar(step, total, values)
        elif callable(self.callback):
            self.callback(Progress(step, total, values))


estimators_if_loaded(VectorModel)


class BinaryHasher(VectorModel):
    """Abstract: a model that turns vectors (n, d) into codes of `n_bits` bits."""

    n_bits: int

    @abstractmethod
    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        """Bits (n, n_bits) of vectors (n, d) float32; a fitted model, checked input."""

    def try_out(self) -> None:
        """Raise `BadFile` if bits of three rows, or what bits stand for, have other shapes."""
        width = int(self.n_features_in_)
        with np.errstate(all="ignore"):
            _expect_shape("encode", self._bits(_trial_rows(width)), (3, self.n_bits))
            if self.capabilities.decodes:
                bits = np.repeat(np.array([[False], [True]]), self.n_bits, axis=1)
                _expect_shape("decode", self._decode(bits), (2, width))

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        """Vectors (n, d) for bits (n, n_bits); only for models that can."""
        raise InvalidInput(
            f"{type(self).__name__} has no decoder: use SGH, ITQ or another model that has one"
        )

    def scorer(self, metric: str | None = None) -> Scorer:
        """Return what makes query tables in one metric; None is the model's own, or "l2"."""
        chosen = self._metric(metric)
        return linear_scorer(self, chosen) if self.capabilities.tables else super().scorer(metric)

    def fit(self, X: ArrayLike | VectorSource, y: ArrayLike | None = None) -> Self:
        """Learn the code from vectors `X` (n, d): an array, a memory map or a `VectorSource`."""
        check_n_bits(self.n_bits)
        return super().fit(X, y)

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Codes:
        """Hash each row of `X` (n, d) to a packed code (n, ceil(n_bits / 8)) uint8.

        `sweeps` is for models that can sharpen a code, and else refused.
        """
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        codes = np.empty((source.shape[0], n_bytes_of(self.n_bits)), dtype=np.uint8)
        for first, block in blocks_of(source, BLOCK_ROWS):
            codes[first : first + len(block)] = pack_bits(self._bits(self._checked(block)))
        return codes

    def transform(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Hash each row of `X` (n, d) to unpacked bits (n, n_bits) bool."""
        refuse_one_vector(X)
        return unpack_bits(self.encode(X), self.n_bits)

    def decode(self, codes: ArrayLike) -> Vectors:
        """Reconstruct vectors (n, d) float32 from packed codes."""
        check_is_fitted(self)
        return self._decode(unpack_bits(codes, self.n_bits))

    def inverse_transform(self, X: ArrayLike) -> Vectors:
        """Reconstruct vectors (n, d) float32 from unpacked bits `X` (n, n_bits)."""
        check_is_fitted(self)
        return self.decode(pack_bits(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "bit0", "bit1", ..."""
        return output_names(self, input_features, "bit", self.n_bits)


def _trial_rows(width: int) -> Vectors:
    return np.repeat(np.array([[0.0], [0.5], [1.0]], dtype=np.float32), width, axis=1)


def _expect_shape(verb: str, found: NDArray[Any], shape: tuple[int, int]) -> None:
    if found.shape != shape:
        raise BadFile(f"{verb} gives shape {found.shape} for {shape}")
