"""`RemoteCollection`: the verbs of `Collection`, answered by a server."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.client.connection import Connection
from sghash.collection.explaining import Explanation
from sghash.collection.lists.targets import Visit
from sghash.collection.records import Records
from sghash.collection.storage.plain_values import is_of_pandas, items_of_pandas, mapping_of, plain
from sghash.collection.where.choice import are_keys, in_order
from sghash.neighbors import KeyedNeighbors, Neighbors, RangeNeighbors, padding_distance
from sghash.validation import Codes, Ids, Vectors, check_ids, check_vectors, n_bytes_of

_IDS_AT_A_TIME = 1_000_000


class RemoteCollection:
    """A collection on a server; every call is a request, and sees what the server sees then."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection, self._path = connection, path

    def __repr__(self) -> str:
        return f"RemoteCollection({self._path.rpartition('/')[2]!r} of {self._connection!r})"

    def close(self) -> None:
        """Close the connections to the server."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self.stats()["n_rows"])

    def __contains__(self, id_: object) -> bool:
        if id_ is None:
            return False
        name = "keys" if isinstance(id_, str) else "ids"
        given = id_ if isinstance(id_, str) else int(check_ids(np.asarray([id_]))[0])
        return bool(self._ask("contains", {name: [given]})["contains"][0])

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return int(self.stats()["n_bits"])

    @property
    def metric(self) -> str:
        """What `rerank` scores: "l2", "ip" or "cosine"."""
        return str(self.stats()["metric"])

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the codes."""
        return str(self.stats()["fingerprint"])

    @property
    def ids(self) -> Ids:
        """All ids, rising."""
        found: list[Ids] = [np.empty(0, np.int64)]
        after = -1
        while True:
            path = f"{self._path}/ids?after={after}&limit={_IDS_AT_A_TIME}"
            ids = _ids(self._connection.ask("GET", path)["ids"])
            found.append(ids)
            if len(ids) < _IDS_AT_A_TIME:
                return np.concatenate(found)
            after = int(ids[-1])

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        rerank: str | None = None,
        shortlist: int | str | tuple[int | str, int] | None = None,
        target_recall: float | None = None,
        where: Any = None,
    ) -> Neighbors:
        """Return the k nearest rows of each query (n_queries, d); see `Collection.search`."""
        options = {"rerank": rerank, "shortlist": shortlist, "target_recall": target_recall}
        asked = {"queries": _vectors(queries, "queries"), "k": _whole(k)} | options
        return _neighbors(self._ask("search", asked | self._where(where)), k)

    def search_codes(
        self, query_codes: ArrayLike, k: int = 10, *, fingerprint: str, where: Any = None
    ) -> Neighbors:
        """Like `search` without reranking, for codes made by the model of this `fingerprint`."""
        asked = {"codes": _npy(np.asarray(query_codes)), "k": _whole(k), "fingerprint": fingerprint}
        return _neighbors(self._ask("search", asked | self._where(where)), k)

    def search_ids(
        self, ids: ArrayLike | Sequence[str], k: int = 10, *, where: Any = None
    ) -> Neighbors:
        """Like `search`, with rows of the collection as queries, by their ids or keys."""
        asked = _ids_or_keys(ids) | {"k": _whole(k)}
        return _neighbors(self._ask("search", asked | self._where(where)), k)

    def range_search(self, queries: ArrayLike, radius: int, *, where: Any = None) -> RangeNeighbors:
        """Return all rows whose code differs from the query's in at most `radius` bits."""
        asked = {"queries": _vectors(queries, "queries"), "radius": _whole(radius)}
        found = self._ask("range", asked | self._where(where))
        distances = np.array(found["distances"], dtype=np.int32)
        return RangeNeighbors(np.array(found["limits"], np.int64), distances, _ids(found["ids"]))

    def explain(self, query: ArrayLike, k: int = 10, **options: Any) -> Explanation:
        """Answer one query and say what was visited in each segment, and what it took."""
        where = self._where(options.pop("where", None))
        asked = {"queries": _vectors(query, "query"), "k": _whole(k)} | options | where
        told = self._ask("explain", asked)
        found = told["neighbors"]
        if "radius" in options:
            ids, distances = _ids(found["ids"]), np.array(found["distances"], dtype=np.int32)
            limits = np.array([0, len(ids)], np.int64)
            neighbors: Neighbors | RangeNeighbors = RangeNeighbors(limits, distances, ids)
        else:
            neighbors = _neighbors(found, k)
        visits = [Visit(**visit) for visit in told["visits"]]
        return Explanation(neighbors, visits, told["microseconds"])

    def get(self, ids: ArrayLike | Sequence[str]) -> Records:
        """Return what is stored under these ids or keys, in the order given."""
        found = self._ask("get", _ids_or_keys(ids))
        codes = self._codes(found["codes"])
        kept = found["keep_vectors"]
        dtype = np.float16 if kept == "float16" else np.float32
        kinds, metadata = found["kinds"], dict(found["metadata"])
        for name, values in metadata.items():
            # Those beyond 2**53, and those that are not finite, come as texts.
            if kinds[name] in ("int", "float"):
                number = int if kinds[name] == "int" else float
                metadata[name] = [None if value is None else number(value) for value in values]
        decoded, vectors = found["reconstructions"], found["vectors"]
        width = 0 if len(codes) else int(self.stats()["width"])
        return Records(
            _ids(found["ids"]), list(found["keys"]), codes,
            _rows(decoded, np.float32, width), _rows(vectors, dtype, width), metadata,
        )  # fmt: skip

    def encode(self, vectors: ArrayLike) -> Codes:
        """Codes (n, n_bytes) of vectors, by the model of the collection."""
        return self._codes(self._ask("encode", {"vectors": _vectors(vectors, "vectors")})["codes"])

    def _codes(self, found: list[str]) -> Codes:
        n_bytes = len(found[0]) // 2 if found else n_bytes_of(self.n_bits)
        raw = np.frombuffer(bytes.fromhex("".join(found)), np.uint8)
        return raw.reshape(len(found), n_bytes).copy()

    def decode(self, codes: ArrayLike) -> Vectors:
        """Vectors (n, d) that codes stand for."""
        found = self._ask("decode", {"codes": _npy(np.asarray(codes))})["vectors"]
        width = 0 if found else int(self.stats()["width"])
        return np.asarray(_rows(found, np.float32, width))

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes, as the server knows them."""
        return self._connection.ask("GET", self._path)

    def add(
        self,
        vectors: ArrayLike,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Ids:
        """Add vectors (n, d), all or none; they are on the server's disk when this returns."""
        given = {} if ids is None else _ids_or_keys(ids)
        asked = {"vectors": _vectors(vectors, "vectors"), "metadata": _metadata(metadata)}
        return _ids(self._ask("add", asked | given, is_idempotent=False)["ids"])

    def add_codes(
        self,
        codes: ArrayLike,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        fingerprint: str,
    ) -> Ids:
        """Add codes made elsewhere by the model of this `fingerprint`, which must be the same."""
        given = {} if ids is None else _ids_or_keys(ids)
        asked = {"codes": _npy(np.asarray(codes)), "metadata": _metadata(metadata)}
        asked |= {"fingerprint": fingerprint}
        return _ids(self._ask("add", asked | given, is_idempotent=False)["ids"])

    def upsert(
        self,
        vectors: ArrayLike,
        ids: ArrayLike | Sequence[str],
        metadata: Mapping[str, Any] | None = None,
    ) -> Ids:
        """Like `add`, but a row that is there already is replaced, with its metadata."""
        asked = {"vectors": _vectors(vectors, "vectors"), "metadata": _metadata(metadata)}
        return _ids(self._ask("upsert", asked | _ids_or_keys(ids))["ids"])

    def delete(self, ids: ArrayLike | Sequence[str]) -> None:
        """Delete rows by id or key, durably; all other ids stay as they are."""
        self._ask("delete", _ids_or_keys(ids), is_idempotent=False)

    def _ask(
        self, verb: str, fields: dict[str, Any], *, is_idempotent: bool = True
    ) -> dict[str, Any]:
        given = {name: value for name, value in fields.items() if value is not None}
        path = f"{self._path}/{verb}"
        return self._connection.ask("POST", path, given, is_idempotent=is_idempotent)

    def _where(self, where: Any) -> dict[str, Any]:
        if where is None or isinstance(where, str):
            return {"where": where}
        array = np.asarray(where)
        if array.dtype == np.bool_:
            where = self.ids[array]
        return {"where": _ids_or_keys(where)}


