"""The demonstration: what the package does, shown on data that is always there.

`sets` says on what, `story` does it and holds all numbers, `text`, `figures` and `page` show them.
"""

from __future__ import annotations
