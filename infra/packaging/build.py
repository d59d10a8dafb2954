"""Builds reproducible packages from pinned wheels of the target platform, with only the needed files."""

import marshal
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from infra.packaging.contents import ROOT, Contents, source_of
from masscomm.domain.source_tables import source_file

LOCK = ROOT / "requirements" / "main.txt"
UV = ROOT / ".devstack" / "uv" / "bin" / "uv"
# The platform of the wheels. Lambda's python3.13 runs on Amazon Linux 2023 with glibc 2.34, which is compatible with
# wheels for 2.28.
TARGET = "aarch64-manylinux_2_28"
# Files that functions do not need: other byte code, stubs, sources of extensions, tests, and dist-info except METADATA.
_EXCLUDED = {".pyc", ".pyi", ".pyx", ".pxd", ".c", ".h"}
_NEVER = {"__pycache__", "tests", "test", "testing"}
# Module → the service that it calls by boto3 (masscomm/aws/sdk.py).
_MODELS = {"masscomm.operations.alarms": "cloudwatch"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
# A flag in byte code files (PEP 552, unchecked hash): Python does not compare the byte code with its source. A package
# is read-only in Lambda.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
# Version 2 of marshal writes no references; references depend on other objects in this process, so the bytes would
# differ.
_MARSHAL = 2


@dataclass(frozen=True, kw_only=True)
class Built:
    """The result of building one package."""

    name: str
    path: Path
    zipped_bytes: int
    # The unpacked size in bytes.
    bytes: int
    # The number of files.
    files: int


def build(contents: Sequence[Contents], target: Path, *, platform: str = TARGET, level: int = 6) -> list[Built]:
    """Build a zip for each function.

    Args:
        contents: The contents of each package.
        target: The folder for the zips.
        platform: The target platform, as uv names it.
        level: The level of compression; 1 takes a third of the time of 6.

    Raises:
        CalledProcessError: A wheel is not available or differs from the locked one.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        install(frozenset(name for each in contents for name in each.distributions), site, platform=platform)
        found = Distribution.discover(path=[folder])
        distributions: dict[str, Distribution] = {canonicalize_name(each.name): each for each in found}
        target.mkdir(parents=True, exist_ok=True)
        return [_zip(each, distributions, site, target / f"{each.name}.zip", level) for each in contents]


def install(names: Iterable[str], target: Path, *, platform: str) -> None:
    """Unpack the wheels of exactly these distributions, in the versions that the lock file has."""
    locked = _locked()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write("".join(locked[name] for name in sorted(names)))
        requirements.flush()
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet", "--link-mode", "copy"]
        where = ["--target", str(target), "--python-platform", platform, "--python-version", "3.13"]
        subprocess.run([UV, "pip", "install", *options, *where, "-r", requirements.name], check=True)


def _locked() -> dict[str, str]:
    """Return the lines of each distribution in the lock file."""
    found: dict[str, str] = {}
    name = ""
    for line in LOCK.read_text().splitlines(keepends=True):
        if not line.startswith((" ", "#", "\n")):
            name = canonicalize_name(line.partition("==")[0].partition("[")[0].strip())
        if name and not line.lstrip().startswith("#"):
            found[name] = found.get(name, "") + line
    return found


def _zip(contents: Contents, distributions: dict[str, Distribution], site: Path, path: Path, level: int) -> Built:
    paths = dict(_ours(contents))
    models = {service for module, service in _MODELS.items() if module in contents.modules}
    for name in contents.distributions:
        paths |= dict(_theirs(distributions[name], site, models))
    files = {name: path.read_bytes() for name, path in paths.items()}
    # Byte code is included: Lambda cannot store it, so each cold start would compile all imported modules.
    files |= {cache_from_source(name): _compiled(name, data) for name, data in files.items() if name.endswith(".py")}
    size = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name in sorted(files):
            size += len(files[name])
            # Time and owner are constant, so that the same input results in the same bytes.
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return Built(name=contents.name, path=path, zipped_bytes=path.stat().st_size, bytes=size, files=len(files))


@cache
def _compiled(name: str, source: bytes) -> bytes:
    """Return the byte code of a module for its `__pycache__`; only the running Python version can use it."""
    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(source) + marshal.dumps(code, _MARSHAL)


def _ours(contents: Contents) -> Iterator[tuple[str, Path]]:
    for module in contents.modules:
        path = source_of(module)
        if path.exists():
            yield path.relative_to(ROOT).as_posix(), path
    # The functions read the schemas as files, so the import graph does not contain them.
    for path in sorted((ROOT / "schemas").rglob("*")):
        inside = path.relative_to(ROOT)
        if path.is_file() and not {"__pycache__", "examples", "cdc_examples", "tables"} & set(inside.parts):
            yield inside.as_posix(), path
    # Lambda needs no variable: the file that MASSCOMM_SOURCE names replaces the repository's.
    yield "schemas/source.yaml", source_file()


def _theirs(distribution: Distribution, site: Path, models: set[str]) -> Iterator[tuple[str, Path]]:
    for file in distribution.files or ():
        path = site / file
        if path.is_file() and _is_needed(PurePosixPath(file), models):
            yield PurePosixPath(file).as_posix(), path


def _is_needed(file: PurePosixPath, models: set[str]) -> bool:
    parts = file.parts
    if ".." in parts or parts[0] == "bin" or file.suffix in _EXCLUDED or _NEVER & set(parts[:-1]):
        return False
    if parts[0].endswith(".dist-info"):
        return file.name == "METADATA"
    # boto3's models of resources, and botocore's models of services that the function does not call by boto3, are
    # omitted.
    if parts[:2] == ("botocore", "data") and len(parts) > 3:
        return parts[2] in models
    return parts[:2] not in (("boto3", "data"), ("boto3", "examples"))
