from __future__ import annotations

import sys
from pathlib import Path

# Benchmarks are scripts: what they share stands beside them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
