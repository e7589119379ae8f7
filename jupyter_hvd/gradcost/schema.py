"""The JSON form of a view as a JSON Schema, made of its classes; `jlpm types` makes TypeScript's types of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .view import View

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def make_schema(root: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of a dataclass, with definitions for the classes in it."""
    definitions: dict[str, dict[str, Any]] = {}
    whole = _class_schema(root, definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": root.__name__,
        **whole,
        "definitions": dict(sorted(definitions.items())),
    }


def _class_schema(type_: type, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a dataclass; add its classes to `definitions`."""
    hints = get_type_hints(type_)
    properties = {f.name: _type_schema(hints[f.name], definitions) for f in fields(type_)}
    return {
        "description": cleandoc(type_.__doc__ or ""),
        "type": "object",
        "required": [f.name for f in fields(type_) if _is_required(f)],
        "properties": properties,
        "additionalProperties": False,
    }


def _is_required(field: Field[Any]) -> bool:
    """Whether the JSON form always has a field: it has no default, or identifies a class or version."""
    return field.default is MISSING or field.name in ("type", "version")


def _type_schema(type_: Any, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a type; add its classes to `definitions`."""
    origin, arguments = get_origin(type_), get_args(type_)
    if type_ in _PLAIN:
        return {"type": _PLAIN[type_]}
    if is_dataclass(type_):
        assert isinstance(type_, type)
        if type_.__name__ not in definitions:
            definitions[type_.__name__] = {}
            definitions[type_.__name__] = _class_schema(type_, definitions)
        return {"$ref": f"#/definitions/{type_.__name__}"}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_type_schema(part, definitions) for part in arguments]}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1], definitions)}
    assert origin in (tuple, Sequence), type_
    if origin is Sequence or arguments[1:] == (...,):
        return {"type": "array", "items": _type_schema(arguments[0], definitions)}
    parts = [_type_schema(part, definitions) for part in arguments]
    return {"type": "array", "items": parts, "minItems": len(parts), "maxItems": len(parts)}


if __name__ == "__main__":
    print(json.dumps(make_schema(View), indent=2, ensure_ascii=False))
