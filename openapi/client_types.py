"""Generates the types of the Python client from the OpenAPI document.

python -m openapi.client_types > client/types.py
"""

import re
import sys
from collections.abc import Mapping
from typing import Any

from openapi.document import document

_HEADER = '''"""The bodies of requests and responses.

Generated: python -m openapi.client_types > client/types.py
"""

from __future__ import annotations

from typing import {names}


'''
# The maximum length of a line.
_LINE = 120
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def client_types() -> str:
    """Return the source of the module."""
    components: Mapping[str, Any] = document()["components"]["schemas"]
    types = "\n\n".join(_defined(name, components[name]) for name in sorted(components))
    names = [name for name in ("Any", "Literal", "NotRequired", "TypedDict") if re.search(rf"\b{name}\b", types)]
    return _HEADER.format(names=", ".join(names)) + types


def _defined(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        line = f"type {name} = {_type(schema)}"
        return f"{line}\n" if len(line) <= _LINE else _broken(line)
    lines = [f"class {name}(TypedDict):"]
    if "description" in schema:
        lines += [f'    """{schema["description"].strip().splitlines()[0]}"""', ""]
    for field, value in schema["properties"].items():
        annotation = _type(value)
        required = field in schema.get("required", ())
        lines.append(f"    {field}: {annotation if required else f'NotRequired[{annotation}]'}")
        if "description" in value:
            lines.append(f'    """{value["description"]}"""')
    return "\n".join(lines) + "\n"


def _broken(line: str) -> str:
    """Return a long line with a list as the formatter breaks it: after the brackets, or after each value."""
    before, _, values = line.removesuffix("]").partition("[")
    if len(values) + 4 > _LINE:
        values = values.replace(", ", ",\n    ") + ","
    return f"{before}[\n    {values}\n]\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the Python type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(f'"{each}"' if isinstance(each, str) else repr(each) for each in values)}]"
    match schema.get("type"):
        case "array":
            return f"list[{_type(schema['items'])}]"
        case "object":
            values = schema["additionalProperties"]
            return f"dict[str, {'Any' if values is True else _type(values)}]"
        case str() as name:
            return _SIMPLE[name]
        case _:
            return "Any"


if __name__ == "__main__":
    sys.stdout.write(client_types())
