"""The description of the interface (OpenAPI), made from the verbs and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from sghash.serve.api import requests
from sghash.serve.api.reading import ARROW, JSON, NDJSON, NPY
from sghash.serve.api.routes import VERBS, Verb
from sghash.serve.hosting import Hosted
from sghash.serve.refusals import STATUSES
from sghash.serve.settings import Settings

_REFS = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_OBJECT: dict[str, Any] = {"type": "object"}
# What any request may be answered with, whatever it asks for; the verbs have more of their own.
_ALWAYS = (400, 401, 403, 404, 405, 406, 413, 422, 431, 503, 504)
_WITH_BODY = (408, 415)


def describe(app: FastAPI, hosted: Mapping[str, Hosted], settings: Settings) -> None:
    """Let `/openapi.json` describe all that can be asked here."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, hosted, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, hosted: Mapping[str, Hosted], settings: Settings) -> dict[str, Any]:
    about = (
        "Collections of binary codes. Ids beyond 2**53 are texts of digits in JSON. Errors are "
        "JSON with a sentence in `detail`."
    )
    document = get_openapi(
        title=app.title, version=app.version, description=about, routes=app.routes
    )
    schemas: dict[str, Any] = {"Error": _error()}
    paths = document.setdefault("paths", {})
    # Where keys are needed this is read without one: it must not say what there is.
    names = {} if settings.keys is not None else {"enum": list(hosted)}
    name = {
        "name": "name", "in": "path", "required": True, "schema": {"type": "string"} | names,
    }  # fmt: skip
    for verb_name, verb in VERBS.items():
        if not verb.writes or settings.writable:
            operation = _operation(verb_name, verb, schemas)
            paths[f"/collections/{{name}}/{verb_name}"] = {"parameters": [name], "post": operation}
    paths["/collections"] = {"get": _question("collections", "All collections.")}
    paths["/collections/{name}"] = {
        "parameters": [name], "get": _question("stats", "Counts and sizes."),
    }  # fmt: skip
    paths["/collections/{name}/ids"] = {
        "parameters": [name],
        "get": _question("ids", "Ids, rising.", kinds=(NDJSON, NPY, ARROW))
        | {"parameters": _parameters(requests.IdsAfter)},
    }
    for path, text in (("/healthz", "Whether it lives."), ("/readyz", "Whether it is ready.")):
        paths[path] = {"get": _question(path[1:], text) | {"security": []}}
    answers = {"200": {"description": "Counters.", "content": {"text/plain": {"schema": _BINARY}}}}
    metrics = {"operationId": "metrics", "summary": "Counters, for Prometheus."}
    paths["/metrics"] = {"get": metrics | {"responses": answers | _errors(_ALWAYS)}}
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(schemas)
    if settings.keys is not None:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document


def _operation(name: str, verb: Verb, schemas: dict[str, Any]) -> dict[str, Any]:
    shape = verb.shape
    content: dict[str, Any] = {JSON: {"schema": _schema(shape.model, schemas)}}
    content |= {NPY: {"schema": _BINARY}, ARROW: {"schema": _BINARY}}
    parameters = _parameters(shape.options)
    for parameter in parameters:
        parameter["description"] = "Beside a body that is no JSON."
    kinds = [NDJSON, *([NPY] if verb.numbers else []), ARROW] if verb.is_table else []
    answer: dict[str, Any] = {JSON: {"schema": _OBJECT}}
    answer |= {kind: {"schema": _BINARY} for kind in kinds}
    statuses = (*_ALWAYS, *_WITH_BODY, *((507,) if verb.writes else ()))
    return {
        "operationId": name,
        "summary": verb.about,
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "The answer.", "content": answer}} | _errors(statuses),
    }


def _question(name: str, about: str, kinds: tuple[str, ...] = ()) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": _OBJECT}}
    content |= {kind: {"schema": _BINARY} for kind in kinds}
    answers = {"200": {"description": "The answer.", "content": content}} | _errors(_ALWAYS)
    return {"operationId": name, "summary": about, "responses": answers}


def _errors(statuses: tuple[int, ...]) -> dict[str, Any]:
    schema = {"$ref": _REFS.format(model="Error")}
    return {
        str(status): {"description": STATUSES[status], "content": {JSON: {"schema": schema}}}
        for status in sorted(statuses)
    }


def _error() -> dict[str, Any]:
    fields = ("detail", "error", "request_id")
    return {
        "type": "object",
        "required": list(fields),
        "properties": {name: {"type": "string"} for name in fields},
    }


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a model, which stands among the others from then on."""
    found = model.model_json_schema(ref_template=_REFS)
    schemas.update(found.pop("$defs", {}))
    schemas[model.__name__] = found
    return {"$ref": _REFS.format(model=model.__name__)}


def _parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The plain fields of a model as parameters of an address."""
    found = model.model_json_schema(ref_template=_REFS)
    fields = found.get("properties", {})
    plain = {name: schema for name, schema in fields.items() if name != "where"}
    if "where" in fields:
        plain["where"] = {"type": "string"}
    if "shortlist" in plain:
        plain["shortlist"] = {
            "type": "string",
            "pattern": "^(all|[1-9][0-9]{0,8})(,[1-9][0-9]{0,8})?$",
        }
    return [{"name": name, "in": "query", "schema": schema} for name, schema in plain.items()]
