"""Words of a condition: names, numbers, texts and signs, read from its text one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sghash.collection.storage.texts import encode
from sghash.errors import InvalidInput


class Word(NamedTuple):
    """`kind` is "number", "text", "name", "sign" or "end"; `value` is what it stands for."""

    kind: str
    value: Any
    start: int


_WORD = re.compile(
    r"(?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>==|!=|<=|>=|[<>()\[\]{},+-])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
# What people write who know other languages.
_MEANT = {
    "=": "==", "<>": "!=", "&": "and", "|": "or", "!": "not", "~": "not",
    "AND": "and", "OR": "or", "NOT": "not", "IN": "in", "IS": "is",
    "NULL": "None", "null": "None", "true": "True", "false": "False",
}  # fmt: skip


def words(text: str) -> Iterator[Word]:
    """All words, then without end the one that marks the end."""
    at = 0
    while at < len(text):
        start = at
        if text[at].isspace():
            at += 1
        elif text[at].isidentifier():
            while at < len(text) and ("_" + text[at]).isidentifier():
                at += 1
            yield Word("name", text[start:at], start)
        elif text.startswith("<>", at):
            raise refusal(text, at, "this cannot be understood" + hint("<>"))
        else:
            match = _WORD.match(text, at)
            if match is None:
                quote = text[at] in "'\""
                reason = "the closing quote is missing" if quote else "this cannot be understood"
                raise refusal(text, at, reason + hint(text[at]))
            yield Word(str(match.lastgroup), _value(text, match), start)
            at = match.end()
    while True:
        yield Word("end", "", len(text))


def hint(word: str) -> str:
    """The remedy for a word or sign of another language, else nothing."""
    return f", write `{_MEANT[word]}`" if word in _MEANT else ""


def refusal(text: str, start: int, reason: str) -> InvalidInput:
    """The error for a condition that is wrong from character `start` on."""
    if not text.strip():
        return InvalidInput("the condition is empty: write it as in year >= 2000")
    place = f"at {text[start : start + 30]!r}"
    if not text[start:].strip():
        place = f"after {text[max(0, start - 30) : start]!r}"
    return InvalidInput(f"cannot read the condition {place}: {reason}")


def _value(text: str, match: re.Match[str]) -> Any:
    if match.lastgroup == "number":
        return _number(text, match)
    if match.lastgroup == "text":
        return _unescaped(text, match)
    return match[0]


def _number(text: str, match: re.Match[str]) -> int | float:
    following = text[match.end() : match.end() + 1]
    if not following or not ("_" + following).isidentifier():
        digits = match[0]
        try:
            return int(digits) if digits.replace("_", "").isdigit() else float(digits)
        except ValueError:
            pass
    raise refusal(text, match.start(), "this is no number")


def _unescaped(text: str, match: re.Match[str]) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        if len(code) > 1 and int(code[1:], 16) < 0x110000:
            return chr(int(code[1:], 16))
        if code not in _ESCAPED:
            start = match.start() + 1 + escape.start()
            raise refusal(text, start, r"a backslash in a text is written \\")
        return _ESCAPED[code]

    value = _ESCAPE.sub(character, match[0][1:-1])
    encode(value, "the condition")
    return value
