"""What the page says of a collection before it is asked anything."""

from __future__ import annotations

from typing import Any

from sghash.serve.explorer.sample import Sample
from sghash.validation import n_bytes_of


def about(name: str, sample: Sample) -> dict[str, Any]:
    """Sizes, names and abilities; `measures` are the ways to compare that it has."""
    capabilities = sample.model.capabilities
    measures = []
    if sample.is_bits:
        measures.append("hamming")
    if capabilities.tables:
        measures.append("decoder")
    if sample.vectors is not None:
        measures.append("vectors")
    looks = sample.looks
    return {
        "name": name,
        "n": sample.n_all,
        "n_sample": len(sample),
        "n_bits": sample.n_bits,
        "n_bytes": n_bytes_of(sample.n_bits),
        "width": int(sample.model.n_features_in_),
        "metric": sample.metric,
        "model": type(sample.model).__name__,
        "is_bits": sample.is_bits,
        "decodes": bool(capabilities.decodes),
        "measures": measures,
        "kept": sample.moment.state.manifest.keep_vectors,
        "picture": None if looks.picture is None else list(looks.picture),
        "brightness": list(sample.brightness),
        "text": looks.text,
        "label": looks.label,
        "image": looks.image,
    }
