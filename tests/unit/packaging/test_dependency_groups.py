"""The dependency groups of pyproject.toml are those of requirements/*.in, and name what the functions import."""

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.packaging.contents import all_contents
from local.devstack.config import ROOT

GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def resolved(name: str) -> list[str]:
    """Return the requirements of a group, with those of the groups that it includes."""
    found = list[str]()
    for each in GROUPS[name]:
        found += [each] if isinstance(each, str) else resolved(each["include-group"])
    return found


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


@pytest.mark.parametrize(("group", "file"), [("development", "main.in"), ("job", "job.in")])
def test_a_group_has_the_requirements_of_its_file(group: str, file: str) -> None:
    lines = (ROOT / "requirements" / file).read_text().splitlines()
    assert sorted(resolved(group)) == sorted(line for line in lines if line and not line.startswith("#"))


def test_the_functions_import_their_group_alone() -> None:
    imported = {name for contents in all_contents() for name in contents.direct}
    # Requirements of boto3 and pydantic, whose versions these choose.
    indirect = {"botocore", "urllib3", "pydantic-core"}
    assert imported - names(resolved("functions")) == indirect


def test_the_functions_group_has_no_tool_of_the_stack() -> None:
    assert names(resolved("functions")) & names(["httpx", "pyspark", "pytest", "rich", "typer", "aiohttp"]) == set()
