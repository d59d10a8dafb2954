"""The functions that only AWS runs: the API's authorizer and the function that keeps the streaming job running."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.cdk.code import _handlers
from infra.cdk.handlers import copy_audit, keep_job, start_run

ARN = "arn:aws:execute-api:eu-central-1:000000000000:api/live/GET/v1/metrics"


HANDLERS = sorted(path.stem for path in Path(copy_audit.__file__).parent.glob("*.py") if path.stem != "__init__")


def test_handlers_are_imported_from_their_package_alone() -> None:
    """Lambda imports a module by its name, at the top of the package, without the checkout."""
    folder = _handlers(None)
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {', '.join(HANDLERS)}; import infra.cdk.handlers"
    code += f"; print({', '.join(f'{name}.__file__' for name in HANDLERS)}, infra.cdk.handlers.__file__)"
    done = run([sys.executable, "-P", "-c", code], cwd="/", check=True, capture_output=True, text=True)
    expected = [folder / f"{name}.py" for name in HANDLERS] + [folder / "infra/cdk/handlers/__init__.py"]
    assert done.stdout.split() == [str(path) for path in expected]


# --- the streaming job ------------------------------------------------------------------------------------------------

JOB = {"applicationId": "application", "name": "masscomm-new"}


class Emr:
    def __init__(self, **runs: tuple[str, str]) -> None:
        self.runs = dict(runs)
        self.tokens: dict[str, str] = {}

    def get_paginator(self, name: str) -> "Emr":
        assert name == "list_job_runs"
        return self

    def paginate(self, *, applicationId: str) -> list[dict[str, Any]]:
        assert applicationId == "application"
        at = datetime(2026, 11, 21, tzinfo=UTC)
        found = [
            {"id": id, "name": name, "state": state, "createdAt": at.replace(minute=number)}
            for number, (id, (name, state)) in enumerate(self.runs.items())
        ]
        return [{"jobRuns": found[:1]}, {"jobRuns": found[1:]}]

    def cancel_job_run(self, *, applicationId: str, jobRunId: str) -> None:
        self.runs[jobRunId] = (self.runs[jobRunId][0], "CANCELLING")

    def start_job_run(self, *, clientToken: str, applicationId: str, name: str) -> dict[str, str]:
        """A token starts one run: https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StartJobRun.html"""
        id = self.tokens.setdefault(clientToken, f"started {len(self.tokens)}")
        self.runs.setdefault(id, (name, "SUBMITTED"))
        return {"jobRunId": id}


@pytest.mark.parametrize("over", ["FAILED", "CANCELLED", "SUCCESS"])
def test_ended_run_is_started_again(over: str) -> None:
    emr = Emr(old=("masscomm-new", over))
    assert keep_job.keep(emr, JOB) == "started"
    assert keep_job.keep(emr, JOB) == "waiting"


@pytest.mark.parametrize("state", ["SUBMITTED", "PENDING", "QUEUED", "SCHEDULED"])
def test_run_that_waits_for_capacity_does_not_run(state: str) -> None:
    """https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/job-states.html"""
    emr = Emr(new=("masscomm-new", state))
    assert keep_job.keep(emr, JOB) == "waiting"
    emr.runs["new"] = ("masscomm-new", "RUNNING")
    assert keep_job.keep(emr, JOB) == "running"
    assert not emr.tokens


def test_new_job_starts_once_the_old_run_has_ended() -> None:
    emr = Emr(old=("masscomm-old", "RUNNING"))
    assert keep_job.keep(emr, JOB) == "cancelled"
    assert keep_job.keep(emr, JOB) == "waiting"
    assert not emr.tokens
    emr.runs["old"] = ("masscomm-old", "CANCELLED")
    assert keep_job.keep(emr, JOB) == "started"


def test_younger_of_two_runs_is_cancelled() -> None:
    emr = Emr(first=("masscomm-new", "RUNNING"), second=("masscomm-new", "PENDING"))
    assert keep_job.keep(emr, JOB) == "cancelled"
    assert emr.runs == {"first": ("masscomm-new", "RUNNING"), "second": ("masscomm-new", "CANCELLING")}
    assert keep_job.keep(emr, JOB) == "running"


def test_two_keepers_at_once_start_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have listed the runs before the other starts one."""
    emr = Emr(old=("masscomm-new", "FAILED"))
    listed = emr.paginate(applicationId="application")
    monkeypatch.setattr(emr, "paginate", lambda **_: listed)
    assert [keep_job.keep(emr, JOB), keep_job.keep(emr, JOB)] == ["started", "started"]
    assert len(emr.tokens) == 1
    monkeypatch.undo()
    (id,) = emr.tokens.values()
    emr.runs[id] = ("masscomm-new", "FAILED")
    assert keep_job.keep(emr, JOB) == "started"
    assert len(emr.tokens) == 2


