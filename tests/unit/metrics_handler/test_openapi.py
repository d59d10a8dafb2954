"""The OpenAPI description lists every route and parameter, and equals the published one."""

import importlib
from pathlib import Path

import pytest
import yaml

import functions
from functions.metrics_handler import handler, openapi
from functions.metrics_handler.routes.metrics import PARAMETERS

ROOT = Path(next(iter(functions.__path__))).parent
DEPLOYED = yaml.safe_load((ROOT / "functions" / "functions.yaml").read_text())["functions"]


@pytest.mark.parametrize("package", ["metrics_handler", "send_handler"])
def test_the_routes_are_those_that_are_deployed(package: str) -> None:
    entry = f"functions.{package}.handler.handler"
    deployed = {route for each in DEPLOYED.values() if each["handler"] == entry for route in each.get("routes", ())}
    api = importlib.import_module(f"functions.{package}.handler").api
    assert {f"{method} {path}" for method, path in api.routes} == deployed


def test_every_route_is_described() -> None:
    paths = openapi.document()["paths"]
    described = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    assert described == set(handler.api.routes)
    assert [each["name"] for each in paths["/v1/sends/{send_id}"]["get"]["parameters"]] == ["send_id"]
    assert all(operation["summary"] for operations in paths.values() for operation in operations.values())


def test_every_parameter_is_described() -> None:
    operation = openapi.document()["paths"]["/v1/metrics"]["get"]
    assert [each["name"] for each in operation["parameters"]] == list(PARAMETERS)
    assert {each["name"] for each in operation["parameters"] if each["required"]} == {"granularity", "start", "end"}
    assert all(each["description"] for each in operation["parameters"])
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/csv"}


def test_published_openapi_is_the_generated_one() -> None:
    written: list[str] = []
    openapi.main(written.append)
    published = ROOT / "docs" / "openapi" / "metrics_handler.json"
    assert published.read_text() == "".join(written), "python -m functions.metrics_handler.openapi > docs/openapi/…"
