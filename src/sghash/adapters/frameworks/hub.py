"""Hugging Face's Hub: a model with `save_pretrained`, `from_pretrained`, `push_to_hub`, a card."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

from sghash.errors import InvalidInput
from sghash.models import load_model
from sghash.models.base import VectorModel
from sghash.optional import require

_hub = require("huggingface_hub", extra="hub")

FILES = ("config.json", "model.safetensors")
_CARD = """---
library_name: sghash
tags:
- binary-codes
- vector-search
- {name}
---

# {name}, {bits} bits

A model of the Python package `sghash` that turns vectors of {width} numbers into codes of {size}
bytes. Near vectors have near codes.

```python
from sghash.adapters.frameworks.hub import HubModel

model = HubModel.from_pretrained("{repository}").model
codes = model.encode(vectors)  # (n, {width}) float32 to (n, {size}) uint8
```

| | |
|---|---|
| class | `{name}` |
| options | {options} |
| fingerprint | `{fingerprint}` |
| written by | sghash {version} |

The files are `config.json` and `model.safetensors`: numbers and names, no pickle.
"""


class HubModel(_hub.ModelHubMixin):  # type: ignore[misc, name-defined]
    """A fitted model with the methods of the Hub; `model` is the model itself."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, VectorModel) or not model.__sklearn_is_fitted__():
            raise InvalidInput("HubModel needs a fitted model: fit it first")
        self.model = model

    def _save_pretrained(self, save_directory: Path) -> None:
        # A model is saved as a whole folder; here its files join a card and what else is there.
        with tempfile.TemporaryDirectory(dir=save_directory) as new:
            self.model.save(Path(new) / "model")
            for name in FILES:
                shutil.move(Path(new) / "model" / name, save_directory / name)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> Self:
        folder = Path(model_id)
        if not folder.is_dir():
            wanted = {"revision", "cache_dir", "force_download", "local_files_only", "token"}
            chosen = {name: options[name] for name in wanted & set(options)}
            folder = Path(_hub.snapshot_download(model_id, allow_patterns=list(FILES), **chosen))
        return cls(load_model(folder))

    def generate_model_card(self, *unused: Any, **about: Any) -> Any:
        """The page of the repository; `repo_id` is its name."""
        import sghash

        model = self.model
        options = ", ".join(
            f"`{name}={value!r}`" for name, value in sorted(model.options_to_save().items())
        )
        text = _CARD.format(
            name=type(model).__name__, bits=model.code_bits, width=model.n_features_in_,
            size=model.code_columns, options=options, fingerprint=model.fingerprint_,
            version=sghash.__version__, repository=about.get("repo_id") or "owner/name",
        )  # fmt: skip
        return _hub.ModelCard(text)