REQUEST: dict[str, Any] = {
    "applicationId": "application",
    "name": "masscomm-dev",
    "executionRoleArn": "a role",
    "retryPolicy": {"maxFailedAttemptsPerHour": 5},
    "jobDriver": {"sparkSubmit": {"entryPoint": "s3://code", "sparkSubmitParameters": "--conf a=1 --conf b=2"}},
}


@pytest.mark.parametrize(
    "change",
    [
        {"executionRoleArn": "another role"},
        {"retryPolicy": {"maxFailedAttemptsPerHour": 6}},
        {"jobDriver": {"sparkSubmit": {"entryPoint": "s3://code", "sparkSubmitParameters": "--conf a=1 --conf b=3"}}},
        {"mode": "STREAMING"},
    ],
)
def test_each_change_of_the_request_is_another_run(change: dict[str, Any]) -> None:
    """The order of a JSON object's members is not a change."""
    name = keep_job.named(REQUEST)["name"]
    assert name.startswith("masscomm-dev-")
    assert keep_job.named(dict(reversed(REQUEST.items())))["name"] == name
    assert keep_job.named(REQUEST | change)["name"] != name


def test_job_keeper_emits_whether_the_job_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    emr = Emr()

    class Parameters:
        def get_parameter(self, *, Name: str) -> dict[str, dict[str, str]]:
            assert Name == "/masscomm-dev/streaming-job"
            return {"Parameter": {"Value": json.dumps(JOB)}}

    monkeypatch.setenv("JOB_PARAMETER", "/masscomm-dev/streaming-job")
    monkeypatch.setenv("APPLICATION", "masscomm-dev-metrics")
    clients = {"emr-serverless": emr, "ssm": Parameters()}
    monkeypatch.setattr(boto3, "client", clients.__getitem__)
    assert keep_job.handler({}, None) == {"action": "started"}
    emr.runs = {id: (name, "RUNNING") for id, (name, _) in emr.runs.items()}
    assert keep_job.handler({}, None) == {"action": "running"}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["JobRunning"], each["JobStarts"]) for each in lines] == [(0, 1), (1, 0)]
    assert lines[0]["application"] == "masscomm-dev-metrics"
    assert lines[0]["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "masscomm"


def test_daily_run_is_started_once_in_spite_of_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    class Client:
        def get_parameter(self, *, Name: str) -> dict[str, dict[str, str]]:
            assert Name == "/masscomm-dev/archive-runs"
            stored = {"name": "masscomm-dev-archive", "jobDriver": {"sparkSubmit": {"sparkSubmitParameters": "--conf"}}}
            return {"Parameter": {"Value": json.dumps(stored)}}

        def start_job_run(self, *, clientToken: str, **request: Any) -> dict[str, str]:
            started.setdefault(clientToken, request)
            return {"jobRunId": "a run"}

    monkeypatch.setenv("RUN_PARAMETER", "/masscomm-dev/archive-runs")
    monkeypatch.setattr(boto3, "client", lambda _: Client())
    event = {"name": "recompute", "entryPoint": "s3://b/recompute.py", "arguments": ["--day-before"]}
    for _ in range(2):
        assert start_run.handler(event, SimpleNamespace(aws_request_id="one")) == {"run": "a run"}
    ((token, request),) = started.items()
    assert 1 <= len(token) <= 64
    assert request["name"] == "masscomm-dev-archive-recompute"
    assert request["jobDriver"]["sparkSubmit"] == {
        "sparkSubmitParameters": "--conf",
        "entryPoint": "s3://b/recompute.py",
        "entryPointArguments": ["--day-before"],
    }


def test_each_change_of_the_audit_log_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated batch keeps what the first one stored."""
    monkeypatch.setenv("BUCKET", "locked")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    added, deleted = (
        {
            "eventName": name,
            "dynamodb": {
                "SequenceNumber": str(number),
                "ApproximateCreationDateTime": 1_700_000_000.0,
                "Keys": {"club": {"S": "7"}},
                f"{image}Image": {"subject": {"S": "s"}},
            },
        }
        for number, (name, image) in enumerate((("INSERT", "New"), ("REMOVE", "Old")), 11)
    )
    with mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        copy_audit.handler({"Records": [added]}, None)
        copy_audit.handler({"Records": [added, deleted]}, None)
        versions = s3.list_object_versions(Bucket="locked")["Versions"]
        assert {each["Key"] for each in versions} == {"2023-11-14/11.jsonl"}
        texts = [
            s3.get_object(Bucket="locked", Key=each["Key"], VersionId=each["VersionId"])["Body"].read().decode()
            for each in versions
        ]
    stored = sorted(([json.loads(line) for line in text.splitlines()] for text in texts), key=len)
    assert [[(each["change"], each["SequenceNumber"]) for each in lines] for lines in stored] == [
        [("INSERT", "11")],
        [("INSERT", "11"), ("REMOVE", "12")],
    ]
    assert stored[1][1]["OldImage"] == {"subject": {"S": "s"}}
