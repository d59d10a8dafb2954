"""Generates the types of the Python client from the OpenAPI document.

python -m ops.openapi.client_types > sdk/python/masscomm_client/types.py
"""

import keyword
import re
import sys
from collections.abc import Mapping
from typing import Any

from ops.openapi.document import document

_HEADER = '''"""The bodies of requests and responses, and the parameters of lists.

Generated: python -m ops.openapi.client_types > sdk/python/masscomm_client/types.py
"""

from __future__ import annotations

from typing import {names}


'''
# Operations whose parameters the client's methods take, apart from the cursor, which the client sets itself.
_READ = frozenset(
    f"get_{name}"
    for name in (
        *(
            "dead_letters",
            "device_counts",
            "devices",
            "latency",
            "metrics",
            "overview",
            "recipients",
            "sends",
            "sources",
            "subscriptions",
            "suppressions",
            "templates",
        ),
        *("user_notifications", "webhook_dead_letters", "webhook_deliveries", "webhook_log", "webhook_metrics"),
        "webhooks",
    )
)
# The maximum length of a line.
_LINE = 120
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def client_types() -> str:
    """Return the source of the module."""
    described = document()
    components: Mapping[str, Any] = described["components"]["schemas"]
    types = [_defined(name, components[name]) for name in sorted(components)]
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    aliases = {_type(schema): name for name, schema in components.items() if "properties" not in schema}
    for operation in sorted(operations, key=lambda each: each["operationId"]):
        if operation["operationId"] in _READ:
            types += _filters(operation, aliases)
    return _module("\n\n".join(types))


def _module(types: str) -> str:
    names = [name for name in ("Any", "Literal", "NotRequired", "TypedDict") if re.search(rf"\b{name}\b", types)]
    return _HEADER.format(names=", ".join(names)) + types


def _defined(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return _alias(name, _type(schema))
    if any(map(keyword.iskeyword, schema["properties"])):
        return _functional(name, schema)
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


def _functional(name: str, schema: Mapping[str, Any]) -> str:
    """Return a type with a field whose name is a keyword. All of its fields are required."""
    lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
    lines += [f'        "{field}": {_type(value)},' for field, value in schema["properties"].items()]
    return "\n".join([*lines, "    },", ")"]) + "\n"


def _filters(operation: Mapping[str, Any], aliases: dict[str, str]) -> list[str]:
    """Return the type of the parameters in an operation's query, and of their values unless `aliases` has it."""
    subject = "".join(word.capitalize() for word in operation["operationId"].split("_")[1:])
    types = []
    lines = [f"class {subject}Filters(TypedDict):", f'    """{operation["summary"]}"""', ""]
    for each in operation["parameters"]:
        name, schema = each["name"], each["schema"]
        if each["in"] != "query" or name == "cursor":
            continue
        is_list = schema.get("type") == "array"
        value = _type(schema["items"] if is_list else schema)
        if value.startswith("Literal") and value not in aliases:
            aliases[value] = f"{subject}{name.capitalize()}"
            types.append(_alias(aliases[value], value))
        value = aliases.get(value, value)
        annotation = f"{value} | list[{value}]" if is_list else value
        lines.append(f"    {name}: {annotation if each['required'] else f'NotRequired[{annotation}]'}")
    return [*types, "\n".join(lines) + "\n"]


def _alias(name: str, value: str) -> str:
    line = f"type {name} = {value}"
    return f"{line}\n" if len(line) <= _LINE else _broken(line)


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
