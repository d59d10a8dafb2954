"""Synthesised environments as the tests read them: JSON, without the library that wrote it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Resource:
    """One resource of one stack. id: its logical id; attributes: everything except Type and Properties."""

    stack: str
    id: str
    type: str
    properties: dict[str, Any]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.stack}/{self.id}"


@dataclass(frozen=True)
class SynthesisedEnvironment:
    """A cloud assembly. folder: where it lies."""

    name: str
    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """The assembly's list of artefacts."""
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content

    def templates(self) -> dict[str, dict[str, Any]]:
        """Stack, without its environment's prefix, → template."""
        return _templates(self.folder, f"masscomm-{self.name}-")

    def resources(self, kind: str = "") -> Iterator[Resource]:
        """Every resource, or those of one type."""
        for stack, template in self.templates().items():
            for id, resource in template["Resources"].items():
                if kind in ("", resource["Type"]):
                    rest = {name: value for name, value in resource.items() if name not in ("Type", "Properties")}
                    yield Resource(stack, id, resource["Type"], resource.get("Properties", {}), rest)


@cache
def _templates(folder: Path, prefix: str) -> dict[str, dict[str, Any]]:
    """Read once: parsing them is most of the time of a test."""
    suffix = ".template.json"
    return {
        path.name.removeprefix(prefix).removesuffix(suffix): json.loads(path.read_text())
        for path in sorted(folder.glob(f"*{suffix}"))
    }


def flat(value: Any) -> str:
    """A value of a template as text: what its intrinsic functions join, references in braces."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(flat(part) for part in parts)
        case {"Ref": name}:
            return f"{{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"{{{name}.{attribute}}}"
        case {"Fn::ImportValue": name}:
            return f"{{{flat(name)}}}"
        case {"Fn::Select": [part, {"Fn::Split": [separator, inner]}]}:
            return f"{{{flat(inner)} by {separator} [{part}]}}"
        case _:
            return json.dumps(value, sort_keys=True)


def as_list(value: Any) -> list[Any]:
    """CloudFormation takes one or a list."""
    return value if isinstance(value, list) else [value]


def statements(environment: SynthesisedEnvironment, kind: str = "") -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Every IAM statement anywhere, with the resource it stands in; kind: that one's type."""
    for resource in environment.resources(kind):
        for document in _documents(resource.properties):
            for statement in as_list(document["Statement"]):
                yield resource, statement


def _documents(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "Statement" in value and "Version" in value:
            yield value
        else:
            for each in value.values():
                yield from _documents(each)
    elif isinstance(value, list):
        for each in value:
            yield from _documents(each)


def actions(statement: dict[str, Any]) -> set[str]:
    """What a statement is about."""
    return set(as_list(statement.get("Action", [])))


def targets(statement: dict[str, Any]) -> set[str]:
    """What a statement names, as text."""
    return {flat(each) for each in as_list(statement.get("Resource", []))}
