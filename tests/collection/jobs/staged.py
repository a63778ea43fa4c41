"""All parts of a job, encoded and not yet committed."""

from __future__ import annotations

from sghash.collection import encode_part


def staged_for(collection, files, job="j", **options):
    return [encode_part(task) for task in collection.prepare(files, job=job, **options)]
