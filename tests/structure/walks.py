"""Five walks through the package, and which of its files each enters. Prints JSON.

Run with PYTHONPATH set to the source tree that is meant. A file counts if a function of it was
entered. Each walk goes once unseen, so that neither imports nor compiling count; compiled functions
themselves leave no trace, the Python functions that call them do.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sghash

PACKAGE = os.path.dirname(sghash.__file__)


def main() -> None:
    """Walk, and count names and options on the way out."""
    facts: dict[str, Any] = {name: files_of(walk) for name, walk in _walks().items()}
    print(json.dumps({"walks": facts, "options": _options(), "names": len(sghash.__all__)}))


def files_of(walk: Callable[[], object]) -> list[str]:
    """The files of the package in which `walk` enters a function, its second time."""
    walk()
    entered: set[str] = set()

    def see(frame: FrameType, event: str, argument: object) -> None:
        # Bodies of modules and classes run once, on import: they are no functions.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            entered.add(frame.f_code.co_filename)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(os.path.relpath(file, PACKAGE) for file in entered if file.startswith(PACKAGE))


def _walks() -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((600, 32)).astype(np.float32)
    model = sghash.SGH(n_bits=16, random_state=0, n_steps=20).fit(vectors)
    codes = model.encode(vectors)
    index = sghash.HammingIndex(n_bits=16)
    index.add(codes)
    return {
        "SGH.fit": lambda: sghash.SGH(n_bits=16, random_state=0, n_steps=20).fit(vectors),
        "SGH.encode": lambda: model.encode(vectors),
        "HammingIndex.search": lambda: index.search(codes[:5], 3),
        "collection add, search": lambda: _collection(model, vectors),
        "a quick experiment": _experiment,
    }


def _collection(model: Any, vectors: Any) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        sghash.Collection.create(Path(folder) / "c", model) as collection,
    ):
        collection.add(vectors)
        collection.search(vectors[:5], 3)


def _experiment() -> None:
    from sghash.experiments import experiment
    from sghash.experiments.experiment import Context

    with tempfile.TemporaryDirectory() as folder:
        chosen = experiment("online")
        rows = chosen.run(Context(Path(folder), quick=True, seeds=1))
        chosen.verdict(rows)


def _options() -> dict[str, int]:
    """Options in the constructor of every public estimator."""
    public = {name: getattr(sghash, name) for name in sghash.__all__}
    estimators = {name: value for name, value in public.items() if hasattr(value, "get_params")}
    return {name: len(inspect.signature(cls).parameters) for name, cls in estimators.items()}


if __name__ == "__main__":
    main()
