"""The command `sghash`: results on stdout, progress and errors on stderr.

Exit codes: 0 done, 1 the work failed (one sentence says why), 2 the command line is wrong,
130 interrupted; nothing is left half-written in any case.
"""

from __future__ import annotations

from sghash.cli.frame import main

__all__ = ["main"]