def _vectors(vectors: ArrayLike, name: str) -> str:
    return _npy(check_vectors(vectors, name=name))


def _npy(array: NDArray[Any]) -> str:
    """An array as a `.npy` in base64, which JSON can hold without a change to any number."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return base64.b64encode(out.getvalue()).decode()


def _whole(number: Any) -> Any:
    return int(number) if isinstance(number, np.integer) else number


def _ids_or_keys(given: Any) -> dict[str, Any]:
    given = in_order(given)
    if are_keys(given):
        return {"keys": [given] if isinstance(given, str) else list(given)}
    return {"ids": check_ids(given).tolist()}


def _metadata(metadata: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    if metadata is None:
        return None
    columns = mapping_of(metadata)
    return {
        name: [plain(name, value) for value in _items(values)] for name, values in columns.items()
    }


def _items(values: Any) -> Any:
    return items_of_pandas(values) if is_of_pandas(values) else values


def _ids(found: list[Any]) -> Ids:
    """Ids; those beyond 2**53 come as texts."""
    return np.array([int(id_) for id_ in found], dtype=np.int64)


def _rows(found: list[Any] | None, dtype: Any, width: int) -> NDArray[Any] | None:
    """Rows; where there are none, `width` says how wide they would be."""
    if found is None:
        return None
    return np.array(found, dtype=dtype) if found else np.empty((0, width), dtype=dtype)


def _neighbors(found: dict[str, Any], k: int) -> Neighbors:
    dtype = np.dtype(found["dtype"])
    padding = padding_distance(dtype)
    n, width = len(found["ids"]), len(found["ids"][0]) if found["ids"] else int(k)
    distances = [[padding if d is None else d for d in row] for row in found["distances"]]
    ids = np.array([_ids(row) for row in found["ids"]], dtype=np.int64).reshape(n, width)
    neighbors = Neighbors(np.array(distances, dtype=dtype).reshape(ids.shape), ids)
    keys = found.get("keys")
    if keys is None:
        return neighbors
    table = np.empty(ids.shape, dtype=object)
    table[...] = keys
    return KeyedNeighbors.of(neighbors, lambda _: table)
