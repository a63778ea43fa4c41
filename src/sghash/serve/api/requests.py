"""What requests may hold, field by field; the description of the interface is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from sghash.validation import MAX_ID, MAX_K

_NUMBER = {"type": "number"}
_NPY = {"type": "string", "contentEncoding": "base64", "description": "A .npy file in base64."}
#: Vectors: checked where they are made into an array, which takes far less time.
Rows = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "Rows of numbers, one row, or a .npy file in base64.",
            "anyOf": [
                {"type": "array", "items": {"type": "array", "items": _NUMBER}},
                {"type": "array", "items": _NUMBER},
                _NPY,
            ],
        }
    ),
]
CodeRows = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "Packed codes in hexadecimal, or a .npy file of uint8 in base64.",
            "anyOf": [
                {"type": "array", "items": {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}},
                _NPY,
            ],
        }
    ),
]
_ID_TEXT = r"^(0|[1-9][0-9]{0,18})$"
Id = Annotated[int, Field(ge=0, le=MAX_ID)] | Annotated[str, Field(pattern=_ID_TEXT)]
Ids = Annotated[list[Id], Field(description="Ids; those beyond 2**53 may be texts of digits.")]
Keys = Annotated[list[str], Field(description="Keys that rows were added under.")]
Value = int | float | bool | str | None
Shortlist = int | Literal["all"] | tuple[int | Literal["all"], int]


class Request(BaseModel):
    """A body that knows its fields, and no others."""

    model_config = ConfigDict(extra="forbid")


class ById(Request):
    """Rows by id or by key."""

    ids: Ids | None = None
    keys: Keys | None = None


class Choice(ById):
    """Rows that may be found, by id or by key."""


class SearchOptions(Request):
    """How to search; beside a body that is no JSON these are parameters of the address."""

    k: int = Field(10, ge=1, le=MAX_K, description="Neighbours per query.")
    rerank: Literal["none", "decoder", "vectors"] | None = None
    shortlist: Shortlist | None = Field(None, description="Rows that the codes let through.")
    target_recall: float | None = Field(None, gt=0, le=1)
    where: str | Choice | None = Field(None, description="A condition, or ids or keys.")
    fingerprint: str | None = Field(None, description="Of the model that made the codes.")
    metadata: bool = Field(False, description="Whether answers bring the metadata of rows.")

    @field_validator("shortlist", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """A pair: in an address as in 500,50, in JSON as a list."""
        if isinstance(value, str) and value != "all":
            parts = [int(part) if part.isdigit() else part for part in value.split(",")]
            return parts[0] if len(parts) == 1 else tuple(parts)
        return tuple(value) if isinstance(value, list) else value


class Search(SearchOptions):
    """Queries, as one of vectors, codes, ids or keys of rows."""

    queries: Rows | None = None
    codes: CodeRows | None = None
    ids: Ids | None = None
    keys: Keys | None = None


class RangeOptions(Request):
    """How far to look."""

    radius: int = Field(ge=0, le=2**31 - 1, description="Bits that may differ.")
    where: str | Choice | None = None


class Range(RangeOptions):
    """Queries, and how far to look."""

    queries: Rows


class ExplainOptions(SearchOptions):
    """How to search; with a radius, as in range."""

    radius: int | None = Field(None, ge=0, le=2**31 - 1)


class Explain(ExplainOptions):
    """One query."""

    queries: Rows


Part = Literal["codes", "reconstructions", "vectors", "metadata"]


class Get(ById):
    """Rows, and what is wanted of them; without `include`, all of it."""

    include: list[Part] | None = None


class Contains(ById):
    """Rows that may be there."""


class Delete(ById):
    """Rows to be deleted: all of them, or none."""


class Add(ById):
    """Vectors or codes, with ids or keys and metadata, a value per row."""

    vectors: Rows | None = None
    codes: CodeRows | None = None
    metadata: dict[str, list[Value]] | None = None
    fingerprint: str | None = Field(None, description="Of the model that made the codes.")


class Upsert(ById):
    """Vectors with ids or keys; rows that are there are replaced."""

    vectors: Rows
    metadata: dict[str, list[Value]] | None = None


class Encode(Request):
    """Vectors."""

    vectors: Rows


class Decode(Request):
    """Codes."""

    codes: CodeRows


class IdsAfter(Request):
    """Which ids to list."""

    after: int = Field(-1, ge=-1, le=MAX_ID, description="List those beyond this one.")
    limit: int | None = Field(None, ge=1, description="How many.")


class NoOptions(Request):
    """Nothing beside the body."""


class CodeOptions(Request):
    """What codes need to be added."""

    fingerprint: str | None = None
