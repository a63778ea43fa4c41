"""One moment of a collection as a search sees it: its rows, and the model that made their codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sghash.collection.storage.loading import load_state
from sghash.collection.storage.manifest import Manifest, read_manifest
from sghash.collection.storage.state import State
from sghash.collection.stored_model import load_checked
from sghash.errors import BadFile, StorageError
from sghash.guards import Guard
from sghash.index import TableIndex
from sghash.models.shared.scorers import Scorer

_ATTEMPTS = 100


class Scoring(NamedTuple):
    """What makes query tables of queries, and an empty index that takes them."""

    scorer: Scorer
    like: TableIndex


class ModelHolder:
    """The model of one fingerprint: read from the folder, and checked, when first needed."""

    def __init__(self, folder: Path, manifest: Manifest, model: Any = None) -> None:
        self._folder, self._manifest = folder, manifest
        self._guard = Guard()
        self._model: Any = model
        self._scoring: Scoring | None = None

    @property
    def model(self) -> Any:
        """The model itself."""
        with self._guard.lock:
            if self._model is None:
                self._model = load_checked(self._folder, self._manifest)
            return self._model

    @property
    def scoring(self) -> Scoring:
        """How codes are scored in the metric of the collection; found out when first needed."""
        model = self.model
        with self._guard.lock:
            if self._scoring is None:
                scorer = model.scorer(self._manifest.metric)
                layout = scorer.layout
                like = TableIndex(layout.n_bytes, n_bits=layout.n_bits, gram=layout.gram)
                self._scoring = Scoring(scorer, like)
            return self._scoring

    @property
    def is_loaded(self) -> bool:
        """Whether the model was needed already."""
        return self._model is not None

    def fits(self, manifest: Manifest) -> bool:
        """Whether it is the model of this manifest too."""
        mine = self._manifest
        return (mine.fingerprint, mine.metric) == (manifest.fingerprint, manifest.metric)


class Moment(NamedTuple):
    """Rows and model that belong together; taken once for each search, and never changed."""

    state: State
    holder: ModelHolder

    def refreshed(self, folder: Path, *, in_memory: bool) -> Moment:
        """The collection as it is on the disk now.

        Whoever has searched will search again: the model is then read at once, for the next one
        may replace it before it is needed.
        """
        for _ in range(_ATTEMPTS):
            state = load_state(folder, self.state, in_memory=in_memory)
            moment = self.following(folder, state)
            try:
                if self.holder.is_loaded or in_memory:
                    moment.holder.model  # noqa: B018 - reads it
            except (StorageError, BadFile):
                if read_manifest(folder) == state.manifest:
                    raise
            else:
                return moment
        raise StorageError(f"{folder} gets new models faster than they can be read: try later")

    def following(self, folder: Path, state: State, model: Any = None) -> Moment:
        """The next moment; the model is kept where it is still the one of the codes."""
        if self.holder.fits(state.manifest):
            return Moment(state, self.holder)
        return Moment(state, ModelHolder(folder, state.manifest, model))
