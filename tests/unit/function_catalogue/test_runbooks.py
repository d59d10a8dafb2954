"""Runbooks name only routes and request headers that the REST API has."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
ROUTES = {
    re.sub(r"\{\w+\}", "{}", route)
    for function in yaml.safe_load((ROOT / "functions" / "functions.yaml").read_text())["functions"].values()
    for route in function.get("routes", [])
}

SOURCES = [*(ROOT / "functions").rglob("*.py"), *(ROOT / "masscomm").rglob("*.py")]


@pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda path: path.stem)
def test_a_runbook_names_routes_that_exist(runbook: Path) -> None:
    named = re.findall(r"\b((?:GET|POST|PUT|PATCH|DELETE) /v1/[\w/{}.-]*[\w}])", runbook.read_text())
    assert {re.sub(r"\{\w+\}", "{}", route) for route in named} <= ROUTES


def test_runbooks_name_an_idempotency_key_once_it_is_read() -> None:
    is_read = any("idempotency-key" in path.read_text().lower() for path in SOURCES)
    named = [path.stem for path in RUNBOOKS if "idempotency-key" in path.read_text().lower()]
    assert is_read or named == []
