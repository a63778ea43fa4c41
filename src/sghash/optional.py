"""Optional packages: imported when first needed, refused with the remedy."""

from __future__ import annotations

import importlib
from types import ModuleType

from sghash.errors import MissingExtra


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say which extra of sghash brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"this needs the package {module.split('.')[0]!r}, which is not installed: "
            f"pip install 'sghash[{extra}]'"
        ) from error
