"""Optional packages: imported when first needed, refused with the remedy."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from types import ModuleType
from urllib.parse import unquote, urlsplit

from sghash.errors import MissingExtra


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say which extra of sghash brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"this needs the package {module.split('.')[0]!r}, which is not installed: "
            f"{install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """The command that installs an extra from where sghash itself came: a folder, or a registry."""
    try:
        found = importlib.metadata.distribution("sghash").read_text("direct_url.json")
        about = json.loads(found or "{}")
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        about = {}
    address = urlsplit(str(about.get("url", "")))
    if address.scheme != "file" or not isinstance(about.get("dir_info"), dict):
        return f"pip install 'sghash[{extra}]'"
    editable = "-e " if about["dir_info"].get("editable") else ""
    return f"pip install {editable}'{unquote(address.path)}[{extra}]'"
