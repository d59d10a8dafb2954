"""Our packages and stacks on LocalStack: what is deployed is there, does its work, and is gone when it is destroyed.

One deployment serves every test here. `make deploy-local` does the same with change sets, and waits for the schedule.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from devstack.deployed.allowed import read_allowed
from devstack.deployed.cloud import Cloud
from devstack.deployed.trial import Trial, run
from devstack.settings import StackSettings
from functions.catalogue import read_catalogue

ALLOWED = {(each.stack, each.type) for each in read_allowed()}
KINDS = ("Function", "Alias", "Version")

type Invoke = Callable[..., tuple[str | None, Any]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> Iterator[Cloud]:
    """LocalStack with our plug-ins, and the servers beside it."""
    with Cloud(StackSettings.on_free_ports(tmp_path_factory.mktemp("deployed"))) as started:
        yield started


@pytest.fixture(scope="module")
def trial(cloud: Cloud) -> Trial:
    """Deployed, used and destroyed, once."""
    return run(cloud, whole=False)


# --- the deployment ---


def test_every_resource_is_there_or_stands_in_the_reviewed_list(trial: Trial) -> None:
    assert not [each for each in trial.missing if each[:2] not in ALLOWED]
    assert len(trial.resources) > 300


def test_the_reviewed_list_names_nothing_that_is_there(trial: Trial) -> None:
    assert {each[:2] for each in trial.missing} == ALLOWED


def test_every_function_of_the_catalogue_is_deployed_with_its_alias(trial: Trial) -> None:
    wanted = {f"masscomm-local-{entry.name}" for entry in read_catalogue(generation="g1")}
    deployed = {kind: [id for _, each, id in trial.resources if each == f"AWS::Lambda::{kind}"] for kind in KINDS}
    assert wanted <= set(deployed["Function"])
    assert len(deployed["Alias"]) == len(deployed["Version"]) == len(wanted)


def test_nothing_differs_from_what_was_deployed(trial: Trial) -> None:
    assert "Number of stacks with differences: 0" in trial.diff


def test_destroying_it_leaves_nothing(trial: Trial) -> None:
    assert trial.left == {}


# --- what it does ---


def test_a_send_through_the_deployed_functions_is_pushed_once_to_every_device_that_wants_it(trial: Trial) -> None:
    assert trial.now is not None
    assert trial.now.answer.status == 202
    assert trial.now.answer.body["requested"] == trial.now.expected.requested
    assert len(trial.now.endpoints) == trial.now.expected.provider_calls > 0
    assert trial.now.pushed == trial.now.must_be_pushed


def test_who_has_no_key_or_another_club_s_is_not_let_in(trial: Trial) -> None:
    statuses = {what: answer.status for what, answer in trial.refused.items()}
    assert statuses == {"no key": 401, "unknown key": 403, "a key of another club": 403}
    # The gateway's own errors are problems, too, where templates of gateway responses are applied.
    assert trial.refused["a key of another club"].body["title"] == "Forbidden"


def test_metrics_are_read_from_the_database_that_was_given(trial: Trial) -> None:
    assert trial.read is not None
    assert (trial.read.status, trial.read.body["rows"]) == (200, [])


# --- functions without Docker ---

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
    """Makes a function of CODE, invokes it, and removes it after the test."""
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


def test_a_function_sees_its_package_and_lambda_s_runtime_and_nothing_of_this_checkout(invoke: Invoke) -> None:
    error, answer = invoke("echo")
    assert error is None
    assert answer["event"] == {"do": "echo"}
    assert not [path for path in answer["path"] if "/.venv/" in path or "localstack-venv" in path]


def test_an_environment_serves_one_invocation_after_another(invoke: Invoke) -> None:
    assert invoke("echo")[1]["pid"] == invoke("echo")[1]["pid"]


def test_a_function_that_exits_or_takes_too_long_is_an_error_and_the_next_invocation_has_another_process(
    invoke: Invoke,
) -> None:
    first = invoke("echo")[1]["pid"]
    error, answer = invoke("exit")
    assert (error, answer["errorType"]) == ("Unhandled", "Runtime.ExitError")
    second = invoke("echo")[1]["pid"]
    error, answer = invoke("sleep")
    assert (error, answer["errorType"]) == ("Unhandled", "Sandbox.Timedout")
    assert len({first, second, invoke("echo")[1]["pid"]}) == 3


def test_a_function_that_cannot_begin_says_why(invoke: Invoke) -> None:
    error, answer = invoke("echo", BROKEN="1")
    assert (error, answer["errorMessage"]) == ("Unhandled", "no such setting")
