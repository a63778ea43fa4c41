"""One self-contained page: figures inside, tables, definitions, verdicts; and its Markdown twin."""

from __future__ import annotations

from sghash.report.page import VERDICTS, Page, save_picture

__all__ = ["VERDICTS", "Page", "save_picture"]
