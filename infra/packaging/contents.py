"""Determines the contents of a function's package from the imports of its handler: our modules, and third-party
distributions.

The imports are read from the sources. Imports inside a function count; imports for the type checker do not.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import grimp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from functions.catalogue import read_catalogue

ROOT = Path(__file__).parents[2]
_ROOMS = ("masscomm", "functions", "schemas")
# zoneinfo imports tzdata only if the machine has no time zones, so the import graph does not contain it.
_ZONES = "tzdata"
# Distributions that Lambda's runtime already contains.
_EXCLUDED = {"awslambdaric"}
# The values of environment markers in requirements: those of Lambda's python3.13 on arm64.
_MARKERS = {
    "python_version": "3.13",
    "python_full_version": "3.13.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "aarch64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "os_name": "posix",
}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of one package."""

    name: str
    # The module of the handler, or the module that a library is for.
    handler: str
    # Our modules in the package.
    modules: frozenset[str]
    # The canonical names of the distributions that our modules import.
    direct: frozenset[str]
    # The distributions in `direct` and their requirements.
    distributions: frozenset[str]


def package_handlers() -> dict[str, str]:
    """Return the module of the handler of every package in functions.yaml, by the package's name."""
    handlers = {
        entry.handler.removesuffix(".handler").split(".")[1]: entry.handler.rpartition(".")[0]
        for entry in read_catalogue(generation="any")
    }
    # A function that shares the handler of another function still needs a package with its own name.
    return handlers | {entry.package: entry.handler.rpartition(".")[0] for entry in read_catalogue(generation="any")}


def all_contents() -> list[Contents]:
    """Return the contents of every package in functions.yaml, sorted by name."""
    return [contents_of(name, handler) for name, handler in sorted(package_handlers().items())]


def library_contents() -> list[Contents]:
    """Return the contents of the packages that handlers of infra/cdk/handlers import."""
    return [contents_of("access_tokens", "masscomm.http.access_tokens")]


def contents_of(name: str, handler: str) -> Contents:
    """Return the contents of one package.

    Raises:
        KeyError: An imported module belongs to no installed distribution.
    """
    graph = _graph()
    upstream = graph.find_upstream_modules(handler) | {handler}
    ours = {module for module in upstream if module.partition(".")[0] in _ROOMS}
    with_parents = {".".join(module.split(".")[:depth]) for module in ours for depth in range(1, module.count(".") + 2)}
    outside = {module for module in upstream - ours if module not in sys.stdlib_module_names}
    direct = {_distribution(module) for module in outside}
    if "zoneinfo" in upstream:
        direct.add(_ZONES)
    return Contents(
        name=name,
        handler=handler,
        modules=frozenset(with_parents),
        direct=frozenset(direct),
        distributions=_with_requirements(direct),
    )


def runtime_distributions() -> frozenset[str]:
    """Return the distributions in Lambda's Python runtime: its runtime client, and boto3 with all service models."""
    return _with_requirements(["boto3"]) | _required("awslambdaric")


def image_distributions() -> frozenset[str]:
    """Return the distributions of masscomm's own image: those that its modules import, and their requirements."""
    graph = grimp.build_graph(
        *_ROOMS,
        "cli",
        "ops",
        "directory_state",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
    own = {path.name for path in ROOT.iterdir() if path.is_dir()}
    outside = {module for module in graph.modules if graph.is_module_squashed(module)}
    outside -= {module for module in outside if module in sys.stdlib_module_names or module in own}
    # boto3 for infra.provision; the graph has no module of infra.
    return _with_requirements({"boto3", _ZONES} | {_distribution(each) for each in outside if each in _by_module()})


def source_of(module: str) -> Path:
    """Return the source file of one of our modules."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        *_ROOMS, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


@cache
def _by_module() -> Mapping[str, Sequence[str]]:
    return metadata.packages_distributions()


def _distribution(module: str) -> str:
    return canonicalize_name(_by_module()[module][0])


def _with_requirements(names: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    pending = [(name, extra) for name in names for extra in ("", *_extras().get(name, ()))]
    seen = set(pending)
    while pending:
        name, extra = pending.pop()
        if name in _EXCLUDED:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate(_MARKERS | {"extra": extra}):
                continue
            for wanted in ("", *requirement.extras):
                step = (canonicalize_name(requirement.name), wanted)
                if step not in seen:
                    seen.add(step)
                    pending.append(step)
    return frozenset(found)


def _required(name: str) -> frozenset[str]:
    """Return a distribution and its direct requirements without extras."""
    wanted = [Requirement(line) for line in metadata.requires(name) or ()]
    needed = [each.name for each in wanted if each.marker is None or each.marker.evaluate(_MARKERS | {"extra": ""})]
    return frozenset({name} | {canonicalize_name(each) for each in needed})


@cache
def _extras() -> Mapping[str, tuple[str, ...]]:
    """Return the extras of each distribution in requirements/main.in."""
    lines = (ROOT / "requirements" / "main.in").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(each.name): tuple(sorted(each.extras)) for each in wanted}
