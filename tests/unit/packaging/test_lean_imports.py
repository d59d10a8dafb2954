"""The third-party modules that a cold start imports, by handler; other modules would make it slower.

Other modules are imported by the first invocation, or ahead of it where Lambda prepares environments
(docs/decisions/058-own-clients.md).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from functions.catalogue import read_catalogue

ROOT = Path(__file__).parents[3]
HANDLERS = sorted({entry.handler.removesuffix(".handler") for entry in read_catalogue(generation="any")})

# Powertools is imported for its logger, botocore for its errors.
ALLOWED = {"aws_lambda_powertools", "botocore", "jmespath", "typing_extensions"}
# The first request needs pydantic, which imports tempfile; forecasts and lists of templates compile templates, too.
VALIDATING = {"annotated_types", "pydantic", "pydantic_core", "tempfile", "typing_inspection"}
FIRST_REQUEST = {
    "functions.send_handler.handler": VALIDATING,
    "functions.send_handler.previews": VALIDATING | {"jinja2", "markupsafe"},
}
# Modules that no handler may load at import: whole SDKs, clients of servers, Spark, the CDK.
NEVER = {
    *("boto3", "botocore.client", "botocore.session", "s3transfer", "opensearchpy", "aiohttp", "requests", "httpx"),
    *("confluent_kafka", "fastavro", "urllib3", "psycopg", "psycopg_pool", "jinja2", "pydantic", "yaml"),
    *("aws_cdk", "jsii", "pyspark", "local", "asyncio", "email.message"),
    # Powertools' route resolver imports every kind of event; importlib.resources imports tempfile for archives.
    *("aws_lambda_powertools.event_handler", "aws_lambda_powertools.utilities.data_classes", "tempfile"),
}

LISTED = """
import json, sys
before = set(sys.modules)
__import__(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _imported(handler: str, **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LISTED, handler],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("handler", HANDLERS)
def test_handler_imports_only_allowed_packages_at_start(handler: str) -> None:
    imported = _imported(handler)
    needed = FIRST_REQUEST.get(handler, set())
    assert not imported & NEVER - needed
    ours = {"masscomm", "functions", "schemas"}
    others = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) - ours
    assert {name for name in others if not name.startswith("_")} <= ALLOWED | needed


@pytest.mark.parametrize("kind", ["snap-start", "provisioned-concurrency"])
def test_prepared_environment_imports_working_packages_ahead(kind: str) -> None:
    imported = _imported("functions.builder.handler", AWS_LAMBDA_INITIALIZATION_TYPE=kind)
    assert {"confluent_kafka", "fastavro.schema", "urllib3", "jinja2"} <= imported
    assert "confluent_kafka" not in _imported("functions.builder.handler", AWS_LAMBDA_INITIALIZATION_TYPE="on-demand")
