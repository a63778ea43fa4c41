"""Code that stands twice: runs of statements that are equal once their names are replaced.

Every function is read as a list of statements, headers such as `if x:` and `def f(x):` among them;
docstrings and comments do not count. A window of statements is compared after its names were
numbered in the order in which they appear, so that renaming hides nothing. Constants count.

Whole functions are compared more loosely: by the tokens of the statements that both have, all names
taken for one.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from sizes import source_files

# In this format five statements are about eight lines.
STATEMENTS = 5
# Functions with this much in common, by tokens, are listed as alike.
LIKENESS = 0.6
# Many statements of few tokens are lists of names (`self.a = a`), not code that stands twice.
_TOKENS_EACH = 6


class Statement(NamedTuple):
    """Its first line in the file, and its tokens; names carry a leading space."""

    line: int
    tokens: tuple[str, ...]


class Copy(NamedTuple):
    """Two places (file, first line) with `length` equal statements each."""

    one: tuple[str, int]
    other: tuple[str, int]
    length: int

    def __str__(self) -> str:
        (a, i), (b, j) = self.one, self.other
        return f"{self.length} statements: {a}:{i} = {b}:{j}"


def copies(src: Path, statements: int = STATEMENTS) -> list[Copy]:
    """Every pair of places with at least `statements` equal statements, longest first."""
    functions = _all_functions(src)
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, (_, body) in enumerate(functions):
        for first in range(len(body) - statements + 1):
            key = _normalised(body[first : first + statements])
            if len(key) >= _TOKENS_EACH * statements:
                places[key].append((number, first))
    pairs = {pair for found in places.values() for pair in combinations(found, 2)}
    grown = [_grow(pair, pairs, statements) for pair in sorted(pairs) if _starts(pair, pairs)]
    found = [
        Copy(_place(functions, one), _place(functions, other), length)
        for one, other, length in grown
        if one[0] != other[0]
    ]
    return sorted(found, key=lambda copy: (-copy.length, copy))


class Likeness(NamedTuple):
    """Two functions and the share of tokens that stand in statements which both have."""

    share: float
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.share:.0%}: {self.one} = {self.other}"


def alike(src: Path, share: float = LIKENESS) -> list[Likeness]:
    """Every pair of functions with at least `share` in common, most alike first."""
    counted = [
        (f"{file}:{body[0].line}{body[0].tokens[1]}", Counter[str](), body)
        for file, body in _all_functions(src)
        if len(body) > STATEMENTS
    ]
    for _, tokens, body in counted:
        for statement in body:
            tokens[_shape(statement)] += len(statement.tokens)
    found = []
    for (one, a, _), (other, b, _) in combinations(counted, 2):
        both = 2 * min(a.total(), b.total()) / (a.total() + b.total())
        if both >= share:  # no more than the smaller one can be in both
            both = 2 * (a & b).total() / (a.total() + b.total())
        if both >= share:
            found.append(Likeness(both, one, other))
    return sorted(found, reverse=True)


Function = tuple[str, list[Statement]]
Pair = tuple[tuple[int, int], tuple[int, int]]


def _starts(pair: Pair, pairs: set[Pair]) -> bool:
    (a, i), (b, j) = pair
    return ((a, i - 1), (b, j - 1)) not in pairs


def _grow(
    pair: Pair, pairs: set[Pair], statements: int
) -> tuple[tuple[int, int], tuple[int, int], int]:
    (a, i), (b, j) = pair
    more = 0
    while ((a, i + more + 1), (b, j + more + 1)) in pairs:
        more += 1
    return (a, i), (b, j), statements + more


def _place(functions: list[Function], at: tuple[int, int]) -> tuple[str, int]:
    file, statements = functions[at[0]]
    return file, statements[at[1]].line


def _all_functions(src: Path) -> list[Function]:
    return [
        (file.relative_to(src).as_posix(), body)
        for file in source_files(src)
        for body in _functions(file.read_text(encoding="utf-8"))
    ]


def _functions(text: str) -> list[list[Statement]]:
    """The statements of every function and method; inner functions belong to the outer one."""
    statements, tree = _statements(text), ast.parse(text)
    tops = [
        node
        for parent in ast.walk(tree)
        if isinstance(parent, (ast.Module, ast.ClassDef))
        for node in parent.body
        if isinstance(node, ast.FunctionDef)
    ]
    return [
        [s for s in statements if node.lineno <= s.line <= (node.end_lineno or node.lineno)]
        for node in tops
    ]


def _statements(text: str) -> list[Statement]:
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    statements, line, tokens = [], 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in skipped:
            continue
        if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            if tokens and not (len(tokens) == 1 and tokens[0][0] in "\"'rb"):  # a docstring
                statements.append(Statement(line, tuple(tokens)))
            tokens = []
            continue
        line = line if tokens else token.start[0]
        is_name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
        tokens.append(f" {token.string}" if is_name else token.string)
    return statements


def _normalised(window: list[Statement]) -> tuple[str, ...]:
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(token, f" {len(numbers)}") if token.startswith(" ") else token
        for statement in window
        for token in statement.tokens
        if token != ","  # a comma before a closing bracket is the formatter's
    )


def _shape(statement: Statement) -> str:
    tokens = ("name" if token.startswith(" ") else token for token in statement.tokens)
    return " ".join(token for token in tokens if token != ",")
