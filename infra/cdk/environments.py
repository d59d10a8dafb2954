"""Reads the environments: a folder with a YAML file for each, whose values are the fields of `Environment`.

    python -m infra.cdk.environments > docs/environment.schema.json

writes the JSON schema of such a file. With the name of an environment, it prints the prefix of the names of its
resources, and its region.
"""

import argparse
import dataclasses
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from infra.cdk import config
from infra.cdk.concurrency import conflicts
from infra.cdk.config import CHECKOUT, LOCAL, Environment, ExternalServers, local

FOLDER = "MASSCOMM_ENVIRONMENTS"
SERVERS = "MASSCOMM_SERVERS"
# The environments that documentation, tests and the capacity model use. Their placeholders are not deployed.
EXAMPLES = CHECKOUT / "examples" / "environments"

# JSON has no tuples, so that a strict validation of JSON accepts lists for them and refuses every other conversion:
# an account id without quotes is a number to YAML, without its leading zeros.
_ADAPTER = TypeAdapter(with_config(ConfigDict(extra="forbid", strict=True))(Environment))


class EnvironmentsError(ValueError):
    """A file of an environment is missing or invalid; the message has a line for each problem."""


class _Loader(yaml.SafeLoader):
    """A loader that refuses a key that a mapping has twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if repeated := sorted({key for key in keys if keys.count(key) > 1 and key != "<<"}):
            raise yaml.constructor.ConstructorError(None, None, f"{', '.join(repeated)}: set twice", node.start_mark)
        return super().construct_mapping(node, deep)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--environments` to a command; `environments` and `environment_of` take its value."""
    parser.add_argument(
        "--environments",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help=f"the folder with a YAML file for each environment; default: {FOLDER}, else examples/environments",
    )


def environments(folder: Path | None = None) -> Mapping[str, Environment]:
    """Return the environments of a folder by name.

    Args:
        folder: The folder; None: the one that MASSCOMM_ENVIRONMENTS names, else the examples.

    Raises:
        EnvironmentsError: A file is invalid, or the folder has none.
    """
    return _environments((folder or Path(os.environ.get(FOLDER) or EXAMPLES)).expanduser().resolve())


def environment_of(name: str, folder: Path | None = None) -> Environment:
    """Return the environment with that name; `local` reads the addresses of its servers from MASSCOMM_SERVERS.

    Raises:
        ValueError: The name is unknown, a file is invalid, or MASSCOMM_SERVERS is missing or malformed.
    """
    if name == LOCAL:
        return _local()
    found = environments(folder)
    if name not in found:
        raise EnvironmentsError(f"there is no environment {name!r}: {', '.join((*found, LOCAL))}")
    return found[name]


def _local() -> Environment:
    try:
        return local(ExternalServers(**json.loads(os.environ[SERVERS])))
    except (KeyError, ValueError, TypeError) as error:
        fields = ", ".join(field.name for field in dataclasses.fields(ExternalServers))
        raise ValueError(f"{SERVERS} must be a JSON object of {fields}: {error!r}") from error


@cache
def _environments(folder: Path) -> Mapping[str, Environment]:
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise EnvironmentsError(f"{folder} has no environment: a file NAME.yaml")
    found: dict[str, Environment] = {}
    problems: list[str] = []
    for path in paths:
        try:
            found[path.stem] = read_environment(path)
        except EnvironmentsError as error:
            problems.append(str(error))
    problems += (f"{folder}: {line}" for line in conflicts(found.values()))
    if problems:
        raise EnvironmentsError("\n".join(problems))
    return MappingProxyType(found)


def read_environment(path: Path) -> Environment:
    """Return the environment in a file, whose name is that of the environment.

    Raises:
        EnvironmentsError: The file is invalid. The message has a line for each setting.
    """
    try:
        document = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a safe loader
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise EnvironmentsError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or "name" in document:
        raise EnvironmentsError(f"{path} must have settings by name, without `name`: the file has the name")
    if path.stem == LOCAL:
        raise EnvironmentsError(f"{path}: {LOCAL} is the environment of one machine, which needs no file")
    if isinstance(sources := document.get("event_sources"), str):
        document["event_sources"] = str(path.parent / sources)
    try:
        return _ADAPTER.validate_json(json.dumps({"name": path.stem, **document}, default=str))
    except ValidationError as error:
        raise EnvironmentsError("\n".join(f"{path}: {line}" for line in _lines(error))) from error


def _lines(error: ValidationError) -> Iterator[str]:
    """Yield a line for each problem, such as `kafka.brokers: Input should be a valid integer`."""
    for each in error.errors(include_url=False):
        setting = ".".join(map(str, each["loc"]))
        message = each["msg"].removeprefix("Value error, ")
        yield from (f"{setting}: {line}" if setting else line for line in message.splitlines())


def schema() -> dict[str, Any]:
    """Return the JSON schema of a file. Editors read it; checks over two settings are made when a file is read."""
    found = _ADAPTER.json_schema()
    del found["properties"]["name"]
    found["required"].remove("name")
    kinds: dict[str, Any] = {each["title"]: each for each in (found, *found["$defs"].values()) if "properties" in each}
    for name, kind in kinds.items():
        comments = _comments(getattr(config, name))
        for field, value in kind["properties"].items():
            value.pop("title", None)
            if field in comments:
                value["description"] = comments[field]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _comments(kind: type) -> dict[str, str]:
    """Return the comment above each field of a dataclass, those of its base classes included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        above: list[str] = []
        for line in inspect.getsource(each).splitlines():
            if line.startswith("    # "):
                above.append(line.removeprefix("    # "))
            elif (field := re.match(r"    (\w+):", line)) and above:
                found[field[1]] = " ".join(above)
            if not line.startswith("    # "):
                above = []
    return found


def main() -> int:
    """Run the command and return its exit status: 1 if there is no such environment."""
    parser = argparse.ArgumentParser(prog="python -m infra.cdk.environments")
    parser.add_argument("environment", nargs="?")
    chosen = parser.parse_args()
    if chosen.environment is None:
        print(json.dumps(schema(), indent=2))  # noqa: T201
        return 0
    try:
        environment = environment_of(chosen.environment)
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(json.dumps({"prefix": environment.prefix, "region": environment.region}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
