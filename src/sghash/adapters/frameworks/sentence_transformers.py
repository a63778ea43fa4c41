"""sentence-transformers: a module behind its own, by which `encode` gives our codes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from sghash.errors import InvalidInput
from sghash.models import load_model
from sghash.models.base import VectorModel
from sghash.optional import require

_modules = require(
    "sentence_transformers.sentence_transformer.modules", extra="sentence-transformers"
)
_torch = require("torch", extra="sentence-transformers")

EMBEDDING = "sentence_embedding"


class BinaryCodes(_modules.Module):  # type: ignore[misc, name-defined]
    """The last module of a `SentenceTransformer`: embeddings become packed codes, uint8.

    `SentenceTransformer(modules=[..., BinaryCodes(model)]).encode(texts)` is equal to
    `model.encode` of the embeddings. It is saved and loaded with the other modules.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        if not isinstance(model, VectorModel) or not model.__sklearn_is_fitted__():
            raise InvalidInput("BinaryCodes needs a fitted model: fit it on embeddings first")
        self.codes_of = model

    def forward(self, features: dict[str, Any], **unused: Any) -> dict[str, Any]:
        """Replace the embeddings (n, d) by their codes (n, n_bytes)."""
        embeddings = features[EMBEDDING]
        vectors = embeddings.detach().to("cpu", _torch.float32).numpy()
        codes = np.ascontiguousarray(self.codes_of.encode(vectors))
        features[EMBEDDING] = _torch.from_numpy(codes).to(embeddings.device)
        return features

    def get_sentence_embedding_dimension(self) -> int:
        """Bytes of a code."""
        return int(self.codes_of.code_columns)

    def get_embedding_dimension(self) -> int:
        """Bytes of a code."""
        return int(self.codes_of.code_columns)

    def save(self, output_path: str, *unused: Any, **options: Any) -> None:
        """Write the model of the codes to a folder; no pickle."""
        self.codes_of.save(Path(output_path), overwrite=True)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Self:
        """Read what `save` has written, from a folder or a repository of the Hub."""
        folder = Path(os.fspath(model_name_or_path), subfolder)
        if not folder.is_dir():
            wanted = {"token", "cache_folder", "revision", "local_files_only"} & set(options)
            chosen = {name: options[name] for name in wanted}
            found = cls.load_dir_path(model_name_or_path, subfolder=subfolder, **chosen)
            folder = Path(found)
        return cls(load_model(folder))
