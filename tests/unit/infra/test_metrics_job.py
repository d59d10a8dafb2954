"""The Spark jobs of a deployed environment are stopped before EMR Serverless changes their applications."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.cdk.examples import PROD
from infra.metrics_job import start, stop
from tests.support.cdk.templates import SynthesisedEnvironment


class Aws:
    """A fake of boto3's clients of Lambda, Systems Manager and EMR Serverless.

    Args:
        runs: The active runs of each application in turn, one list for each look at them.
        states: The states of each application, in order.

    Attributes:
        calls: The changing calls, in order.
    """

    def __init__(self, runs: dict[str, list[list[str]]], states: dict[str, list[str]]) -> None:
        self.runs, self.states = runs, states
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, _: str) -> "Aws":
        return self

    def put_function_concurrency(self, *, FunctionName: str, ReservedConcurrentExecutions: int) -> None:
        self.calls.append(("limit", FunctionName, str(ReservedConcurrentExecutions)))

    def delete_function_concurrency(self, *, FunctionName: str) -> None:
        self.calls.append(("permit", FunctionName))

    def get_parameter(self, *, Name: str) -> dict[str, Any]:
        application = {"streaming-job": "stream", "events-job": "events", "erase-job": "others"}[
            Name.removeprefix("/masscomm-prod/")
        ]
        return {"Parameter": {"Value": json.dumps({"applicationId": application})}}

    def get_paginator(self, operation: str) -> "Aws":
        assert operation == "list_job_runs"
        return self

    def paginate(self, *, applicationId: str, states: list[str]) -> Iterator[dict[str, Any]]:
        assert "RUNNING" in states
        assert "SUCCESS" not in states
        found = self.runs[applicationId].pop(0)
        yield {"jobRuns": [{"id": f"run-{n}", "name": "a run", "state": state} for n, state in enumerate(found)]}

    def cancel_job_run(self, *, applicationId: str, jobRunId: str) -> None:
        self.calls.append(("cancel", applicationId, jobRunId))

    def get_application(self, *, applicationId: str) -> dict[str, Any]:
        return {"application": {"state": self.states[applicationId].pop(0)}}

    def stop_application(self, *, applicationId: str) -> None:
        self.calls.append(("stop", applicationId))


def test_streaming_runs_are_cancelled_and_others_awaited() -> None:
    aws = Aws(
        {"stream": [["RUNNING"], ["CANCELLING"], [], [], []], "others": [["RUNNING"], [], []]},
        {"stream": ["STARTED", "STOPPING", "STOPPED"], "others": ["STARTED", "STOPPED"]},
    )
    pauses, lines = list[float](), list[str]()
    stop(aws, PROD, pauses.append, lines.append)
    assert aws.calls == [
        ("limit", "masscomm-prod-keep-job", "0"),
        ("cancel", "stream", "run-0"),
        ("stop", "stream"),
        ("stop", "others"),
    ]
    assert len(pauses) == 4 + 2
    assert lines[-1] == "The application of erase-job is stopped."


@pytest.mark.parametrize("state", ["CREATED", "STOPPED"])
def test_a_stopped_application_is_left_alone(state: str) -> None:
    aws = Aws({"stream": [[]], "others": [[]]}, {"stream": [state], "others": [state]})
    stop(aws, PROD, lambda _: None, lambda _: None)
    assert aws.calls == [("limit", "masscomm-prod-keep-job", "0")]


def test_a_start_permits_keep_job_to_run() -> None:
    aws = Aws({}, {})
    start(aws, PROD)
    assert aws.calls == [("permit", "masscomm-prod-keep-job")]


def test_job_of_own_topics_is_stopped_and_started_too() -> None:
    environment = replace(PROD, event_sources="examples/event_sources.yaml")
    aws = Aws(
        {"stream": [[]], "events": [["RUNNING"], []], "others": [[]]},
        {"stream": ["STOPPED"], "events": ["STOPPED"], "others": ["STOPPED"]},
    )
    stop(aws, environment, lambda _: None, lambda _: None)
    start(aws, environment)
    assert aws.calls == [
        ("limit", "masscomm-prod-keep-job", "0"),
        ("limit", "masscomm-prod-keep-events-job", "0"),
        ("cancel", "events", "run-0"),
        ("permit", "masscomm-prod-keep-job"),
        ("permit", "masscomm-prod-keep-events-job"),
    ]


def test_the_function_and_the_parameters_are_deployed(prod: SynthesisedEnvironment) -> None:
    functions = {each.properties.get("FunctionName") for each in prod.resources("AWS::Lambda::Function")}
    assert "masscomm-prod-keep-job" in functions
    parameters = {each.properties["Name"] for each in prod.resources("AWS::SSM::Parameter")}
    assert {"/masscomm-prod/streaming-job", "/masscomm-prod/erase-job"} <= parameters
