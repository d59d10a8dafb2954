"""The functions' code as assets: the package `make package` has built, else the bare sources.

    infra/package/NAME.zip             everything that the function NAME imports, for python3.13 on arm64
    infra/package/spark_metrics.zip    what the streaming job imports beside our sources, for EMR's Python on arm64

Without packages the sources are staged, which is enough to synthesise, compare and test templates anywhere, and not to
run: nothing they depend on is in there. MASSCOMM_REQUIRE_PACKAGES=1 refuses that: docs/deploying.md. MASSCOMM_PACKAGES
names another folder than infra/package.
"""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

ROOT = Path(__file__).parents[2]
# What a function may import of ours; the layers contracts of pyproject.toml say the same.
_ROOMS = ("masscomm", "functions", "schemas")


class NotPackaged(Exception):
    """A deployment was asked for, and there is nothing to deploy."""


def function_code(package: str) -> lambda_.Code:
    """What the function NAME and its lanes are deployed from. Errors: NotPackaged."""
    archive = _packages() / f"{package}.zip"
    if archive.exists():
        return lambda_.Code.from_asset(str(archive))
    if os.environ.get("MASSCOMM_REQUIRE_PACKAGES") == "1":
        raise NotPackaged(f"{archive} is not there: run `make package` first")
    return lambda_.Code.from_asset(str(staged_sources()))


def job_dependencies() -> Path:
    """The archive of what spark_metrics imports, for EMR's Python on arm64. Errors: NotPackaged."""
    archive = _packages() / "spark_metrics.zip"
    if archive.exists():
        return archive
    if os.environ.get("MASSCOMM_REQUIRE_PACKAGES") == "1":
        raise NotPackaged(f"{archive} is not there: run `make package-job` first")
    # A folder that says what would stand in the archive.
    return staged_sources(("requirements",))


def _packages() -> Path:
    return Path(os.environ.get("MASSCOMM_PACKAGES") or ROOT / "infra" / "package")


@cache
def staged_sources(rooms: tuple[str, ...] = _ROOMS) -> Path:
    """A folder with the sources of these rooms, while this process lives; assets are named by what is in them."""
    target = Path(tempfile.mkdtemp(prefix="masscomm-sources-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for room in rooms:
        shutil.copytree(ROOT / room, target / room, ignore=shutil.ignore_patterns("__pycache__"))
    return target
