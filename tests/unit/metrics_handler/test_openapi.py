"""The description lists every route, every parameter, and is the one that is published."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import functions
from functions.metrics_handler import openapi
from functions.metrics_handler.query_metrics import PARAMETERS

ROOT = Path(next(iter(functions.__path__))).parent
DEPLOYED = yaml.safe_load((ROOT / "functions" / "functions.yaml").read_text())["functions"]


@pytest.mark.filterwarnings("ignore")  # of the generator's own
@pytest.mark.parametrize("package", ["metrics_handler", "send_handler"])
def test_a_generated_description_has_the_routes_that_are_deployed(package: str) -> None:
    handler = f"functions.{package}.handler.handler"
    routes = {route for each in DEPLOYED.values() if each["handler"] == handler for route in each.get("routes", ())}
    app = importlib.import_module(f"functions.{package}.handler").app
    described: dict[str, Any] = json.loads(app.get_openapi_json_schema(title=package))
    assert described["openapi"].startswith("3.1")
    found = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    assert found == routes


def test_every_parameter_is_described() -> None:
    operation = openapi.document()["paths"]["/v1/metrics"]["get"]
    assert [each["name"] for each in operation["parameters"]] == list(PARAMETERS)
    assert {each["name"] for each in operation["parameters"] if each["required"]} == {"granularity", "start", "end"}
    assert all(each["description"] for each in operation["parameters"])
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/csv"}


def test_what_is_published_is_what_is_generated() -> None:
    written: list[str] = []
    openapi.main(written.append)
    published = ROOT / "docs" / "openapi" / "metrics_handler.json"
    assert published.read_text() == "".join(written), "python -m functions.metrics_handler.openapi > docs/openapi/…"
