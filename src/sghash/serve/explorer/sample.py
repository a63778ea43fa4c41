"""A sample of a collection's rows in memory: what the map, the bits and an export are made of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import pack_bits, unpack_bits
from sghash.collection import Collection
from sghash.collection.records import Records, read_records, text_bytes
from sghash.collection.storage.state import State
from sghash.collection.where.choice import live_ids
from sghash.errors import InvalidInput
from sghash.serve.explorer.looks import Colouring, Looks, colourings, looks_of
from sghash.validation import Codes, Ids, Vectors, check_vectors

#: Points that a map draws smoothly.
MOST_POINTS = 50_000
_BLOCK = 4096
# Vectors of a sample are so many numbers at most, and its texts so many bytes: of long ones there
# are fewer rows.
_MOST_NUMBERS = 64_000_000
_MOST_TEXT = 512 << 20


class Sample:
    """Rows drawn from one `moment` of a collection, rising by id, with all that is stored there.

    `vectors` (n, d) may be given where the collection keeps none: those of `collection.ids`.
    """

    def __init__(
        self, collection: Collection, *, most: int = MOST_POINTS, vectors: Any = None
    ) -> None:
        self.moment = moment = collection.moment
        state, manifest = moment.state, moment.state.manifest
        ids = live_ids(state.views)
        self.n_all = len(ids)
        self.model = moment.holder.model
        most = max(1, min(most, _MOST_NUMBERS // int(self.model.n_features_in_)))
        chosen, rng = np.arange(len(ids)), np.random.default_rng(0)
        if len(ids) > most:
            chosen = np.sort(rng.choice(len(ids), most, replace=False))
        sizes = text_bytes(state, ids[chosen], with_metadata=True)
        if sizes.sum() > _MOST_TEXT:
            order = rng.permutation(len(chosen))
            n_fitting = np.searchsorted(np.cumsum(sizes[order]), _MOST_TEXT, side="right")
            chosen = np.sort(chosen[order[: max(1, n_fitting)]])
        self.ids: Ids = ids[chosen]
        self.n_bits, self.metric = manifest.n_bits, manifest.metric
        parts = list(_records(state, self.ids, self.model))
        self.keys = [key for part in parts for key in part.keys]
        self.codes: Codes = np.concatenate([part.codes for part in parts])
        names = sorted({name for part in parts for name in part.metadata})
        self.metadata = {name: [v for p in parts for v in p.metadata[name]] for name in names}
        kept = [part.vectors for part in parts if part.vectors is not None]
        self.vectors: Vectors | None = None
        if vectors is not None:
            given = check_vectors(vectors, width=int(self.model.n_features_in_))
            if len(given) != len(ids):
                raise InvalidInput(f"{len(given)} vectors came for {len(ids)} rows: give all")
            self.vectors = given[chosen]
        elif kept:
            self.vectors = np.concatenate(kept).astype(np.float32)
        self.roles = dict(manifest.roles)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_bits(self) -> bool:
        """Whether codes are bits that each mean something; else they are bytes of a quantizer."""
        return bool(self.model.capabilities.codes == "bits")

    @cached_property
    def bits(self) -> NDArray[np.bool_]:
        """The codes, unpacked."""
        return unpack_bits(self.codes, self.n_bits)

    @cached_property
    def looks(self) -> Looks:
        """Which columns are what."""
        return looks_of(self.roles, self.metadata)

    @cached_property
    def colourings(self) -> list[Colouring]:
        """What a map can be coloured by."""
        return colourings(self.metadata, self.looks)

    @cached_property
    def decoder(self) -> Decoder | None:
        """The decoder taken apart, where the model has one that is linear in the bits."""
        return linear_decoder(self.model) if self.is_bits else None

    @cached_property
    def brightness(self) -> tuple[float, float]:
        """Numbers that are drawn black and white where vectors are pictures."""
        vectors = self.vectors if self.vectors is not None else self._some_decoded()
        if not vectors.size:
            return 0.0, 1.0
        low, high = float(vectors.min()), float(vectors.max())
        if self.vectors is None:
            # A decoder overshoots: pictures of it would be grey between two extremes.
            low, high = map(float, np.percentile(vectors, (2, 98)))
        return (low, high) if high > low else (low, low + 1.0)

    def _some_decoded(self) -> Vectors:
        if not self.model.capabilities.decodes:
            return np.empty((0, 0), np.float32)
        return np.asarray(self.model.decode(self.codes[:500]), dtype=np.float32)


class Decoder:
    """A decoder x(h) = `origin` + h @ `directions` (n_bits, d), both float32."""

    def __init__(self, origin: Vectors, directions: Vectors) -> None:
        self.origin, self.directions = origin, directions

    def squares(self, bits: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Squared length of h @ directions for each row of bits: a code's own term in L2."""
        gram = self.directions.astype(np.float64) @ self.directions.T.astype(np.float64)
        h = bits.astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", h @ gram, h), dtype=np.float32)


def linear_decoder(model: Any) -> Decoder | None:
    """Ask a decoder for its parts; None where there is none, or it is not linear in the bits."""
    if not model.capabilities.tables:
        return None
    n_bits = model.n_bits
    bits = np.vstack([np.zeros(n_bits, dtype=np.bool_), np.eye(n_bits, dtype=np.bool_)])
    decoded = np.asarray(model.decode(pack_bits(bits)), dtype=np.float64)
    origin, directions = decoded[0], decoded[1:] - decoded[0]
    trial = np.random.default_rng(0).random((8, n_bits)) < 0.5
    expected = np.asarray(model.decode(pack_bits(trial)), dtype=np.float64)
    error = np.abs(expected - (origin + trial @ directions)).max()
    if error > 1e-3 * (np.abs(expected).max() + 1e-30):
        return None
    return Decoder(origin.astype(np.float32), directions.astype(np.float32))


def _records(state: State, ids: Ids, model: Any) -> Iterator[Records]:
    """What is stored, block by block, without the reconstructions, which would fill the memory."""
    for first in range(0, max(1, len(ids)), _BLOCK):
        found = read_records(state, ids[first : first + _BLOCK], model)
        yield found._replace(reconstructions=None)
