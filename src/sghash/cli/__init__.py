"""The command `sghash`: results on stdout, progress and errors on stderr.

Exit codes stand in `frame.EXIT_CODES`; nothing is left half-written in any case.
"""

from __future__ import annotations

from sghash.cli.frame import main

__all__ = ["main"]
