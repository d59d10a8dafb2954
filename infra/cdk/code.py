"""Returns the functions' code as CDK assets: the package that `make package` built, else only the sources.

    infra/package/NAME.zip             everything that the function NAME imports, for python3.13 on arm64
    infra/package/access_tokens.zip    the library of the API's authorizer, where people sign in
    infra/package/spark_metrics.zip    the dependencies of the streaming job, for EMR's Python on arm64

Without packages, only the sources are used, without their dependencies. The templates can then be synthesised, compared
and tested, but the functions cannot run. MASSCOMM_REQUIRE_PACKAGES=1 makes missing packages an error
(docs/deploying.md). MASSCOMM_PACKAGES names another folder than infra/package.
"""

import atexit
import os
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

from masscomm.domain.source_tables import source_file, source_name

ROOT = Path(__file__).parents[2]
_HANDLERS = Path(__file__).parent / "handlers"
# The packages that a function may import; the layers contracts of pyproject.toml name the same ones.
_ROOMS = ("masscomm", "functions", "schemas")
# The file of the monolith's tables in a package, whatever MASSCOMM_SOURCE names.
_SOURCE = "schemas/source.yaml"
# The file of the organisation's own topics in the sources of their job, whatever the environment names.
EVENT_SOURCES = "event_sources.yaml"


# The packages and modules of masscomm's own image.
_IMAGE_ROOMS = (*_ROOMS, "cli", "ops", "directory_state")
_IMAGE_MODULES = ("infra/__init__.py", "infra/provision.py", "infra/cdk/__init__.py", "infra/cdk/profiles.py")


class NotPackaged(Exception):
    """MASSCOMM_REQUIRE_PACKAGES is 1 and a package is missing."""


def packages_required() -> bool:
    """Return whether the templates are for a deployment, and not only for reading."""
    return os.environ.get("MASSCOMM_REQUIRE_PACKAGES") == "1"


def function_code(package: str) -> lambda_.Code:
    """Return the code asset of a function, which is the same for each of its lanes (kinds of sends).

    Raises:
        NotPackaged: The package is missing and required.
    """
    archive = _archive(package)
    return lambda_.Code.from_asset(str(staged_sources() if archive is None else archive))


def handler_code(library: str | None = None) -> lambda_.Code:
    """Return the code asset of the modules in infra/cdk/handlers, with a library that they import.

    Raises:
        NotPackaged: The package of the library is missing and required.
    """
    return lambda_.Code.from_asset(str(_handlers(library)))


def job_dependencies() -> Path:
    """Return the archive of spark_metrics' dependencies, for EMR's Python on arm64.

    Raises:
        NotPackaged: The archive is missing and required.
    """
    archive = _packages() / "spark_metrics.zip"
    if archive.exists():
        return archive
    if packages_required():
        raise NotPackaged(f"{archive} does not exist: run `make package-job` first")
    # A placeholder that changes whenever the pinned requirements change, as the archive would.
    return staged_sources(("requirements",))


@cache
def image_files() -> dict[str, bytes]:
    """Return our files in masscomm's own image, by their names."""
    names = [path for room in _IMAGE_ROOMS for path in (ROOT / room).rglob("*") if "__pycache__" not in path.parts]
    names += [ROOT / name for name in _IMAGE_MODULES]
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sorted(names) if path.is_file()}
    return files | {_SOURCE: source_file().read_bytes()}


@cache
def console_files() -> Path:
    """Return a temporary folder with the built files of the console, and those of the documentation in `docs`.

    Raises:
        NotPackaged: One of them is not built, and packages are required.
    """
    target = Path(tempfile.mkdtemp(prefix="masscomm-console-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for name, script, folder in (("dist", "build", target), ("dist-docs", "docs", target / "docs")):
        built = ROOT / "web" / name
        if (built / "index.html").exists():
            shutil.copytree(built, folder, dirs_exist_ok=True)
        elif packages_required():
            raise NotPackaged(f"{built} does not exist: run `npm run {script} --prefix web` first")
        else:
            shutil.copytree(ROOT / "web" / "public", folder, dirs_exist_ok=True)
    return target


def _archive(package: str) -> Path | None:
    """Return the archive of a package; None if it is neither there nor required.

    Raises:
        NotPackaged: The archive is missing and required, or has other tables of the monolith than the stacks that this
            process synthesises: the permissions and topics would not fit the function.
    """
    archive = _packages() / f"{package}.zip"
    if archive.exists():
        with zipfile.ZipFile(archive) as files:
            if files.read(_SOURCE) != source_file().read_bytes():
                raise NotPackaged(
                    f"{archive} was built with another file than {source_name()}: run `make package` with the same"
                    " MASSCOMM_SOURCE"
                )
        return archive
    if packages_required():
        raise NotPackaged(f"{archive} does not exist: run `make package` first")
    return None


@cache
def _handlers(library: str | None) -> Path:
    """Return a temporary folder with the modules of infra/cdk/handlers, and those of a package.

    Lambda finds a handler at the top. The modules are at their own path, too, as they import each other.
    """
    target = Path(tempfile.mkdtemp(prefix="masscomm-handlers-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    archive = None if library is None else _archive(library)
    if archive is not None:
        with zipfile.ZipFile(archive) as package:
            package.extractall(target)
    elif library is not None:
        shutil.copytree(staged_sources(("masscomm",)), target, dirs_exist_ok=True)
    path = _HANDLERS.relative_to(ROOT)
    for folder in (target, target / path):
        shutil.copytree(_HANDLERS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for parent in path.parents[:-1]:
        shutil.copyfile(ROOT / parent / "__init__.py", target / parent / "__init__.py")
    return target


def _packages() -> Path:
    return Path(os.environ.get("MASSCOMM_PACKAGES") or ROOT / "infra" / "package")


@cache
def staged_sources(rooms: tuple[str, ...] = _ROOMS, event_sources: str | None = None) -> Path:
    """Return a temporary folder with the sources of these packages; it is deleted when the process exits.

    Args:
        rooms: The packages.
        event_sources: A file of the checkout that is copied to the folder as EVENT_SOURCES.
    """
    target = Path(tempfile.mkdtemp(prefix="masscomm-sources-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for room in rooms:
        shutil.copytree(ROOT / room, target / room, ignore=shutil.ignore_patterns("__pycache__"))
    if "schemas" in rooms:
        shutil.copyfile(source_file(), target / _SOURCE)
    if event_sources is not None:
        shutil.copyfile(ROOT / event_sources, target / EVENT_SOURCES)
    return target
