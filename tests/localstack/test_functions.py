"""Functions deployed to LocalStack run without Docker, with their package and the libraries of Lambda's runtime.

`make test` runs these tests; test_deployment.py deploys everything.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from local.devstack.deployed.cloud import Cloud

type Invoke = Callable[..., tuple[str | None, Any]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """LocalStack with our plug-ins, without the external servers."""
    with Cloud(StackConfig.on_free_ports(tmp_path_factory.mktemp("functions")), servers=()) as started:
        yield started


CODE = """
import json, os, sys, time
if os.environ.get("BROKEN"): raise RuntimeError("no such setting")
def handler(event, context):
    match event["do"]:
        case "echo": return {"event": event, "function": context.function_name, "pid": os.getpid(), "path": sys.path}
        case "exit": os._exit(3)
        case "sleep": time.sleep(60)
"""


@pytest.fixture
def invoke(cloud: Cloud) -> Iterator[Invoke]:
    """Create a function of CODE, invoke it, and remove it after the test."""
    functions, made = cloud.client("lambda"), dict[str, str]()

    def invoked(do: str, **variables: str) -> tuple[str | None, Any]:
        key = json.dumps(variables)
        if key not in made:
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w") as written:
                written.writestr("function.py", CODE)
            made[key] = f"function-{uuid4()}"
            functions.create_function(
                FunctionName=made[key],
                Runtime="python3.13",
                Role="arn:aws:iam::000000000000:role/any",
                Handler="function.handler",
                Code={"ZipFile": archive.getvalue()},
                Timeout=2,
                Environment={"Variables": variables},
            )
            functions.get_waiter("function_active_v2").wait(FunctionName=made[key], WaiterConfig={"Delay": 1})
        answer = functions.invoke(FunctionName=made[key], Payload=json.dumps({"do": do}))
        return answer.get("FunctionError"), json.loads(answer["Payload"].read())

    yield invoked
    for name in made.values():
        functions.delete_function(FunctionName=name)


def test_function_sees_only_its_package_and_the_runtime(invoke: Invoke) -> None:
    error, answer = invoke("echo")
    assert error is None
    assert answer["event"] == {"do": "echo"}
    assert not [path for path in answer["path"] if "/.venv/" in path or "localstack-venv" in path]


def test_an_environment_serves_one_invocation_after_another(invoke: Invoke) -> None:
    assert invoke("echo")[1]["pid"] == invoke("echo")[1]["pid"]


def test_failed_invocation_is_followed_by_a_new_process(
    invoke: Invoke,
) -> None:
    first = invoke("echo")[1]["pid"]
    error, answer = invoke("exit")
    assert (error, answer["errorType"]) == ("Unhandled", "Runtime.ExitError")
    second = invoke("echo")[1]["pid"]
    error, answer = invoke("sleep")
    assert (error, answer["errorType"]) == ("Unhandled", "Sandbox.Timedout")
    assert len({first, second, invoke("echo")[1]["pid"]}) == 3


def test_function_that_fails_to_start_returns_its_error(invoke: Invoke) -> None:
    error, answer = invoke("echo", BROKEN="1")
    assert (error, answer["errorMessage"]) == ("Unhandled", "no such setting")
