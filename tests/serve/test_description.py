"""Requests made up from the description of the interface: no fault, nothing undocumented.

Needs schemathesis, which brings many packages: `make browser`, then `make test-all`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Vectors must have the width of the collection, which a schema cannot say for all of them.
BEYOND_SCHEMAS = "positive_data_acceptance"


@pytest.mark.slow
def test_no_request_that_can_be_made_up_is_answered_by_a_fault(start, tmp_path):
    program = Path(sys.executable).with_name("st")
    if shutil.which(program) is None:
        pytest.skip("schemathesis is not here: `make browser` brings it")
    server = start(writable=True)
    done = subprocess.run(
        [program, "run", f"{server.address}/openapi.json", "--max-examples", "60",
         "--generation-deterministic", "--exclude-checks", BEYOND_SCHEMAS, "--no-color"],
        capture_output=True, text=True, timeout=1500, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert '"status": 500' not in server.log.getvalue()
