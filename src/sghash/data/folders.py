"""Where data lies: the folder named by SGHASH_DATA first, then our cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Folder for downloads and ground truth: SGHASH_CACHE, or `sghash` in the user's cache."""
    named = os.environ.get("SGHASH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sghash"


def data_folders() -> list[Path]:
    """Folders to search for data sets, in order; SGHASH_DATA may name several."""
    named = os.environ.get("SGHASH_DATA", "")
    folders = [Path(part) for part in named.split(os.pathsep) if part]
    return [*folders, cache_folder() / "data"]
