"""Counters of a server, in the text format of Prometheus."""

from __future__ import annotations

import resource
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from sghash.collection import Collection

#: Upper ends of the classes of seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


class Metrics:
    """What happened since the start; changed in the event loop alone."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.body_bytes = 0
        self.batches = 0
        self.gathered = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._classes: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self._started = time.time()

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._requests[verb, status] += 1
        classes = self._classes.get(verb)
        if classes is None:
            classes = self._classes[verb] = [0] * (len(SECONDS) + 1)
        classes[bisect_left(SECONDS, seconds)] += 1
        self._sums[verb] += seconds  # type: ignore[assignment]

    def text(self, collections: Mapping[str, Collection]) -> str:
        """All of it, as Prometheus reads it."""
        lines: list[str] = []
        _add(lines, "sghash_requests_total", "counter", "Requests that were answered.", {
            f'verb="{verb}",status="{status}"': count
            for (verb, status), count in sorted(self._requests.items())
        })  # fmt: skip
        lines += self._histogram()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        scale = 1 if sys.platform == "darwin" else 1024
        for name, kind, about, value in (
            ("sghash_requests_in_flight", "gauge", "Requests under way.", self.in_flight),
            ("sghash_body_bytes", "gauge", "Bytes of bodies that are held.", self.body_bytes),
            ("sghash_batches_total", "counter", "Calls for gathered queries.", self.batches),
            ("sghash_gathered_total", "counter", "Queries answered by them.", self.gathered),
            ("process_start_time_seconds", "gauge", "When it started.", self._started),
            ("process_cpu_seconds_total", "counter", "Processor time.",
             usage.ru_utime + usage.ru_stime),
            ("process_max_resident_memory_bytes", "gauge", "Most memory so far.",
             usage.ru_maxrss * scale),
        ):  # fmt: skip
            _add(lines, name, kind, about, {"": value})
        _add(lines, "sghash_rows", "gauge", "Rows of a collection.", {
            f'collection="{_label(name)}"': len(collection)
            for name, collection in collections.items()
        })  # fmt: skip
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "sghash_request_seconds"
        lines = [
            f"# HELP {name} Seconds from the request to its answer.",
            f"# TYPE {name} histogram",
        ]
        for verb, classes in sorted(self._classes.items()):
            total = 0
            for end, count in zip([*map(str, SECONDS), "+Inf"], classes, strict=True):
                total += count
                lines.append(f'{name}_bucket{{verb="{verb}",le="{end}"}} {total}')
            lines.append(f'{name}_sum{{verb="{verb}"}} {self._sums[verb]:.6f}')
            lines.append(f'{name}_count{{verb="{verb}"}} {total}')
        return lines


def _add(lines: list[str], name: str, kind: str, about: str, values: Mapping[str, float]) -> None:
    lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in values.items():
        lines.append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
