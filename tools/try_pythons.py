"""Install the built wheel into a fresh environment of each Python that is found, and use it.

    python tools/try_pythons.py dist                # 3.11 3.12 3.13
    python tools/try_pythons.py dist 3.13

Interpreters are looked for as `python3.13` on PATH, in pyenv and in uv, without installing any. One
that is not found is named and passed over; one that fails ends the run with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
#: A newcomer's first minute: fit, encode, search, decode, a collection, the shell.
PROGRAM = """
import importlib.metadata, pathlib, subprocess, sys
import sghash
assert sghash.__version__ == importlib.metadata.version("sghash")
assert "site-packages" in sghash.__file__, sghash.__file__
assert (pathlib.Path(sghash.__file__).parent / "py.typed").exists()
data = sghash.load_dataset("sentences")
model = sghash.SGH(64, metric="cosine", random_state=0, n_steps=100).fit(data.base)
index = sghash.HammingIndex(64)
index.add(model.encode(data.base))
codes = model.encode(data.queries)
found = index.search(codes, 10)
assert found.ids.shape == (200, 10) and model.decode(codes).shape == data.queries.shape
with sghash.Collection.create("notes", model, keep_vectors="float16") as notes:
    notes.add(data.base)
    truth = sghash.ground_truth(data.base, data.queries, 10, metric="cosine").ids
    ids = notes.search(data.queries, 10, rerank="vectors", shortlist=1000).ids
share = sum(len(set(a) & set(b)) for a, b in zip(ids.tolist(), truth.tolist())) / truth.size
assert share > 0.9, share
subprocess.run([sys.executable, "-m", "sghash", "info", "notes"], check=True, capture_output=True)
print(f"sghash {sghash.__version__} works: recall {share:.2f} of ten neighbours of sentences")
"""


def found(name: str) -> str | None:
    """The interpreter of this version, or None: on PATH, in pyenv, in uv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{name}"), *sorted(pyenv.glob(f"{name}.*/bin/python"))]
    if uv := shutil.which("uv"):
        command = [uv, "python", "find", "--offline", name]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        places.append(told.stdout.strip() or None)
    return next((str(place) for place in places if place and _is(str(place), name)), None)


def _is(python: str, name: str) -> bool:
    ask = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return told.returncode == 0 and told.stdout.strip() == name


def tried(python: str, wheel: Path) -> str:
    """Install the wheel and run the program; returns what it says, or raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        fresh = f"{folder}/venv/{'Scripts' if os.name == 'nt' else 'bin'}/python"
        command = [fresh, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "-c", ROOT / "constraints.txt", wheel], check=True)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [fresh, "-c", PROGRAM], cwd=folder, env=environment, check=True, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
    return done.stdout.strip()


def main(folder: str, *names: str) -> int:
    """Try each version; returns how many have failed."""
    (wheel,) = Path(folder).resolve().glob("sghash-*.whl")
    failed = 0
    for name in names or PYTHONS:
        python = found(name)
        if python is None:
            print(f"Python {name}: not found on this machine, not tried", flush=True)
            continue
        try:
            print(f"Python {name} ({python}): {tried(python, wheel)}", flush=True)
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"Python {name} ({python}): FAILED, {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
