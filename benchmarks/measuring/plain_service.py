"""A service as one would write it in an afternoon: FastAPI, and FAISS's exact binary index.

    python benchmarks/measuring/plain_service.py MODEL CODES.npy PORT

It is what `serving.py` compares with. Searches take the index as it is and need no lock; an `add`
puts a larger copy in its place.
"""

from __future__ import annotations

import sys
import threading

import faiss
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import sghash


class Query(BaseModel):
    """Vectors, or codes in hexadecimal."""

    queries: list[list[float]] | None = None
    codes: list[str] | None = None
    k: int = 10


class Vectors(BaseModel):
    """Vectors to add."""

    vectors: list[list[float]]


def make_app(model_path: str, codes_path: str) -> FastAPI:
    """The application."""
    model, codes = sghash.load_model(model_path), np.load(codes_path)
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    lock, app = threading.Lock(), FastAPI()
    app.state.index = index

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.post("/search")
    def search(query: Query) -> dict[str, list[list[int]]]:
        if query.codes is not None:
            rows = [np.frombuffer(bytes.fromhex(code), np.uint8) for code in query.codes]
            wanted = np.stack(rows)
        else:
            wanted = model.encode(np.array(query.queries, dtype=np.float32))
        distances, ids = app.state.index.search(wanted, query.k)
        return {"distances": distances.tolist(), "ids": ids.tolist()}

    @app.post("/add")
    def add(given: Vectors) -> dict[str, int]:
        new = model.encode(np.array(given.vectors, dtype=np.float32))
        with lock:
            larger = faiss.clone_binary_index(app.state.index)
            larger.add(new)
            app.state.index = larger
        return {"n_rows": larger.ntotal}

    return app


if __name__ == "__main__":
    uvicorn.run(
        make_app(sys.argv[1], sys.argv[2]), port=int(sys.argv[3]), log_level="warning",
        access_log=False,
    )  # fmt: skip
