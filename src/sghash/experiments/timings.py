"""How long a fit takes, and how long until its error is as low as another method's."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.evaluation import metrics
from sghash.experiments.claims.reconstruction import by_rotation
from sghash.experiments.experiment import Values
from sghash.models.base import Progress, VectorModel
from sghash.validation import Vectors

#: Training rows on which errors are compared.
JUDGED_ROWS = 20_000
REPORTS = 100


def timed_fit(model: VectorModel, rows: NDArray[Any]) -> Values:
    """Wall and processor seconds of one fit."""
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(rows)
    return {
        "train_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def error_rows(rows: NDArray[Any]) -> Vectors:
    """About `JUDGED_ROWS` of the training rows, evenly spread, float32."""
    return rows[:: max(1, len(rows) // JUDGED_ROWS)].astype(np.float32)


def errors_of(model: Any, rows: NDArray[Any]) -> Values:
    """Squared error of a fitted ITQ on training rows, by both of its decoders.

    "own" is its rotation at the best single scale, "fitted" the least-squares map of `ITQ.decode`.
    """
    judged = error_rows(rows)
    decoded = model.decode(model.encode(judged))
    return {
        "own_error": metrics.reconstruction_error(judged, by_rotation(model, judged)),
        "fitted_error": metrics.reconstruction_error(judged, decoded),
    }


def watched_fit(model: VectorModel, rows: NDArray[Any], n_steps: int) -> Values:
    """Processor seconds and error at `REPORTS` moments of a fit that ends at its last step.

    Reports are about rows of the model's own choice: they are scaled by what the final model's
    error on the common training rows is to its last report, so that the rows make no difference.
    The time that reports take is counted.
    """
    every = max(1, n_steps // REPORTS)
    seconds: list[float] = []
    errors: list[float] = []

    def listen(report: Progress) -> None:
        seconds.append(time.process_time() - start)
        errors.append(report.values["reconstruction_error"])

    model.set_params(callback=listen, recipe__report_every=every)
    start = time.process_time()
    model.fit(rows)
    judged = error_rows(rows)
    last = metrics.reconstruction_error(judged, model.decode(model.encode(judged)))
    factor = last / errors[-1]
    return {"cpu_seen": seconds, "error_seen": [factor * error for error in errors]}


def time_to(seconds: Sequence[float], errors: Sequence[float], bound: float) -> float:
    """The first of `seconds` at which the error is at most `bound`; infinity if it never is."""
    reached = (at for at, error in zip(seconds, errors, strict=True) if error <= bound)
    return next(reached, math.inf)
