"""The form of conditions: their text becomes a small tree, by a parser that runs nothing.

    condition   comparisons joined by `and`, `or`, `not` and parentheses, as in Python
    comparison  a column and a constant with == != < <= > >= between them, or a chain of these;
                a column, `in` or `not in`, and a list; a column, `is` or `is not`, and None;
                a column of truth values alone
    constant    a whole number, a number, a text in quotes, True, False, None
    list        constants in ( ), [ ] or { } with commas between them

It is a parser of its own, for Python's own reads much more than this, takes some names of columns
for others, and may run out of stack on deep nesting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from sghash.collection.where.words import hint, refusal, words
from sghash.errors import InvalidInput

MAX_LENGTH = 1 << 20
MAX_DEPTH = 100


@dataclass(frozen=True)
class Name:
    """A column; alone it is a condition if it holds truth values."""

    column: str


@dataclass(frozen=True)
class Constant:
    """A str, int, float, bool or None."""

    value: Any


@dataclass(frozen=True)
class Listing:
    """Constants in brackets."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """`op` is one of == != < <= > >=, in, not in; of the last two `value` is a tuple."""

    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class Not:
    """What does not satisfy a condition."""

    part: Node


@dataclass(frozen=True)
class Joined:
    """What satisfies all parts ("and"), or any part ("or")."""

    op: str
    parts: tuple[Node, ...]


Node: TypeAlias = Name | Constant | Listing | Comparison | Not | Joined

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_CONSTANTS = {"None": None, "True": True, "False": False}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def read(text: str) -> Node:
    """Return a condition as a tree; a text of another form is refused."""
    if len(text) > MAX_LENGTH:
        raise InvalidInput(
            f"the condition has {len(text)} characters, at most {MAX_LENGTH} are read: "
            "give the ids of the rows instead"
        )
    parser = _Parser(text)
    tree = parser.condition_of(parser.condition(1), 0)
    if parser.word.kind != "end":
        raise parser.refusal("and, or, or a comparison is expected")
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words(text)
        self.word = next(self.words)

    def refusal(self, reason: str, start: int | None = None) -> InvalidInput:
        """The error for the next word, or for what begins at character `start`."""
        if start is not None:
            return refusal(self.text, start, reason)
        return refusal(self.text, self.word.start, reason + hint(str(self.word.value)))

    def take(self, *values: str) -> str | None:
        """Step over one of these names or signs; return it, or None if another is next."""
        word = self.word
        if word.kind not in ("name", "sign") or word.value not in values:
            return None
        self.word = next(self.words)
        return str(word.value)

    def condition(self, depth: int) -> Node:
        """Conditions joined by `or`, of conditions joined by `and`; or a single operand."""
        start = self.word.start
        if depth > MAX_DEPTH:
            raise self.refusal(f"it is nested more than {MAX_DEPTH} deep", start)
        either: list[Node] = []
        both = [self.term(depth)]
        while op := self.take("and", "or"):
            if op == "or":
                either.append(self.joined("and", both, start))
                both = []
            both.append(self.term(depth))
        return self.joined("or", [*either, self.joined("and", both, start)], start)

    def term(self, depth: int) -> Node:
        """A comparison, a chain of them, or an operand; after any number of `not`."""
        n_not = 0
        while self.take("not"):
            n_not += 1
        start = self.word.start
        sides, ops = [self.operand(depth)], []
        while op := self.comparison():
            ops.append(op)
            sides.append(self.operand(depth))
        node = sides[0]
        if ops:
            pairs = zip(sides[:-1], ops, sides[1:], strict=True)
            node = self.joined("and", [self.compared(*pair, start) for pair in pairs], start)
        if n_not:
            node = self.condition_of(node, start)
        return Not(node) if n_not % 2 else node

    def comparison(self) -> str | None:
        """Step over ==, !=, <, <=, >, >=, in, not in, is, is not, if there is one."""
        op = self.take("==", "!=", "<", "<=", ">", ">=", "in", "is", "not")
        if op == "is" and self.take("not"):
            return "is not"
        if op == "not":
            if not self.take("in"):
                raise self.refusal("in is expected after not")
            return "not in"
        return op

    def operand(self, depth: int) -> Node:
        """A column, a constant, a list, or a condition in parentheses."""
        if opening := self.take("(", "[", "{"):
            return self.bracket(opening, depth + 1)
        sign = self.take("+", "-")
        word = self.word
        if sign and word.kind != "number":
            raise self.refusal(f"a number is expected after {sign}")
        if word.kind in ("number", "text"):
            self.word = next(self.words)
            return Constant(-word.value if sign == "-" else word.value)
        if word.kind == "name" and word.value not in ("and", "or", "not", "in", "is"):
            self.word = next(self.words)
            if word.value in _CONSTANTS:
                return Constant(_CONSTANTS[word.value])
            return Name(word.value)
        raise self.refusal("a column or a constant is expected")

    def bracket(self, opening: str, depth: int) -> Node:
        """What stands in brackets, the opening one of which was just read."""
        closing = _CLOSING[opening]
        values: list[Any] = []
        while not self.take(closing):
            start = self.word.start
            node = self.condition(depth)
            if opening == "(" and not values and self.take(closing):
                return node
            comma = self.take(",")
            if not comma and self.word.value != closing:
                raise self.refusal(f"{closing} is expected")
            if not isinstance(node, Constant):
                raise self.refusal("a list may hold constants only", start)
            values.append(node.value)
        return Listing(tuple(values))

    def joined(self, op: str, parts: list[Node], start: int) -> Node:
        if len(parts) == 1:
            return parts[0]
        return Joined(op, tuple(self.condition_of(part, start) for part in parts))

    def condition_of(self, node: Node, start: int) -> Node:
        if isinstance(node, (Constant, Listing)):
            raise self.refusal("a constant alone is no condition: compare a column with it", start)
        return node

    def compared(self, left: Node, op: str, right: Node, start: int) -> Comparison:
        if op in ("in", "not in"):
            if isinstance(left, Name) and isinstance(right, Listing):
                return Comparison(left.column, op, right.values)
            if isinstance(left, Name) and isinstance(right, Constant):
                one = repr(right.value)
                shown = one if len(one) < 40 else "..."
                raise self.refusal(f"{op} needs a list: write ({shown},) for one value", start)
            raise self.refusal(f"{op} needs a column before it and a list after it", start)
        if isinstance(left, Constant) and isinstance(right, Name) and op in _MIRRORED:
            left, op, right = right, _MIRRORED[op], left
        if not isinstance(left, Name) or not isinstance(right, Constant):
            meant = ""
            if isinstance(right, Name):
                quoted = f": a text stands in quotes, {op} {right.column!r}"
                meant = hint(right.column) or quoted
            reason = f"{op} compares a column with a constant, nothing else{meant}"
            raise self.refusal(reason, start)
        if op in ("is", "is not"):
            if right.value is not None:
                raise self.refusal("is compares with None only: write == or !=", start)
            op = "==" if op == "is" else "!="
        return Comparison(left.column, op, right.value)
