"""Look into a built wheel and sdist: what must be there is, what must not is not, and how large.

python tools/check_dist.py dist
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Bytes; today 2.3 and 7.2 million: 1.2 are the sentences that ship, and the source has the rows of
#: the results, which keep what each query found.
MOST = {"wheel": 3_500_000, "sdist": 9_000_000}
NEEDED = {
    "wheel": (
        "sghash/__init__.py", "sghash/py.typed", "sghash/cli/__init__.py",
        "sghash/data/shipped/sentences.npz", "sghash/serve/page/index.html",
    ),
    "sdist": (
        "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "SECURITY.md",
        "Makefile", "constraints.txt", "src/sghash/py.typed", "tests/conftest.py", "mkdocs.yml",
        "integrations/ann_benchmarks/sghash/module.py",
    ),
}  # fmt: skip
#: Compiled caches, leftovers of tools and of runs: in neither.
NEVER = re.compile(
    r"(^|/)(__pycache__|\.venv|\.git|build|dist|site|\.\w+_cache|\.hypothesis)(/|$)"
    r"|\.(pyc|nbi|nbc|so|pkl|orig|rej)$"
)


def version() -> str:
    """The version of this checkout, read without importing it."""
    text = (ROOT / "src" / "sghash" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, flags=re.MULTILINE)
    if found is None:
        raise ValueError("src/sghash/__init__.py names no version")
    return found.group(1)


def in_wheel(path: Path) -> dict[str, int]:
    """File -> bytes of a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: info.file_size for info in archive.infolist()}


def in_sdist(path: Path) -> dict[str, int]:
    """File -> bytes of an sdist, without the folder that all stand in."""
    with tarfile.open(path) as archive:
        return {m.name.partition("/")[2]: m.size for m in archive.getmembers() if m.isfile()}


def complaints(kind: str, files: dict[str, int], size: int) -> list[str]:
    """What is wrong with an archive, a sentence each."""
    wrong = [f"{name} is missing" for name in NEEDED[kind] if name not in files]
    wrong += [f"{name} does not belong there" for name in files if NEVER.search(name)]
    if kind == "wheel":
        own = re.compile(r"sghash/|sghash-[^/]+\.dist-info/")
        wrong += [f"{name} is outside of the package" for name in files if not own.match(name)]
    if size > MOST[kind]:
        wrong.append(f"it has {size:,} bytes, more than {MOST[kind]:,}")
    return wrong


def metadata_complaints(path: Path) -> list[str]:
    """What is wrong with the description of a wheel."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(name).decode())
    expected = {"Name": "sghash", "Version": version(), "Requires-Python": ">=3.11"}
    wrong = [
        f"{field} is {about[field]!r}, not {value!r}"
        for field, value in expected.items()
        if about[field] != value
    ]
    return wrong if about.get_payload() else [*wrong, "it has no description"]


def main(folder: str) -> int:
    """Print what each archive holds and what is wrong with it; returns how much that is."""
    count = 0
    for kind, pattern in (("wheel", "sghash-*.whl"), ("sdist", "sghash-*.tar.gz")):
        (path,) = Path(folder).glob(pattern)
        size = path.stat().st_size
        files = in_wheel(path) if kind == "wheel" else in_sdist(path)
        wrong = complaints(kind, files, size)
        if kind == "wheel":
            wrong += metadata_complaints(path)
        print(
            f"{path.name}: {len(files)} files, {size:,} bytes packed, {sum(files.values()):,} not"
        )
        print("".join(f"  {sentence}\n" for sentence in wrong), end="")
        count += len(wrong)
    return count


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1]), 1))
